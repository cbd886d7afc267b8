#pragma once
// Continuous batching: which sequences get how many tokens in the next step. The rules are those of
// vLLM's V1 scheduler (vllm/v1/core/sched/scheduler.py, release 0.19): running sequences first, in
// order of admission; where the cache is full the last admitted is preempted and recomputed later;
// then waiting requests, in order, while tokens, sequences and blocks last; none in a step that
// preempted. Where steps are not mixed (SGLang, python/sglang/srt/managers/scheduler.py, release
// 0.5): prompts, running and waiting, else decodes.
//
// A request whose blocks are found below the device waits until they are read, while those behind
// it are admitted; it holds no blocks of the device meanwhile.

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "simulator/serve/engine_config.h"
#include "simulator/serve/kv_cache.h"
#include "simulator/serve/request.h"
#include "simulator/serve/speculation.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

using SequenceIndex = int32_t;  // into RequestTrace::requests

// A request within an engine.
struct Sequence {
  // Tokens whose keys and values are in the cache once the steps that are scheduled have run.
  int32_t computed = 0;
  int32_t sampled = 0;  // output tokens of steps that are scheduled
  int32_t target = 0;   // output tokens that this engine makes
  int32_t preemptions = 0;
  int32_t remembered = 0;   // blocks that are full and were offered to the prefix cache
  int32_t pending = 0;      // steps under way that make tokens of it
  int32_t slot = 0;         // of its last step
  int32_t transferred = 0;  // tokens whose keys and values come from another engine
  bool loading = false;     // blocks of it are read from below, until `loaded`
  SimTime loaded;
  std::vector<BlockIndex> blocks;
  std::vector<BlockIndex> window_blocks;  // of layers with a window
};

// One sequence's part in a step.
struct StepItem {
  SequenceIndex sequence = 0;
  int32_t tokens = 0;
  int32_t cached = 0;   // tokens in the cache before
  int32_t sampled = 0;  // output tokens that the step makes; 0: a prompt's earlier chunk
  bool decode = false;
};

struct Step {
  std::vector<StepItem> items;
  StepBatch batch;
  std::vector<SequenceIndex> admitted;   // from the queue
  std::vector<SequenceIndex> preempted;  // back to it
};

class Scheduler {
 public:
  // All must outlive it. `config` is valid.
  Scheduler(const EngineConfig& config, const RequestTrace& trace, const Speculation& speculation);

  // A request that fits in the cache when it is alone. Its first `sampled` output tokens were made
  // elsewhere, and the keys and values of what came before the last of them are brought here;
  // `target` are made in all.
  void Enqueue(SequenceIndex request, int32_t sampled, int32_t target);
  // Of EngineConfig::slots() the next step's is `slot`.
  void Schedule(Step& step, SimTime now, int32_t slot = 0);
  // When the next of those that wait for blocks from below has them; Max(): none waits.
  SimTime NextLoaded() const;
  // The tokens of one of its steps are there.
  void Collect(SequenceIndex request) { --Of(request).pending; }
  // All of its tokens are out: gives its blocks up.
  void Finish(SequenceIndex request);

  size_t waiting() const { return waiting_.size(); }
  size_t running() const { return running_.size(); }
  bool idle() const { return waiting_.empty() && running_.empty(); }
  // Input and output tokens of the requests that are here.
  int64_t load() const { return load_; }
  const KvCache& cache() const { return cache_; }
  const Sequence& sequence(SequenceIndex i) const { return sequences_[static_cast<size_t>(i)]; }
  // Leading tokens of a request that are in the cache.
  int32_t CachedTokens(SequenceIndex request) const;
  int64_t prefix_hits() const { return prefix_hits_; }      // tokens
  int64_t prompt_tokens() const { return prompt_tokens_; }  // of admissions, hits included
  int64_t preemptions() const { return preemptions_; }
  int64_t recomputed_tokens() const { return recomputed_; }
  int64_t tier_hits() const { return tier_hits_; }  // tokens, of prefix_hits

 private:
  enum class Admission : uint8_t { kAdmitted, kLoading, kBlocked };
  // Leading blocks of a request that are somewhere, and the keys of those that only tiers have.
  struct Found {
    int32_t blocks = 0;
    std::vector<uint64_t> below;
    int32_t cached() const { return blocks - static_cast<int32_t>(below.size()); }
  };
  Sequence& Of(SequenceIndex i) { return sequences_[static_cast<size_t>(i)]; }
  const Request& RequestOf(SequenceIndex i) const {
    return trace_.requests[static_cast<size_t>(i)];
  }
  int32_t Known(SequenceIndex i) const;  // tokens that are there or will be by then
  uint64_t KeyOf(SequenceIndex i, int32_t block) const;
  int32_t BlocksFor(int64_t tokens) const;
  void GiveUp(Sequence& s);  // its blocks
  int32_t CachedBlocks(SequenceIndex i) const;
  Found Find(SequenceIndex i) const;
  BlockIndex Take();
  // Output tokens that a sequence may still make, as far as admission counts them; room that it
  // keeps for those that run, in blocks.
  int32_t FutureTokens(SequenceIndex i) const;
  int32_t ReservedBlocks() const;
  void UpdateReserve(const Step& step);
  // Blocks for `tokens` in all; false where there are not enough.
  bool Grow(SequenceIndex i, int32_t tokens);
  void ScheduleRunning(Step& step, int32_t& budget, bool prompts, bool decodes);
  void ScheduleWaiting(Step& step, int32_t& budget);
  Admission Admit(SequenceIndex i, Step& step, int32_t& budget);
  // Adds the sequence's next `tokens` to the step and counts them as computed.
  void Advance(SequenceIndex i, int32_t tokens, Step& step);
  bool SomeDecode() const;  // of those of this slot that run
  bool IsHere(SequenceIndex i) const { return sequence(i).slot == slot_; }
  size_t RunningHere() const;
  size_t ChooseVictim() const;  // index into running_
  // Returns the tokens that the step had given to it.
  int32_t Preempt(size_t index, Step& step);
  void Wait(SequenceIndex i, bool first);

  const EngineConfig& config_;
  const RequestTrace& trace_;
  const Speculation& speculation_;
  KvCache cache_;
  KvTiers tiers_;
  SimTime now_;
  int32_t slot_ = 0;
  double reserved_share_;  // of the output that running sequences may still make
  std::vector<Sequence> sequences_;
  std::vector<SequenceIndex> running_;
  // In the order of admission: (priority, place in the queue).
  std::set<std::tuple<int32_t, int64_t, SequenceIndex>> waiting_;
  int64_t next_place_ = 0, first_place_ = 0;
  int64_t load_ = 0;
  int64_t prefix_hits_ = 0, prompt_tokens_ = 0, preemptions_ = 0, recomputed_ = 0;
  int64_t tier_hits_ = 0;
};

}  // namespace foretrace::serve
