#include "simulator/serve/engine_config.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace::serve {
namespace {

constexpr std::array<std::string_view, 2> kPolicyNames = {"fcfs", "priority"};
constexpr std::array<std::string_view, 18> kKeys = {"name",
                                                    "source",
                                                    "max_num_seqs",
                                                    "max_num_batched_tokens",
                                                    "chunked_prefill",
                                                    "prefix_caching",
                                                    "reserve_full_input",
                                                    "asynchronous",
                                                    "policy",
                                                    "long_prefill_threshold",
                                                    "block_tokens",
                                                    "reserved_blocks",
                                                    "memory_utilization",
                                                    "graph_sizes",
                                                    "graph_saves_per_kernel_us",
                                                    "reserve_MiB",
                                                    "host_step_us",
                                                    "host_per_sequence_us"};
constexpr int32_t kMaxSize = 1 << 24;

absl::StatusOr<EngineConfig> ReadEngine(const YamlReader& root) {
  root.ExpectKeys(kKeys);
  EngineConfig c;
  c.name = root.String("name");
  c.source = root.String("source");
  c.max_num_seqs = root.Integer("max_num_seqs", 1, kMaxSize);
  c.max_num_batched_tokens = root.Integer("max_num_batched_tokens", 1, kMaxSize);
  c.chunked_prefill = root.Bool("chunked_prefill", true);
  c.prefix_caching = root.Bool("prefix_caching", true);
  c.reserve_full_input = root.Bool("reserve_full_input", false);
  c.asynchronous = root.Bool("asynchronous", false);
  c.policy = static_cast<AdmissionPolicy>(root.Choice("policy", kPolicyNames));
  c.long_prefill_threshold = root.Integer("long_prefill_threshold", 0, kMaxSize, 0);
  c.block_tokens = root.Integer("block_tokens", 1, 1 << 16);
  c.reserved_blocks = root.Integer("reserved_blocks", 0, 1 << 16, 0);
  c.memory_utilization = root.Number("memory_utilization", 0.01, 1);
  if (root.Has("graph_sizes")) c.graph_sizes = root.Integers("graph_sizes", 1, kMaxSize);
  c.graph_saves_per_kernel = SimTime::FromUs(root.Number("graph_saves_per_kernel_us", 0, 1e3, 0));
  c.reserve = Bytes(int64_t{root.Integer("reserve_MiB", 0, 1 << 20)} << 20);
  c.host_step = SimTime::FromUs(root.Number("host_step_us", 0, 1e6));
  c.host_per_sequence = SimTime::FromUs(root.Number("host_per_sequence_us", 0, 1e6));
  if (!std::is_sorted(c.graph_sizes.begin(), c.graph_sizes.end())) {
    root.Fail("graph_sizes", "must ascend");
  }
  if (!root.ok()) return root.status();
  return c;
}

}  // namespace

std::string_view Name(AdmissionPolicy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

int32_t EngineConfig::Padded(int32_t tokens) const {
  const auto size = std::lower_bound(graph_sizes.begin(), graph_sizes.end(), tokens);
  return size == graph_sizes.end() ? tokens : *size;
}

absl::Status EngineConfig::Validate() const {
  if (max_num_seqs <= 0 || max_num_batched_tokens <= 0 || block_tokens <= 0 || max_model_len <= 0) {
    return InvalidInput(
        "engine {}: max_num_seqs, max_num_batched_tokens, max_model_len and block_tokens must be "
        "positive",
        name);
  }
  if (!chunked_prefill && max_num_batched_tokens < max_model_len) {
    return InvalidInput(
        "engine {}: without chunked prefill a step must hold a whole prompt: raise "
        "max_num_batched_tokens ({}) to max_model_len ({})",
        name, max_num_batched_tokens, max_model_len);
  }
  if (usable_blocks() <= 0) {
    return Infeasible("engine {}: no memory is left for the KV cache", name);
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineConfig> LoadEngine(const std::string& name) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kEngines, name));
  return LoadYaml<EngineConfig>(ReadYamlFile(file), file, ReadEngine);
}

}  // namespace foretrace::serve
