#include "simulator/serve/engine_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "simulator/base/counted.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace::serve {
namespace {

constexpr std::array<std::string_view, 2> kPolicyNames = {"fcfs", "priority"};
constexpr std::array<std::string_view, 2> kRankRoutingNames = {"shortest_queue", "round_robin"};
constexpr std::array<std::string_view, 2> kVictimNames = {"last_admitted", "least_output"};
constexpr std::array<std::string_view, 2> kPreemptionNames = {"recompute", "swap"};
constexpr std::array<std::string_view, 32> kKeys = {"name",
                                                    "source",
                                                    "max_num_seqs",
                                                    "max_num_batched_tokens",
                                                    "limits_of_each_rank",
                                                    "rank_routing",
                                                    "pipeline_slots",
                                                    "chunked_prefill",
                                                    "prefix_caching",
                                                    "reserve_full_input",
                                                    "asynchronous",
                                                    "policy",
                                                    "mixed_steps",
                                                    "victim",
                                                    "preemption",
                                                    "output_reserve",
                                                    "by_memory",
                                                    "long_prefill_threshold",
                                                    "block_tokens",
                                                    "reserved_blocks",
                                                    "memory_utilization",
                                                    "graph_sizes",
                                                    "decode_graphs_only",
                                                    "graph_saves_per_kernel_us",
                                                    "reserve_MiB",
                                                    "reserve_holds_activations",
                                                    "sampler_bytes_per_logit",
                                                    "host_step_us",
                                                    "host_per_sequence_us",
                                                    "all_reduce",
                                                    "expert_exchange",
                                                    "states"};
constexpr std::array<std::string_view, 6> kAllReduceKeys = {"devices",
                                                            "pass_us",
                                                            "link_share",
                                                            "largest_KiB",
                                                            "one_pass_of_four_KiB",
                                                            "one_pass_of_eight_KiB"};
constexpr std::array<std::string_view, 5> kReserveKeys = {"initial", "least", "decay_steps",
                                                          "longest", "retract_steps"};
constexpr std::array<std::string_view, 6> kClassKeys = {
    "from_GiB", "except", "max_num_seqs", "max_num_batched_tokens", "largest_graph", "reserve_MiB"};
constexpr int32_t kMaxSize = 1 << 24;

OutputReserve ReadOutputReserve(const YamlReader& in) {
  in.ExpectKeys(kReserveKeys);
  OutputReserve r;
  r.initial = in.Number("initial", 0, 1);
  r.least = in.Number("least", 0, 1);
  r.decay_steps = in.Integer("decay_steps", 1, kMaxSize);
  r.longest = in.Integer("longest", 1, kMaxSize);
  r.retract_steps = in.Integer("retract_steps", 0, kMaxSize);
  return r;
}

MemoryClass ReadMemoryClass(const YamlReader& in) {
  in.ExpectKeys(kClassKeys);
  MemoryClass c;
  c.from = Bytes(int64_t{in.Integer("from_GiB", 0, 1 << 20)} << 30);
  if (in.Has("except")) {
    for (const YamlReader& name : in.Child("except").Items()) c.except.push_back(name.AsString());
  }
  c.max_num_seqs = in.Integer("max_num_seqs", 1, kMaxSize, 0);
  c.max_num_batched_tokens = in.Integer("max_num_batched_tokens", 1, kMaxSize, 0);
  c.largest_graph = in.Integer("largest_graph", 1, kMaxSize, 0);
  c.reserve = Bytes(int64_t{in.Integer("reserve_MiB", 0, 1 << 20, 0)} << 20);
  return c;
}

EngineAllReduce ReadAllReduce(const YamlReader& in) {
  in.ExpectKeys(kAllReduceKeys);
  const auto kib = [&in](const char* key) {
    return Bytes(int64_t{in.Integer(key, 0, kMaxSize)} << 10);
  };
  EngineAllReduce a;
  for (const YamlReader& name : in.Child("devices").Items()) a.devices.push_back(name.AsString());
  a.pass = SimTime::FromUs(in.Number("pass_us", 0.01, 1e4));
  a.link_share = in.Number("link_share", 0.01, 1);
  a.largest = kib("largest_KiB");
  a.one_pass_of_four = kib("one_pass_of_four_KiB");
  a.one_pass_of_eight = kib("one_pass_of_eight_KiB");
  return a;
}

ExpertTransfers ReadExperts(const YamlReader& in) {
  static constexpr std::array<std::string_view, 2> kExpertKeys = {"by", "multiprocessors"};
  in.ExpectKeys(kExpertKeys);
  ExpertTransfers experts;
  if (!SetExpertTransfers(in.String("by"), experts)) {
    in.Fail("by", fmt::format("is none of {}", fmt::join(ExpertTransferNames(), ", ")));
  }
  experts.multiprocessors = in.Integer("multiprocessors", 2, 1 << 10, experts.multiprocessors);
  return experts;
}

void ReadStates(const YamlReader& in, EngineConfig& c) {
  static constexpr std::array<std::string_view, 2> kStateKeys = {"bits", "memory_ratio"};
  in.ExpectKeys(kStateKeys);
  const int32_t bits = in.Integer("bits", 0, 32, 0);
  if (bits != 0 && bits != 16 && bits != 32) in.Fail("bits", "is none of 16, 32");
  c.state_width = bits / 8;
  c.state_memory_ratio = in.Number("memory_ratio", 0, 1e3, 0);
}

absl::StatusOr<EngineConfig> ReadEngine(const YamlReader& root) {
  root.ExpectKeys(kKeys);
  EngineConfig c;
  c.name = root.String("name");
  c.source = root.String("source");
  c.max_num_seqs = root.Integer("max_num_seqs", 1, kMaxSize);
  c.max_num_batched_tokens = root.Integer("max_num_batched_tokens", 1, kMaxSize);
  c.limits_of_each_rank = root.Bool("limits_of_each_rank", false);
  c.pipeline_slots = root.Bool("pipeline_slots", false);
  if (root.Has("rank_routing")) {
    c.rank_routing = static_cast<RankRouting>(root.Choice("rank_routing", kRankRoutingNames));
  }
  c.chunked_prefill = root.Bool("chunked_prefill", true);
  c.prefix_caching = root.Bool("prefix_caching", true);
  c.reserve_full_input = root.Bool("reserve_full_input", false);
  c.asynchronous = root.Bool("asynchronous", false);
  c.policy = static_cast<AdmissionPolicy>(root.Choice("policy", kPolicyNames));
  c.mixed_steps = root.Bool("mixed_steps", true);
  if (root.Has("victim")) c.victim = static_cast<Victim>(root.Choice("victim", kVictimNames));
  if (root.Has("preemption")) {
    c.preemption = static_cast<Preemption>(root.Choice("preemption", kPreemptionNames));
  }
  if (root.Has("output_reserve")) {
    c.output_reserve = ReadOutputReserve(root.Child("output_reserve"));
  }
  if (root.Has("by_memory")) {
    for (const YamlReader& item : root.Child("by_memory").Items()) {
      c.memory_classes.push_back(ReadMemoryClass(item));
    }
  }
  c.sampler_bytes_per_logit = root.Number("sampler_bytes_per_logit", 0, 1e4, 0);
  c.reserve_holds_activations = root.Bool("reserve_holds_activations", false);
  c.long_prefill_threshold = root.Integer("long_prefill_threshold", 0, kMaxSize, 0);
  c.block_tokens = root.Integer("block_tokens", 1, 1 << 16);
  c.reserved_blocks = root.Integer("reserved_blocks", 0, 1 << 16, 0);
  c.memory_utilization = root.Number("memory_utilization", 0.01, 1);
  if (root.Has("graph_sizes")) c.graph_sizes = root.Integers("graph_sizes", 1, kMaxSize);
  c.decode_graphs_only = root.Bool("decode_graphs_only", false);
  c.graph_saves_per_kernel = SimTime::FromUs(root.Number("graph_saves_per_kernel_us", 0, 1e3, 0));
  c.reserve = Bytes(int64_t{root.Integer("reserve_MiB", 0, 1 << 20)} << 20);
  c.host_step = SimTime::FromUs(root.Number("host_step_us", 0, 1e6));
  c.host_per_sequence = SimTime::FromUs(root.Number("host_per_sequence_us", 0, 1e6));
  if (root.Has("all_reduce")) c.all_reduce = ReadAllReduce(root.Child("all_reduce"));
  if (root.Has("expert_exchange")) c.experts = ReadExperts(root.Child("expert_exchange"));
  if (root.Has("states")) ReadStates(root.Child("states"), c);
  if (!std::is_sorted(c.graph_sizes.begin(), c.graph_sizes.end())) {
    root.Fail("graph_sizes", "must ascend");
  }
  if (!root.ok()) return root.status();
  return c;
}

}  // namespace

std::string_view Name(AdmissionPolicy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

bool EngineAllReduce::Takes(int32_t ranks, Bytes bytes) const {
  return pass > SimTime() && ranks <= 8 && ranks % 2 == 0 && bytes <= largest;
}

SimTime EngineAllReduce::Time(int32_t ranks, Bytes bytes, Bandwidth link) const {
  const Bandwidth reached = Bandwidth::BytesPerSecond(link.bytes_per_second() * link_share);
  const Bytes limit = ranks <= 4 ? one_pass_of_four : one_pass_of_eight;
  if (ranks == 2 || bytes < limit) return pass + bytes * (ranks - 1) / reached;
  return pass + pass + Bytes(2 * bytes.count() * (ranks - 1) / ranks) / reached;
}

int64_t CacheWindow::Blocks(int64_t computed, int64_t after, int32_t block_tokens) const {
  if (share == 0) return states;
  const int64_t behind = std::max<int64_t>(0, computed - tokens + 1) / block_tokens;
  const int64_t held = (after + block_tokens - 1) / block_tokens - behind;
  return static_cast<int64_t>(std::ceil(static_cast<double>(held) * share));
}

int64_t CacheWindow::Most(int64_t all, int64_t step, int32_t block_tokens) const {
  if (share == 0) return states;
  // A window and a step begin and end anywhere within their blocks.
  const int64_t held =
      std::min((all + block_tokens - 1) / block_tokens, (tokens - 1 + step) / block_tokens + 2);
  return static_cast<int64_t>(std::ceil(static_cast<double>(held) * share));
}

int32_t EngineConfig::Padded(int32_t tokens, bool prompts) const {
  if (!Captured(tokens, prompts)) return tokens;
  return *std::lower_bound(graph_sizes.begin(), graph_sizes.end(), tokens);
}

EngineConfig EngineConfig::On(std::string_view device, Bytes memory) const {
  EngineConfig c = *this;
  std::string plain(device);
  for (char& letter : plain) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  const auto is_one_of = [&plain](const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& part) {
      return plain.find(part) != std::string::npos;
    });
  };
  if (!is_one_of(all_reduce.devices)) c.all_reduce = {};
  int32_t largest_graph = 0;
  for (const MemoryClass& m : memory_classes) {
    if (memory < m.from || is_one_of(m.except)) continue;
    if (m.max_num_seqs > 0) c.max_num_seqs = m.max_num_seqs;
    if (m.max_num_batched_tokens > 0) c.max_num_batched_tokens = m.max_num_batched_tokens;
    if (m.largest_graph > 0) largest_graph = m.largest_graph;
    if (m.reserve.count() > 0) c.reserve = m.reserve;
  }
  if (largest_graph > 0) {
    std::erase_if(c.graph_sizes, [&](int32_t size) { return size > largest_graph; });
  }
  return c;
}

absl::StatusOr<EngineConfig> EngineConfig::OfRank(int32_t ranks) const {
  EngineConfig c = *this;
  if (limits_of_each_rank) return c;
  c.limits_of_each_rank = true;
  const auto divide = [&](const char* key, const char* option, int32_t& limit) {
    if (limit < ranks) {
      return InvalidInput(
          "{}: {}: {} of all data-parallel ranks together leave none for some of {}: raise it "
          "there or with {}",
          file.empty() ? "engine " + name : file, key, limit, ranks, option);
    }
    limit /= ranks;
    return absl::OkStatus();
  };
  FORETRACE_RETURN_IF_ERROR(divide("max_num_seqs", "--max-num-seqs", c.max_num_seqs));
  FORETRACE_RETURN_IF_ERROR(
      divide("max_num_batched_tokens", "--max-num-batched-tokens", c.max_num_batched_tokens));
  return c;
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
  if (preemption == Preemption::kSwap && kv_tiers.empty()) {
    return InvalidInput("engine {}: swapping needs a tier below the device: give --kv-tier", name);
  }
  if (usable_blocks() <= 0) {
    return Infeasible(
        "engine {}: of {} of the KV cache it keeps {} no tokens, so that none is left: give it "
        "more "
        "with --kv-blocks, or more memory",
        name, Counted(kv_blocks, "block"), Counted(reserved_blocks, "that holds", "that hold"));
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineConfig> LoadEngine(const std::string& name) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kEngines, name));
  FORETRACE_ASSIGN_OR_RETURN(EngineConfig config,
                             LoadYaml<EngineConfig>(ReadYamlFile(file), file, ReadEngine));
  config.file = file;
  return config;
}

}  // namespace foretrace::serve
