#include "simulator/cli/serving_validation.h"

#include <cctype>
#include <filesystem>

#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;
using serve::MeasuredRun;

// "meta-llama/Llama-3.1-8B" as "llama318b".
std::string Plain(const std::string& name) {
  std::string plain;
  for (const char c : name.substr(name.rfind('/') + 1)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

// The workload file of the longest name that the model's begins with: releases and tunings of a
// model share its sizes.
absl::StatusOr<TransformerConfig> FindModel(const std::string& model) {
  const std::string plain = Plain(model);
  const ShippedFile* best = nullptr;
  const std::vector<ShippedFile> files = ListShipped(kWorkloads);
  for (const ShippedFile& file : files) {
    if (!plain.starts_with(Plain(file.name))) continue;
    if (best == nullptr || file.name.size() > best->name.size()) best = &file;
  }
  if (best == nullptr) {
    return InvalidInput("model '{}': no file of traces/workloads is named like it", model);
  }
  FORETRACE_ASSIGN_OR_RETURN(const ModelFile file, LoadModel(best->path));
  if (!file.transformer) return InvalidInput("{}: is not a transformer", best->path);
  return *file.transformer;
}

// DIR itself, or its folder named HARDWARE_MODEL_tpN like the run's.
absl::StatusOr<std::string> FindProfile(const ServingValidationOptions& options,
                                        const MeasuredRun& run) {
  fs::path run_folder = fs::path(options.run).lexically_normal();
  if (!run_folder.has_filename()) run_folder = run_folder.parent_path();
  const fs::path root = options.profiles.empty()
                            ? run_folder.parent_path().parent_path() / "profiles"
                            : fs::path(options.profiles);
  std::error_code error;
  if (fs::exists(root / "dense.csv", error)) return root.string();
  const std::string suffix = fmt::format("_tp{}", run.tensor_parallel);
  const std::string name = run_folder.filename().string();
  const std::string hardware = name.substr(0, name.find('_'));
  const std::string model = run.model.substr(run.model.rfind('/') + 1);
  for (const std::string& candidate : {name + suffix, name, hardware + "_" + model + suffix}) {
    if (fs::exists(root / candidate / "dense.csv", error)) return (root / candidate).string();
  }
  return InvalidInput(
      "{}: has neither dense.csv nor a folder {}: name the folder of layer profiles with "
      "--profiles",
      root.string(), name + suffix);
}

// The workload that the run names, where it lies beside.
std::string WorkloadOf(const ServingValidationOptions& options, const MeasuredRun& run) {
  if (run.dataset.empty()) return "";
  fs::path folder = fs::path(options.run).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string stem = fs::path(run.dataset).stem().string();
  const fs::path file = folder.parent_path().parent_path() / "workloads" / (stem + ".csv");
  std::error_code error;
  return fs::exists(file, error) ? file.string() : "";
}

}  // namespace

absl::StatusOr<serve::RunValidation> ValidateServing(const ServingValidationOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(MeasuredRun run, serve::ReadMeasuredRun(options.run));
  FORETRACE_ASSIGN_OR_RETURN(const TransformerConfig model, FindModel(run.model));
  FORETRACE_ASSIGN_OR_RETURN(const std::string folder, FindProfile(options, run));
  FORETRACE_ASSIGN_OR_RETURN(serve::LayerProfile profile, serve::ReadLayerProfile(folder));
  std::vector<std::string> notes;
  const std::string workload = WorkloadOf(options, run);
  if (run.engine.prefix_caching && !workload.empty()) {
    FORETRACE_RETURN_IF_ERROR(
        serve::AddSharedPrefixes(workload, run.engine.block_tokens, run.trace));
  } else if (run.engine.prefix_caching) {
    notes.push_back("no workload file lies beside the run: no prefix is taken to be shared");
  }
  const serve::ProfiledModel sizes = {static_cast<int32_t>(model.layers), model.hidden,
                                      static_cast<int32_t>(model.experts),
                                      static_cast<int32_t>(model.top_k)};
  const auto step = serve::MakeProfileStepModel(
      std::make_shared<serve::LayerProfile>(std::move(profile)), sizes, run.engine, nullptr);
  FORETRACE_ASSIGN_OR_RETURN(serve::RunValidation result, serve::ValidateRun(run, step));
  result.notes = std::move(notes);
  return result;
}

}  // namespace foretrace
