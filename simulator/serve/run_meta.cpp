#include "simulator/serve/run_meta.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace::serve {
namespace {

constexpr int32_t kMaxSize = 1 << 24;

void DropUnstated(YAML::Node node) {
  if (!node.IsMap()) return;
  std::vector<std::string> unstated;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) continue;
    const YAML::Node& value = entry.second;
    if (value.IsNull() || (value.IsScalar() && value.Scalar().starts_with('<'))) {
      unstated.push_back(entry.first.Scalar());
    } else {
      DropUnstated(value);
    }
  }
  for (const std::string& key : unstated) node.remove(key);
}

// "0.19.0rc1" as {0, 19}; nullopt: no number begins it.
std::optional<std::pair<int, int>> ReleaseOf(std::string_view version) {
  int major = 0, minor = 0;
  const char* end = version.data() + version.size();
  auto [at, code] = std::from_chars(version.data(), end, major);
  if (code != std::errc()) return std::nullopt;
  if (at != end && *at == '.') std::from_chars(at + 1, end, minor);
  return std::pair(major, minor);
}

// "compilation_config" of vLLM: no graphs are captured.
bool RunsEagerly(const YAML::Node& root) {
  const YAML::Node kwargs = root["engine_kwargs"], resolved = root["resolved_config"];
  const auto is = [](const YAML::Node& section, const char* key, std::string_view value) {
    return section.IsDefined() && section.IsMap() && section[key].IsDefined() &&
           section[key].IsScalar() && section[key].Scalar() == value;
  };
  if (is(kwargs, "enforce_eager", "true")) return true;
  if (!resolved.IsDefined() || !resolved.IsMap()) return false;
  const YAML::Node compilation = resolved["compilation_config"];
  return is(resolved["model_config"], "enforce_eager", "true") ||
         is(compilation, "cudagraph_mode", "0") || is(compilation, "cudagraph_mode", "NONE");
}

void ReadKvCache(const YamlReader& in, EngineConfig& engine) {
  for (const char* key : {"num_gpu_blocks_override", "num_gpu_blocks"}) {
    engine.kv_blocks = in.Integer(key, 1, std::numeric_limits<int32_t>::max(),
                                  static_cast<int32_t>(engine.kv_blocks));
  }
  if (in.Has("kv_cache_memory_bytes")) {
    engine.kv_memory = Bytes(std::llround(in.Number("kv_cache_memory_bytes", 1, 1e15)));
  }
  const std::string type = in.String(
      "cache_dtype", in.String("kv_cache_dtype", engine.kv_cache_width == 1 ? "fp8" : ""));
  engine.kv_cache_width = type.starts_with("fp8") || type == "int8" ? 1 : 0;
  engine.block_tokens = in.Integer("block_size", 1, 1 << 16, engine.block_tokens);
  engine.prefix_caching = in.Bool("enable_prefix_caching", engine.prefix_caching);
  engine.memory_utilization =
      in.Number("gpu_memory_utilization", 0.01, 1, engine.memory_utilization);
}

// `policy_key`: what the section calls the policy.
void ReadScheduler(const YamlReader& in, const char* policy_key, EngineConfig& engine) {
  engine.chunked_prefill = in.Bool("enable_chunked_prefill", engine.chunked_prefill);
  engine.asynchronous = in.Bool("async_scheduling", engine.asynchronous);
  engine.reserve_full_input = in.Bool("scheduler_reserve_full_isl", engine.reserve_full_input);
  engine.max_num_batched_tokens =
      in.Integer("max_num_batched_tokens", 1, kMaxSize, engine.max_num_batched_tokens);
  engine.max_num_seqs = in.Integer("max_num_seqs", 1, kMaxSize, engine.max_num_seqs);
  engine.long_prefill_threshold =
      in.Integer("long_prefill_token_threshold", 0, kMaxSize, engine.long_prefill_threshold);
  const std::string policy = in.String(policy_key, Name(engine.policy));
  if (policy == Name(AdmissionPolicy::kPriority)) {
    engine.policy = AdmissionPolicy::kPriority;
  } else if (policy != Name(AdmissionPolicy::kFcfs)) {
    in.Fail(policy_key, fmt::format("'{}' is neither fcfs nor priority", policy));
  }
}

void ReadEngineArguments(const YamlReader& in, MeasuredRun& run) {
  EngineConfig& e = run.engine;
  run.tensor_parallel = in.Integer("tensor_parallel_size", 1, 1 << 16, 1);
  run.pipeline_parallel = in.Integer("pipeline_parallel_size", 1, 1 << 16, 1);
  run.data_parallel = in.Integer("data_parallel_size", 1, 1 << 16, 1);
  if (in.Bool("disable_custom_all_reduce", false)) e.all_reduce = {};
  ReadScheduler(in, "scheduling_policy", e);
  e.max_model_len = in.Integer("max_model_len", 1, kMaxTokens, 0);
  ReadKvCache(in, e);
}

void ReadResolved(const YamlReader& in, MeasuredRun& run) {
  EngineConfig& e = run.engine;
  if (in.Has("scheduler_config")) ReadScheduler(in.Child("scheduler_config"), "policy", e);
  if (in.Has("cache_config")) ReadKvCache(in.Child("cache_config"), e);
  if (in.Has("model_config")) {
    e.max_model_len =
        in.Child("model_config").Integer("max_model_len", 1, kMaxTokens, e.max_model_len);
  }
  if (in.Has("parallel_config")) {
    const YamlReader parallel = in.Child("parallel_config");
    const auto degree = [&](const char* key, int32_t stated) {
      return parallel.Integer(key, 1, 1 << 16, stated);
    };
    run.tensor_parallel = degree("tensor_parallel_size", run.tensor_parallel);
    run.pipeline_parallel = degree("pipeline_parallel_size", run.pipeline_parallel);
    run.data_parallel = degree("data_parallel_size", run.data_parallel);
    if (parallel.Bool("disable_custom_all_reduce", false)) e.all_reduce = {};
  }
  if (!in.Has("compilation_config")) return;
  const YamlReader graphs = in.Child("compilation_config");
  if (!graphs.Has("cudagraph_capture_sizes")) return;
  e.graph_sizes = graphs.Integers("cudagraph_capture_sizes", 1, kMaxSize);
  std::sort(e.graph_sizes.begin(), e.graph_sizes.end());
}

// A setting that changes times and is none of this model's; `usual`: as which it changes nothing.
struct LeftOut {
  const char* section;
  const char* key;
  const char* usual;
  const char* what;
};
constexpr LeftOut kLeftOut[] = {
    {"", "speculative_config", "", "speculative decoding, whose acceptance the run does not say"},
    {"", "kv_transfer_config", "", "transfers of keys and values to and from other engines"},
    {"", "lora_config", "", "adapters"},
    {"cache_config", "kv_offloading_size", "0", "a tier of keys and values in the host's memory"},
    {"model_config", "quantization", "", "quantisation, where the profile is not of it too"},
    {"parallel_config", "decode_context_parallel_size", "1",
     "division of decodes' keys and values"},
    {"parallel_config", "prefill_context_parallel_size", "1", "division of prompts by position"},
    {"parallel_config", "enable_dbo", "false", "steps in two halves that overlap"},
    {"parallel_config", "enable_eplb", "false", "balancing of experts"},
    {"scheduler_config", "max_num_partial_prefills", "1", "several prompts that wait in part"},
};

void NoteLeftOut(const YAML::Node& root, std::vector<std::string>& notes) {
  const YAML::Node resolved = root["resolved_config"];
  if (!resolved.IsDefined() || !resolved.IsMap()) return;
  for (const LeftOut& out : kLeftOut) {
    const bool top = *out.section == '\0';
    const YAML::Node section = top ? resolved : resolved[out.section];
    if (!section.IsDefined() || !section.IsMap()) continue;
    const YAML::Node value = section[out.key];
    if (!value.IsDefined() || (value.IsScalar() && value.Scalar() == out.usual)) continue;
    notes.push_back(fmt::format("left out: {} ({})", out.what, out.key));
  }
}

// What is stated as something else than a mapping would be passed over.
void ExpectSections(const YamlReader& root) {
  for (const char* key : {"engine_kwargs", "kv_cache", "hardware", "resolved_config"}) {
    if (root.Has(key) && !root.Child(key).IsMap()) root.Fail(key, "must be a mapping");
  }
}

absl::Status ReadSections(const YamlReader& root, const std::string& file, MeasuredRun& run) {
  run.model = root.String("model");
  run.dataset = root.String("dataset_path", "");
  const bool sglang = root.Has("sglang_version") && !root.Has("vllm_version");
  run.release = root.String(sglang ? "sglang_version" : "vllm_version");
  ExpectSections(root);
  if (!root.ok()) return root.status();
  const auto engine = LoadRelease(sglang ? "sglang" : "vllm", run.release, run.notes);
  if (!engine.ok()) return InvalidInput("{}: {}", file, std::string(engine.status().message()));
  run.engine = *engine;
  if (root.Has("engine_kwargs")) ReadEngineArguments(root.Child("engine_kwargs"), run);
  if (root.Has("kv_cache")) ReadKvCache(root.Child("kv_cache"), run.engine);
  if (root.Has("hardware")) {
    const YamlReader hardware = root.Child("hardware");
    run.device = hardware.String("device_name", "");
    run.device_memory =
        Bytes(std::llround(hardware.Number("device_total_memory_bytes", 0, 1e15, 0)));
  }
  if (root.Has("resolved_config")) ReadResolved(root.Child("resolved_config"), run);
  // The front end states the sum over its engines (vllm/v1/engine/utils.py).
  run.engine.kv_blocks /= run.data_parallel;
  run.engine.stages = run.pipeline_parallel;
  return root.status();
}

}  // namespace

absl::StatusOr<EngineConfig> LoadRelease(const std::string& engine, const std::string& version,
                                         std::vector<std::string>& notes) {
  const auto wanted = ReleaseOf(version);
  std::string best;
  std::pair<int, int> best_release;
  for (const ShippedFile& file : ListShipped(kEngines)) {
    if (!file.name.starts_with(engine + "-")) continue;
    const auto release = ReleaseOf(std::string_view(file.name).substr(engine.size() + 1));
    if (!release) continue;
    const auto is_below = [&](const std::pair<int, int>& r) { return !wanted || r <= *wanted; };
    const bool better = best.empty()                                   ? true
                        : is_below(*release) != is_below(best_release) ? is_below(*release)
                        : is_below(*release)                           ? *release > best_release
                                                                       : *release < best_release;
    if (!better) continue;
    best = file.name;
    best_release = *release;
  }
  if (best.empty()) {
    return InvalidInput("engine '{}' {}: no release of it is in {}", engine, version,
                        std::string(kEngines.folder));
  }
  if (!wanted || *wanted != best_release) {
    notes.push_back(fmt::format("{} {} is not described: scheduled as {}", engine, version, best));
  }
  return LoadEngine(best);
}

absl::Status ReadRunMeta(const std::string& file, MeasuredRun& run) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxYamlBytes));
  FORETRACE_ASSIGN_OR_RETURN(YAML::Node node, ParseYaml(text, file));
  try {
    DropUnstated(node);
    auto sink = std::make_shared<YamlSink>();
    sink->file = file;
    FORETRACE_RETURN_IF_ERROR(ReadSections(YamlReader(node, "", sink), file, run));
    if (RunsEagerly(node)) run.engine.graph_sizes.clear();
    NoteLeftOut(node, run.notes);
  } catch (const YAML::Exception& error) {
    return YamlError(file, error);
  }
  return absl::OkStatus();
}

}  // namespace foretrace::serve
