#include "simulator/serve/measured_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/shared_prefix.h"

namespace foretrace::serve {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kMaxSize = 1 << 24;

void ReadKvCache(const YamlReader& in, EngineConfig& engine) {
  engine.kv_blocks = in.Integer("num_gpu_blocks", 1, std::numeric_limits<int32_t>::max());
  engine.block_tokens = in.Integer("block_size", 1, 1 << 16, engine.block_tokens);
  engine.prefix_caching = in.Bool("enable_prefix_caching", engine.prefix_caching);
  engine.memory_utilization =
      in.Number("gpu_memory_utilization", 0.01, 1, engine.memory_utilization);
}

void ReadScheduler(const YamlReader& in, EngineConfig& engine) {
  engine.chunked_prefill = in.Bool("enable_chunked_prefill", engine.chunked_prefill);
  engine.asynchronous = in.Bool("async_scheduling", engine.asynchronous);
  engine.reserve_full_input = in.Bool("scheduler_reserve_full_isl", engine.reserve_full_input);
  engine.max_num_batched_tokens =
      in.Integer("max_num_batched_tokens", 1, kMaxSize, engine.max_num_batched_tokens);
  engine.max_num_seqs = in.Integer("max_num_seqs", 1, kMaxSize, engine.max_num_seqs);
  engine.long_prefill_threshold =
      in.Integer("long_prefill_token_threshold", 0, kMaxSize, engine.long_prefill_threshold);
  const std::string policy = in.String("policy", Name(engine.policy));
  if (policy == Name(AdmissionPolicy::kPriority)) engine.policy = AdmissionPolicy::kPriority;
}

// The release whose defaults are known that is nearest below the run's.
absl::StatusOr<EngineConfig> EngineOf(const std::string& version) {
  const size_t minor = version.find('.');
  const size_t patch = minor == std::string::npos ? minor : version.find('.', minor + 1);
  return LoadEngine("vllm-" + version.substr(0, patch));
}

absl::StatusOr<MeasuredRun> ReadMeta(const YamlReader& root) {
  MeasuredRun run;
  run.model = root.String("model");
  run.dataset = root.String("dataset_path", "");
  FORETRACE_ASSIGN_OR_RETURN(run.engine, EngineOf(root.String("vllm_version")));
  const YamlReader kwargs = root.Child("engine_kwargs");
  if (!root.ok()) return root.status();
  run.tensor_parallel = kwargs.Integer("tensor_parallel_size", 1, 1 << 16, 1);
  run.data_parallel = kwargs.Integer("data_parallel_size", 1, 1 << 16, 1);
  run.expert_parallel = kwargs.Bool("enable_expert_parallel", false);
  EngineConfig& e = run.engine;
  e.max_num_seqs = kwargs.Integer("max_num_seqs", 1, kMaxSize, e.max_num_seqs);
  e.max_num_batched_tokens =
      kwargs.Integer("max_num_batched_tokens", 1, kMaxSize, e.max_num_batched_tokens);
  e.max_model_len = kwargs.Integer("max_model_len", 1, kMaxTokens);
  if (root.Has("kv_cache")) ReadKvCache(root.Child("kv_cache"), e);
  if (root.Has("hardware")) {
    const YamlReader hardware = root.Child("hardware");
    run.device = hardware.String("device_name", "");
    run.device_memory =
        Bytes(std::llround(hardware.Number("device_total_memory_bytes", 0, 1e15, 0)));
  }
  if (root.Has("resolved_config")) {
    const YamlReader resolved = root.Child("resolved_config");
    if (resolved.Has("scheduler_config")) ReadScheduler(resolved.Child("scheduler_config"), e);
    if (resolved.Has("compilation_config")) {
      const YamlReader graphs = resolved.Child("compilation_config");
      if (graphs.Has("cudagraph_capture_sizes")) {
        e.graph_sizes = graphs.Integers("cudagraph_capture_sizes", 1, kMaxSize);
        std::sort(e.graph_sizes.begin(), e.graph_sizes.end());
      }
    }
  }
  if (!root.ok()) return root.status();
  return run;
}

absl::Status ReadRequests(const std::string& file, MeasuredRun& run) {
  FORETRACE_ASSIGN_OR_RETURN(CsvColumns table,
                             CsvColumns::Open(file, {"input_tokens", "output_tokens", "queued_s",
                                                     "last_token_s", "ttft_s", "tpot_s", "e2e_s"}));
  int32_t arrival = table.Also("client_arrival_s");
  if (arrival < 0) arrival = table.Also("planned_arrival_s");
  if (arrival < 0) {
    return InvalidInput("{}:1: the header has neither client_arrival_s nor planned_arrival_s",
                        file);
  }
  double first = kMaxArrivalSeconds, last = 0;
  while (table.Next()) {
    const CsvRow& row = table.row();
    Request request;
    request.input_tokens = row.Integer(0, 1, kMaxTokens);
    request.output_tokens = row.Integer(1, 1, kMaxTokens);
    request.arrival =
        SimTime::FromSeconds(row.Number(static_cast<size_t>(arrival), 0, kMaxArrivalSeconds));
    first = std::min(first, row.Number(2, 0, kMaxArrivalSeconds));
    last = std::max(last, row.Number(3, 0, kMaxArrivalSeconds));
    RequestTimes times;
    times.ttft = row.Number(4, 0, kMaxArrivalSeconds);
    times.tpot = row.Number(5, 0, kMaxArrivalSeconds);
    times.e2e = row.Number(6, 0, kMaxArrivalSeconds);
    run.trace.requests.push_back(request);
    run.measured.push_back(times);
  }
  run.seconds = last - first;
  return table.status();
}

}  // namespace

absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& folder) {
  const std::string meta = (fs::path(folder) / "meta.json").string();
  const std::string requests = (fs::path(folder) / "requests.csv").string();
  FORETRACE_ASSIGN_OR_RETURN(MeasuredRun run,
                             LoadYaml<MeasuredRun>(ReadYamlFile(meta), meta, ReadMeta));
  run.folder = folder;
  run.trace.source = requests;
  FORETRACE_RETURN_IF_ERROR(ReadRequests(requests, run));
  return run;
}

absl::Status AddSharedPrefixes(const std::string& file, int32_t block_tokens, RequestTrace& trace) {
  FORETRACE_ASSIGN_OR_RETURN(
      CsvColumns table,
      CsvColumns::Open(file, {"input_tokens", "output_tokens", "shared_prefix_tokens"}));
  std::vector<int32_t> shared;
  while (table.Next()) {
    const size_t i = shared.size();
    const int32_t input = table.row().Integer(0, 1, kMaxTokens);
    const int32_t output = table.row().Integer(1, 1, kMaxTokens);
    if (i >= trace.requests.size() || trace.requests[i].input_tokens != input ||
        trace.requests[i].output_tokens != output) {
      table.Fail(fmt::format("request {} is not that of {}", i, trace.source));
      break;
    }
    shared.push_back(table.row().Integer(2, 0, kMaxTokens));
  }
  FORETRACE_RETURN_IF_ERROR(table.status());
  if (shared.size() != trace.requests.size()) {
    return InvalidInput("{}: has {} requests, {} has {}", file, shared.size(), trace.source,
                        trace.requests.size());
  }
  ShareEarlierPrefixes(shared, block_tokens, trace);
  return absl::OkStatus();
}

}  // namespace foretrace::serve
