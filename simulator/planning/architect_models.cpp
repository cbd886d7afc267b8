#include "simulator/planning/architect_models.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/planning/traced_layers.h"
#include "simulator/replay/trace_options.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {

bool IsRecording(const std::string& name) {
  return !name.ends_with(".yaml") && !name.ends_with(".yml") && std::filesystem::exists(name);
}

absl::StatusOr<ArchitectModel> LoadArchitectModel(const std::string& name, int32_t samples,
                                                  const TrainingSetup& setup,
                                                  const CommandContext& context,
                                                  std::string& inputs) {
  const absl::StatusOr<std::string> file = FindShipped(kWorkloads, name);
  if (!IsRecording(name)) {
    if (!file.ok()) return file.status();
    FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(*file, kMaxYamlBytes));
    inputs += text;
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile loaded, LoadModel(*file));
    if (!loaded.transformer) {
      return InvalidInput(
          "{}: architect needs the operators of a transformer; give a model file with the key "
          "'transformer', or a recording",
          *file);
    }
    TransformerConfig config = *loaded.transformer;
    config.name = loaded.workload.name;
    return PrepareModel(config, setup);
  }
  if (samples == 0) {
    return InvalidInput("{}: say with --samples how many samples its recorded iteration has", name);
  }
  TraceOptions traces;
  traces.paths = {name};
  FORETRACE_ASSIGN_OR_RETURN(const auto store, traces.Load(context));
  ArchitectModel model;
  model.name = std::filesystem::path(name).filename().string();
  std::set<int32_t> micro_batches(setup.micro_batches.begin(), setup.micro_batches.end());
  micro_batches.insert(samples);
  for (const int32_t micro_batch : micro_batches) {
    if (micro_batch > setup.global_batch) continue;
    absl::StatusOr<SlicedModel> layers = LayersOfRecording(*store, samples, micro_batch);
    if (absl::IsFailedPrecondition(layers.status())) continue;
    if (!layers.ok()) return layers.status();
    inputs += fmt::format("{} {} {} {:a} {}", name, samples, micro_batch,
                          layers->product_flop.count(), fmt::join(layers->chain, ","));
    model.slices.push_back(*std::move(layers));
  }
  if (model.slices.empty()) {
    return InvalidInput("{}: no micro-batch of {} or its {} samples fits in the {} of a batch",
                        name, fmt::join(setup.micro_batches, ", "), samples, setup.global_batch);
  }
  return model;
}

}  // namespace foretrace
