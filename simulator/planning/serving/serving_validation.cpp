#include "simulator/planning/serving/serving_validation.h"

#include <algorithm>
#include <filesystem>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"
#include "simulator/importers/io/input_file.h"
#include "simulator/planning/mappings/profile_folder.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/planning/serving/serving_costs.h"
#include "simulator/planning/serving/serving_job.h"
#include "simulator/serve/engine_exchanges.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;
using serve::MeasuredRun;

// Releases and tunings of a model share its sizes ("Meta-Llama-3.1-8B-Instruct"). `notes` learns
// which was taken.
absl::StatusOr<TransformerConfig> FindModel(const std::string& model,
                                            std::vector<std::string>& notes) {
  const absl::StatusOr<std::string> path = FindWorkload(model, notes);
  std::error_code error;
  if (!path.ok() || !fs::exists(*path, error)) {
    return InvalidInput("model '{}': no file of traces/workloads is named like it", model);
  }
  FORETRACE_ASSIGN_OR_RETURN(TransformerConfig config, LoadServedModel(*path, notes));
  config.name = fs::path(*path).stem().string();
  return config;
}

fs::path RunFolder(const ServingValidationOptions& options) {
  const fs::path folder = fs::absolute(fs::path(options.run)).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

// Where layer profiles are looked for.
fs::path ProfilesOf(const ServingValidationOptions& options) {
  return options.profiles.empty() ? RunFolder(options).parent_path().parent_path() / "profiles"
                                  : fs::path(options.profiles);
}

// The workload that the run names: in workloads/ two folders above the run, or beside the profiles,
// or one above.
std::string WorkloadOf(const ServingValidationOptions& options, const MeasuredRun& run) {
  if (run.dataset.empty()) return "";
  const std::string file = fs::path(run.dataset).stem().string() + ".csv";
  const fs::path profiles = fs::absolute(ProfilesOf(options)).lexically_normal();
  const fs::path beside =
      profiles.has_filename() ? profiles.parent_path() : profiles.parent_path().parent_path();
  for (const fs::path& folder : {RunFolder(options).parent_path().parent_path(), RunFolder(options),
                                 beside, beside.parent_path()}) {
    std::error_code error;
    if (const fs::path at = folder / "workloads" / file; fs::exists(at, error)) return at.string();
  }
  return "";
}

// The platform whose device is the run's.
absl::StatusOr<PlatformSpec> PlatformOf(const ServingValidationOptions& options,
                                        const MeasuredRun& run) {
  if (!options.platform.empty()) return FindPlatform(options.platform, run.tensor_parallel);
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  const std::string folder = RunFolder(options).filename().string();
  const std::string label = run.device.empty() ? folder.substr(0, folder.find('_')) : run.device;
  const Accelerator* device = catalog.Find(label);
  if (device != nullptr) {
    for (const ShippedFile& file : ListShipped(kPlatforms)) {
      const auto platform = LoadPlatform(file.path);
      if (!platform.ok() || platform->node.accelerator.name != device->name) continue;
      if (platform->node.devices >= run.tensor_parallel) return platform;
    }
  }
  return InvalidInput(
      "{}: no file of topologies/ has {} of '{}' in a node: name one with --platform", run.folder,
      run.tensor_parallel, label);
}

// Where tokens and experts of all data-parallel engines are spread over all devices, as vLLM
// spreads experts with expert parallelism and without.
bool SharesExperts(const MeasuredRun& run, const TransformerConfig& model) {
  return model.experts > 0 && run.data_parallel > 1;
}

struct Transfers {
  std::shared_ptr<const serve::RankExchange> ranks;
  std::shared_ptr<const serve::EngineExchange> exchange;
};

// What the run's meta.json leaves out: blocks of the cache, the context, transfers between devices.
absl::Status Complete(const ServingValidationOptions& options, const TransformerConfig& model,
                      MeasuredRun& run, Transfers& transfers) {
  if (run.engine.max_model_len == 0) {
    for (const serve::Request& r : run.trace.requests) {
      run.engine.max_model_len =
          std::max(run.engine.max_model_len, r.input_tokens + r.output_tokens);
    }
    run.notes.push_back(fmt::format("the run does not say its context: {}, of its longest request",
                                    run.engine.max_model_len));
  }
  if (run.pipeline_parallel > 1) {
    run.notes.push_back(
        fmt::format("what {} stages send one another is left out", run.pipeline_parallel));
  }
  const bool shares = SharesExperts(run, model);
  if (run.engine.kv_blocks > 0 && run.tensor_parallel == 1 && !shares) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const PlatformSpec platform, PlatformOf(options, run));
  if (run.engine.kv_blocks == 0) {
    serve::ServingPlan plan;
    plan.tensor = run.tensor_parallel;
    plan.pipeline = run.pipeline_parallel;
    if (shares) plan.data = run.data_parallel, plan.expert = true;
    const Bytes memory = run.device_memory.count() > 0 ? run.device_memory
                                                       : platform.node.accelerator.visible_memory();
    FORETRACE_ASSIGN_OR_RETURN(run.engine, run.engine.OfRank(shares ? run.data_parallel : 1));
    run.engine.kv_blocks = serve::MakeLedger(model, plan, run.engine, memory).blocks;
    run.notes.push_back(
        fmt::format("the run does not say how large its KV cache is: {} blocks by "
                    "the memory of {}",
                    run.engine.kv_blocks, platform.name));
  }
  if (run.tensor_parallel == 1 && !shares) return absl::OkStatus();
  const Accelerator& device = platform.node.accelerator;
  run.engine.all_reduce = run.engine.On(device.name, device.visible_memory()).all_reduce;
  FORETRACE_ASSIGN_OR_RETURN(const auto costs, MakeDeviceCosts(platform, "auto", false, run.notes));
  transfers.ranks = serve::MakeRankExchange(run.engine, costs, run.tensor_parallel);
  if (shares) transfers.exchange = serve::MakeEngineExchange(costs, run.data_parallel);
  run.notes.push_back(
      fmt::format("{} over {} devices: {}", shares ? "sums and tokens to experts" : "sums",
                  run.tensor_parallel * (shares ? run.data_parallel : 1), costs->Source()));
  return absl::OkStatus();
}

// What prompts of the run begin alike, by the workload that it names.
void SharePrefixes(const ServingValidationOptions& options, MeasuredRun& run) {
  if (!run.engine.prefix_caching) return;
  const std::string workload = WorkloadOf(options, run);
  if (workload.empty()) {
    run.notes.push_back(
        "no workload file lies beside the run or the profiles: no prefix is taken "
        "to be shared");
    return;
  }
  // A workload of another length or order says nothing of this run's prefixes.
  const absl::Status shared = serve::AddSharedPrefixes(workload, run);
  if (shared.ok()) return;
  run.notes.push_back(
      fmt::format("no prefix is taken to be shared: {}", std::string(shared.message())));
}

// Skews of all profiles lie in one archive beside them.
absl::Status AddArchivedSkew(const std::string& folder, serve::LayerProfile& profile) {
  fs::path path = fs::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "profiles/X/"
  const std::string archive = (path.parent_path() / "skew.tar.xz").string();
  std::error_code error;
  if (fs::exists(path / "skew.csv", error) || !fs::exists(archive, error)) return absl::OkStatus();
  const std::string member = path.filename().string() + "/skew.csv";
  const auto file = InputFile::Open(archive, InputLimits(), member);
  if (!file.ok()) return absl::OkStatus();  // of other profiles
  FORETRACE_ASSIGN_OR_RETURN(ByteSource * source, (*file)->NextDocument());
  if (source == nullptr) return absl::OkStatus();
  std::string text;
  while (true) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view more, source->Next());
    if (more.empty()) break;
    if (text.size() + more.size() > static_cast<size_t>(kMaxTableBytes)) {
      return InvalidInput("{}:{}: is larger than {} bytes", archive, member, kMaxTableBytes);
    }
    text += more;
  }
  return AddSkew(archive + ":" + member, std::move(text), profile);
}

}  // namespace

absl::StatusOr<serve::PreparedRun> PrepareRun(const ServingValidationOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(MeasuredRun run, serve::ReadMeasuredRun(options.run));
  FORETRACE_ASSIGN_OR_RETURN(const TransformerConfig model, FindModel(run.model, run.notes));
  FORETRACE_RETURN_IF_ERROR(serve::CheckUniform(model));
  FORETRACE_ASSIGN_OR_RETURN(const std::string folder,
                             FindProfileFolder(ProfilesOf(options).string(), run));
  FORETRACE_ASSIGN_OR_RETURN(serve::LayerProfile profile,
                             serve::ReadLayerProfile(folder, run.tensor_parallel));
  FORETRACE_RETURN_IF_ERROR(AddArchivedSkew(folder, profile));
  for (std::string& note : ProfileNotes(folder, run)) run.notes.push_back(std::move(note));
  Transfers transfers;
  FORETRACE_RETURN_IF_ERROR(Complete(options, model, run, transfers));
  SharePrefixes(options, run);
  run.engines_in_step = SharesExperts(run, model);
  const serve::ProfiledModel sizes = {static_cast<int32_t>(model.layers),
                                      model.hidden,
                                      model.vocabulary,
                                      static_cast<int32_t>(model.experts),
                                      static_cast<int32_t>(model.top_k),
                                      run.engines_in_step ? run.data_parallel : 1};
  FORETRACE_RETURN_IF_ERROR(serve::CheckProfile(profile, sizes));
  const auto step = serve::MakeProfileStepModel(
      std::make_shared<serve::LayerProfile>(std::move(profile)), sizes, run.engine,
      std::move(transfers.ranks), std::move(transfers.exchange));
  return serve::PreparedRun{std::move(run), step};
}

absl::StatusOr<serve::RunValidation> ValidateServing(const ServingValidationOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(serve::PreparedRun prepared, PrepareRun(options));
  std::vector<std::string> notes = prepared.run.notes;
  if (!options.step_factors.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const serve::StepFactors factors,
                               serve::ReadStepFactors(options.step_factors));
    NoteOthers(factors, prepared.run.model, prepared.run.device, notes);
    prepared.steps = serve::WithFactors(prepared.steps, factors);
  }
  FORETRACE_ASSIGN_OR_RETURN(serve::RunValidation result,
                             serve::ValidateRun(prepared.run, prepared.steps));
  result.notes = std::move(notes);
  return result;
}

}  // namespace foretrace
