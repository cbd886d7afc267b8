#pragma once
// How an inference engine schedules: what its release does by itself, and what its user sets.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/serve/expert_transfers.h"
#include "simulator/serve/kv_tiers.h"

namespace foretrace::serve {

// topologies/engines/NAME.yaml.
inline constexpr ShippedKind kEngines = {"serving engine", "topologies/engines", ".yaml"};

// Which running sequence gives way where the cache is full: that admitted last, or that with the
// least output, of these the longest input.
enum class Victim : uint8_t { kLastAdmitted, kLeastOutput, kCount };
// What becomes of its blocks: they are computed again, or kept in the tiers below (KvTiers).
enum class Preemption : uint8_t { kRecompute, kSwap, kCount };

// Room that admission keeps for output: of a request that is admitted all that it may still make,
// of those that run a share, which falls with every step of decodes and is set by what was made
// where a sequence had to give way (SGLang's new_token_ratio).
struct OutputReserve {
  double initial = 0, least = 0;
  int32_t decay_steps = 0;
  int32_t longest = 0;        // tokens of one request that count at most; 0: nothing is kept
  int32_t retract_steps = 0;  // tokens a sequence that are added to what was made
  bool enabled() const { return longest > 0; }
};

// What a release sets by the memory of the device.
struct MemoryClass {
  Bytes from;
  std::vector<std::string> except;  // devices whose names hold one of these
  int32_t max_num_seqs = 0, max_num_batched_tokens = 0, largest_graph = 0;  // 0: as without
  Bytes reserve;                                                            // 0: as without
};

// Of layers that attend to the last tokens alone, whose blocks are given up behind them.
struct CacheWindow {
  int64_t tokens = 0;
  double share = 0;  // memory of their block over that of a block of the other layers; 0: no such
  // Blocks that layers with states hold of a sequence, however long it is; with no window.
  int64_t states = 0;

  // In blocks of the other layers, what they hold of a sequence while a step takes its computed
  // tokens from `computed` to `after`.
  int64_t Blocks(int64_t computed, int64_t after, int32_t block_tokens) const;
  // The most of a sequence of `tokens` in steps of up to `step`.
  int64_t Most(int64_t tokens, int64_t step, int32_t block_tokens) const;
};

// The engine's own kernel for sums over ranks that all reach one another through a switch: every
// rank reads the others' buffers whole in one pass or, where data are many, its share of them in
// one and the sums of the others in a second.
struct EngineAllReduce {
  SimTime pass;                      // its latency; zero: there is no such kernel
  std::vector<std::string> devices;  // that it was measured on: their names hold one of these
  double link_share = 0;             // of a device's links that reads reach
  Bytes largest;                     // beyond it the library's collectives are used
  Bytes one_pass_of_four, one_pass_of_eight;  // below which one pass does, of up to so many ranks

  bool Takes(int32_t ranks, Bytes bytes) const;
  // `link`: of all links of a device, one direction.
  SimTime Time(int32_t ranks, Bytes bytes, Bandwidth link) const;
};

enum class AdmissionPolicy : uint8_t { kFcfs, kPriority, kCount };
std::string_view Name(AdmissionPolicy policy);

// To which of an engine's data-parallel ranks a request goes: that with the shortest queue, where
// requests that wait count four times (vLLM, vllm/v1/engine/core_client.py, DPLBAsyncMPClient), or
// one after another (SGLang, data_parallel_controller.py, round_robin_scheduler).
enum class RankRouting : uint8_t { kShortestQueue, kRoundRobin, kCount };

struct EngineConfig {
  std::string name;    // "vllm-0.19"
  std::string source;  // where the defaults are from
  std::string file;    // that they were read from
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  // Both are what each data-parallel rank has (vLLM), else all of them together (SGLang, which
  // divides them). In either ranks schedule by themselves.
  bool limits_of_each_rank = false;
  RankRouting rank_routing = RankRouting::kShortestQueue;
  int32_t max_model_len = 0;    // tokens of a request, input and output; 0: as the model's
  int64_t model_positions = 0;  // the longest sequence that the model knows; 0: not known
  bool chunked_prefill = true;
  bool prefix_caching = true;
  // A request is admitted where its whole input fits, not only its first chunk.
  bool reserve_full_input = true;
  // The next step is scheduled and launched while the one before runs.
  bool asynchronous = true;
  AdmissionPolicy policy = AdmissionPolicy::kFcfs;
  // Prompts and decodes share steps; else prompts go first, in steps of their own, and
  // max_num_batched_tokens bounds these alone (SGLang).
  bool mixed_steps = true;
  Victim victim = Victim::kLastAdmitted;
  Preemption preemption = Preemption::kRecompute;
  OutputReserve output_reserve;
  int32_t long_prefill_threshold = 0;  // longest chunk of one request; 0: no limit
  int32_t block_tokens = 0;
  int32_t reserved_blocks = 0;    // of the cache, that hold no tokens
  double memory_utilization = 0;  // share of the device's memory that the engine takes
  // Batches up to the last are replayed as captured graphs, padded to the next size. Ascending.
  std::vector<int32_t> graph_sizes;
  bool decode_graphs_only = false;  // steps with prompts are not captured
  // By how much sooner the next kernel follows in a graph's replay than launched alone.
  SimTime graph_saves_per_kernel;
  // Host time of a step: scheduling, preparing inputs, launching, reading results.
  SimTime host_step;
  SimTime host_per_sequence;
  Bytes reserve;  // of a device's memory: driver, libraries, captured graphs
  // Memory that the sampler's warm-up takes for each word of the vocabulary and sequence of the
  // largest step, while the layers' activations are free again.
  double sampler_bytes_per_logit = 0;
  // The reserve holds activations too, instead of what a step of the largest size needs.
  bool reserve_holds_activations = false;
  std::vector<MemoryClass> memory_classes;  // by ascending memory
  int64_t kv_blocks = 0;                    // of the cache; set by who knows model and device
  Bytes kv_memory;             // of a device's, for keys and values; 0: what the others leave
  int32_t kv_cache_width = 0;  // bytes of an element of keys and values; 0: as the model's
  // Of models with state-space mixers: bytes of an element of their states (0: as the model has
  // them), and the memory of all sequences' states over that of keys and values. 0: states of a
  // sequence lie in blocks of the same cache, whose tokens are as many as make a block as large.
  int32_t state_width = 0;
  double state_memory_ratio = 0;
  std::vector<KvTierSpec> kv_tiers;  // below the device's memory
  Bytes block_bytes;                 // of a device's part of a block; with kv_tiers
  CacheWindow window;                // set with kv_blocks
  EngineAllReduce all_reduce;
  ExpertTransfers experts;

  // Stages that steps pass one after another; each may be at another step.
  int32_t stages = 1;

  // Each stage's turn has a batch of its own, whose sequences decode with no other's (SGLang,
  // scheduler_pp_mixin.py, event_loop_pp), and a share of max_num_seqs; else a step takes all that
  // are not under way (vLLM, EngineCore.step_with_batch_queue).
  bool pipeline_slots = false;
  int32_t slots() const { return pipeline_slots ? stages : 1; }

  // Steps that may be launched and unfinished.
  int32_t depth() const { return stages > 1 ? stages : asynchronous ? 2 : 1; }
  // Whether a sequence takes part in a step before the token of its last one is there.
  bool runs_ahead() const { return asynchronous && stages == 1; }
  int64_t usable_blocks() const { return kv_blocks - reserved_blocks; }
  // `tokens` as a step of so many, with prompts or without, is executed: padded to a captured
  // graph's size.
  int32_t Padded(int32_t tokens, bool prompts) const;
  // Whether such a step is a graph's replay.
  bool Captured(int32_t tokens, bool prompts) const {
    return !graph_sizes.empty() && tokens <= graph_sizes.back() && !(prompts && decode_graphs_only);
  }
  // How much later a kernel follows the one before where nothing is captured: `--without graphs`
  // launches one by one what replay would issue together. Not of steps beyond the largest graph,
  // whose kernels are long.
  SimTime launch_gap() const { return graph_sizes.empty() ? graph_saves_per_kernel : SimTime(); }
  // With what the release sets on such a device.
  EngineConfig On(std::string_view device, Bytes memory) const;
  // With the limits of a step of one of `ranks` data-parallel ranks. Errors: limits of all together
  // that are fewer than ranks.
  absl::StatusOr<EngineConfig> OfRank(int32_t ranks) const;
  // Errors: sizes that are missing or not positive; swapping without a tier.
  absl::Status Validate() const;
};

// A file's defaults. Errors name file, line and key; an unknown engine lists those there are.
absl::StatusOr<EngineConfig> LoadEngine(const std::string& name);

}  // namespace foretrace::serve
