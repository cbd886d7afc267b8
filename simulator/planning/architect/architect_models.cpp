#include "simulator/planning/architect/architect_models.h"

#include <filesystem>
#include <system_error>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/capture/traced_model.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/replay/trace_options.h"
#include "simulator/workload/published_config.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {

bool IsRecording(const std::string& name) {
  std::error_code error;
  return !name.ends_with(".yaml") && !name.ends_with(".yml") && !NamesPublishedModel(name) &&
         std::filesystem::exists(name, error) && BehindFolder(name).empty();
}

absl::StatusOr<ArchitectModel> LoadArchitectModel(const std::string& name, int32_t samples,
                                                  const TrainingSetup& setup,
                                                  const CommandContext& context,
                                                  std::string& inputs,
                                                  std::vector<std::string>& notes) {
  if (!IsRecording(name)) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindWorkload(name, notes));
    FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxYamlBytes));
    inputs += text;
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile loaded, LoadModel(file));
    notes.insert(notes.end(), loaded.notes.begin(), loaded.notes.end());
    // The graph of transformers has one stack; an encoder and a decoder are operators in a row.
    if (!loaded.transformer || loaded.transformer->family == TransformerFamily::kT5) {
      absl::StatusOr<ArchitectModel> model = PrepareModel(loaded.workload, setup);
      if (model.ok()) return model;
      return absl::Status(model.status().code(),
                          fmt::format("{}: {}", file, std::string(model.status().message())));
    }
    TransformerConfig config = *loaded.transformer;
    config.name = loaded.workload.name;
    FORETRACE_RETURN_IF_ERROR(CheckTrainedAttention(config));
    return PrepareModel(config, setup);
  }
  if (samples == 0) {
    return InvalidInput("{}: say with --samples how many samples its recorded iteration has", name);
  }
  TraceOptions traces;
  traces.paths = {name};
  FORETRACE_ASSIGN_OR_RETURN(const auto store, traces.Load(context));
  TracedModelOptions options;
  options.samples = samples;
  FORETRACE_ASSIGN_OR_RETURN(TracedModel recorded, ModelOfTrace(*store, options));
  recorded.workload.name = std::filesystem::path(name).filename().string();
  inputs += WorkloadYaml(recorded);
  return PrepareModel(recorded.workload, setup);
}

}  // namespace foretrace
