#include "simulator/serve/scheduler.h"

#include <algorithm>
#include <limits>
#include <span>

#include "simulator/base/check.h"

namespace foretrace::serve {
namespace {

// Keys of blocks: of a prefix by its id and the place within, of all else by the request's own
// number.
constexpr uint64_t kSharedMark = uint64_t{1} << 63;
constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;

}  // namespace

Scheduler::Scheduler(const EngineConfig& config, const RequestTrace& trace,
                     const Speculation& speculation)
    : config_(config),
      trace_(trace),
      speculation_(speculation),
      cache_(config.usable_blocks(), config.prefix_caching),
      tiers_(config.kv_tiers, config.block_bytes),
      reserved_share_(config.output_reserve.initial),
      sequences_(trace.requests.size()) {}

int32_t Scheduler::Known(SequenceIndex i) const {
  return RequestOf(i).input_tokens + sequence(i).sampled;
}

int32_t Scheduler::BlocksFor(int64_t tokens) const {
  return static_cast<int32_t>((tokens + config_.block_tokens - 1) / config_.block_tokens);
}

uint64_t Scheduler::KeyOf(SequenceIndex i, int32_t block) const {
  const Request& request = RequestOf(i);
  const int64_t begin = int64_t{block} * config_.block_tokens;
  const int64_t span = trace_.prefix_block_tokens;
  if (span > 0) {
    const auto prefix = trace_.PrefixOf(request);
    const auto index = static_cast<size_t>(begin / span);
    const int64_t end = begin + config_.block_tokens;
    if (index < prefix.size() && end <= request.input_tokens) {
      const auto place = static_cast<uint64_t>(begin % span);
      return (((prefix[index] + 1) * kSpread) ^ (place << 40)) | kSharedMark;
    }
  }
  return ((static_cast<uint64_t>(i) + 1) << 28 | static_cast<uint64_t>(block)) & ~kSharedMark;
}

// The last token is always computed: its result is what the next one is sampled from.
int32_t Scheduler::CachedBlocks(SequenceIndex i) const {
  if (!cache_.keeps_prefixes()) return 0;
  const int32_t most = (Known(i) - 1) / config_.block_tokens;
  int32_t found = 0;
  while (found < most && cache_.Find(KeyOf(i, found)) >= 0) ++found;
  return found;
}

int32_t Scheduler::CachedTokens(SequenceIndex request) const {
  return CachedBlocks(request) * config_.block_tokens;
}

void Scheduler::Wait(SequenceIndex i, bool first) {
  const int64_t place = first ? --first_place_ : next_place_++;
  if (config_.policy == AdmissionPolicy::kPriority) {
    waiting_.emplace(RequestOf(i).priority, RequestOf(i).arrival.ps(), i);
  } else {
    waiting_.emplace(0, place, i);
  }
}

void Scheduler::Enqueue(SequenceIndex request, int32_t sampled, int32_t target) {
  Sequence& s = Of(request);
  s.sampled = sampled;
  s.target = target;
  s.transferred = sampled > 0 ? RequestOf(request).input_tokens + sampled - 1 : 0;
  load_ += RequestOf(request).input_tokens + target;
  Wait(request, false);
}

void Scheduler::Schedule(Step& step, SimTime now, int32_t slot) {
  now_ = now;
  slot_ = slot;
  step.items.clear();
  step.batch.Clear();
  step.batch.tokens_per_decode = speculation_.CheckedTokens();
  step.admitted.clear();
  step.preempted.clear();
  int32_t budget = config_.max_num_batched_tokens;
  ScheduleRunning(step, budget, true, config_.mixed_steps);
  if (step.preempted.empty()) ScheduleWaiting(step, budget);
  if (!config_.mixed_steps && step.items.empty() && step.preempted.empty()) {
    int32_t unbounded = std::numeric_limits<int32_t>::max();
    ScheduleRunning(step, unbounded, false, true);
  }
  for (const StepItem& item : step.items) {
    if (item.decode) {
      step.batch.AddDecode(item.cached);
    } else {
      step.batch.prefills.push_back({item.tokens, item.cached});
    }
  }
  if (config_.output_reserve.enabled()) UpdateReserve(step);
}

void Scheduler::UpdateReserve(const Step& step) {
  const OutputReserve& reserve = config_.output_reserve;
  if (!step.preempted.empty()) {
    double made = 0, allowed = 1;
    for (const SequenceIndex i : running_) {
      made += sequence(i).sampled + reserve.retract_steps;
      allowed += sequence(i).target;
    }
    reserved_share_ = std::min(1.0, made / allowed);
  } else if (step.batch.decodes > 0) {
    const double decay = (reserve.initial - reserve.least) / reserve.decay_steps;
    reserved_share_ = std::max(reserve.least, reserved_share_ - decay);
  }
}

int32_t Scheduler::FutureTokens(SequenceIndex i) const {
  return std::min(sequence(i).target - sequence(i).sampled, config_.output_reserve.longest);
}

int32_t Scheduler::ReservedBlocks() const {
  double tokens = 0;
  for (const SequenceIndex i : running_) tokens += FutureTokens(i) * reserved_share_;
  return BlocksFor(static_cast<int64_t>(tokens));
}

SimTime Scheduler::NextLoaded() const {
  SimTime next = SimTime::Max();
  for (const auto& [priority, place, i] : waiting_) {
    if (sequence(i).loading) next = std::min(next, sequence(i).loaded);
  }
  return next;
}

void Scheduler::ScheduleRunning(Step& step, int32_t& budget, bool prompts, bool with_decodes) {
  for (size_t index = 0; index < running_.size() && budget > 0;) {
    const SequenceIndex i = running_[index];
    Sequence& s = Of(i);
    // Its last token is on the way, or the one that its next step begins with.
    if (s.sampled == s.target || (s.pending > 0 && !config_.runs_ahead())) {
      ++index;
      continue;
    }
    const bool decodes = s.sampled > 0 && s.computed == Known(i) - 1;
    if (decodes ? !with_decodes || !IsHere(i) : !prompts) {
      ++index;
      continue;
    }
    int32_t tokens = decodes ? speculation_.CheckedTokens() : Known(i) - s.computed;
    if (config_.long_prefill_threshold > 0) {
      tokens = std::min(tokens, config_.long_prefill_threshold);
    }
    tokens = std::min(tokens, budget);
    bool preempted_itself = false;
    while (!Grow(i, s.computed + tokens)) {
      if (!with_decodes && SomeDecode()) return;  // their blocks come free without a preemption
      const size_t victim = ChooseVictim();
      preempted_itself = running_[victim] == i;
      if (victim < index) --index;  // it stands before, and its tokens of this step go back
      budget += Preempt(victim, step);
      if (preempted_itself) break;
    }
    if (preempted_itself) break;
    Advance(i, tokens, step);
    budget -= tokens;
    ++index;
  }
}

bool Scheduler::SomeDecode() const {
  return std::any_of(running_.begin(), running_.end(), [this](SequenceIndex i) {
    return IsHere(i) && sequence(i).sampled > 0 && sequence(i).computed == Known(i) - 1;
  });
}

size_t Scheduler::RunningHere() const {
  if (config_.slots() == 1) return running_.size();
  return static_cast<size_t>(
      std::ranges::count_if(running_, [this](SequenceIndex i) { return IsHere(i); }));
}

size_t Scheduler::ChooseVictim() const {
  if (config_.slots() == 1 && config_.policy == AdmissionPolicy::kFcfs &&
      config_.victim == Victim::kLastAdmitted) {
    return running_.size() - 1;
  }
  // Of two the later in this order gives way.
  const auto key = [this](SequenceIndex i) {
    const Request& r = RequestOf(i);
    const bool by_output = config_.victim == Victim::kLeastOutput;
    return std::tuple(IsHere(i), config_.policy == AdmissionPolicy::kPriority ? r.priority : 0,
                      by_output ? -sequence(i).sampled : 0, by_output ? r.input_tokens : 0,
                      r.arrival, i);
  };
  return static_cast<size_t>(
      std::max_element(running_.begin(), running_.end(),
                       [&](SequenceIndex a, SequenceIndex b) { return key(a) < key(b); }) -
      running_.begin());
}

int32_t Scheduler::Preempt(size_t index, Step& step) {
  const SequenceIndex i = running_[index];
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  Sequence& s = Of(i);
  // With priorities a sequence may be preempted after it was given tokens of this very step.
  const auto item = std::find_if(step.items.begin(), step.items.end(),
                                 [i](const StepItem& it) { return it.sequence == i; });
  int32_t given = 0;
  if (item != step.items.end()) {
    given = item->tokens;
    s.sampled -= item->sampled;
    s.pending -= item->sampled > 0 ? 1 : 0;
    s.computed = item->cached;
    step.items.erase(item);
  }
  if (config_.preemption == Preemption::kSwap) {
    const int32_t full = s.computed / config_.block_tokens;
    for (int32_t b = 0; b < full; ++b) tiers_.Put(KeyOf(i, b), now_);
  }
  GiveUp(s);
  recomputed_ += s.computed;
  s.computed = 0;
  s.remembered = 0;
  s.transferred = 0;
  ++s.preemptions;
  ++preemptions_;
  step.preempted.push_back(i);
  Wait(i, true);
  return given;
}

void Scheduler::GiveUp(Sequence& s) {
  cache_.Release(s.blocks);
  cache_.Release(s.window_blocks);
  s.blocks = {};
  s.window_blocks = {};
}

bool Scheduler::Grow(SequenceIndex i, int32_t tokens) {
  Sequence& s = Of(i);
  const auto windowed =
      static_cast<size_t>(config_.window.Blocks(s.computed, tokens, config_.block_tokens));
  while (s.window_blocks.size() > windowed) {  // behind the window
    cache_.Release(std::span(&s.window_blocks.back(), 1));
    s.window_blocks.pop_back();
  }
  const int64_t more = BlocksFor(tokens) - static_cast<int64_t>(s.blocks.size());
  const auto more_windowed = static_cast<int64_t>(windowed - s.window_blocks.size());
  if (std::max<int64_t>(more, 0) + more_windowed > cache_.free_blocks()) return false;
  for (int64_t b = 0; b < more; ++b) s.blocks.push_back(Take());
  for (int64_t b = 0; b < more_windowed; ++b) s.window_blocks.push_back(Take());
  return true;
}

void Scheduler::ScheduleWaiting(Step& step, int32_t& budget) {
  const int32_t most = std::max(config_.max_num_seqs / config_.slots(), 1);
  auto running = static_cast<int32_t>(RunningHere());
  for (auto it = waiting_.begin(); it != waiting_.end() && budget > 0 && running < most;) {
    const Admission admission = Admit(std::get<2>(*it), step, budget);
    if (admission == Admission::kBlocked) break;
    running += admission == Admission::kAdmitted ? 1 : 0;
    it = admission == Admission::kAdmitted ? waiting_.erase(it) : std::next(it);
  }
}

BlockIndex Scheduler::Take() {
  uint64_t evicted = 0;
  const BlockIndex block = cache_.Take(evicted);
  if (evicted != 0) tiers_.Put(evicted, now_);
  return block;
}

Scheduler::Found Scheduler::Find(SequenceIndex i) const {
  Found found;
  if (sequence(i).transferred > 0) return found;
  if (tiers_.empty()) {
    found.blocks = CachedBlocks(i);
    return found;
  }
  if (!cache_.keeps_prefixes() && sequence(i).preemptions == 0) return found;
  const int32_t most = (Known(i) - 1) / config_.block_tokens;
  for (; found.blocks < most; ++found.blocks) {
    const uint64_t key = KeyOf(i, found.blocks);
    if (cache_.Find(key) >= 0) continue;
    if (!tiers_.Has(key)) break;
    found.below.push_back(key);
  }
  return found;
}

Scheduler::Admission Scheduler::Admit(SequenceIndex i, Step& step, int32_t& budget) {
  Sequence& s = Of(i);
  if (s.pending > 0) return Admission::kBlocked;  // preempted while a token of it was on the way
  if (s.loading && now_ < s.loaded) return Admission::kLoading;
  const Found found = Find(i);
  const int32_t have = s.transferred > 0 ? s.transferred : found.blocks * config_.block_tokens;
  int32_t tokens = Known(i) - have;
  if (config_.long_prefill_threshold > 0) tokens = std::min(tokens, config_.long_prefill_threshold);
  if (!config_.chunked_prefill && tokens > budget) return Admission::kBlocked;
  tokens = std::min(tokens, budget);
  int32_t needs = config_.reserve_full_input ? Known(i) : have + tokens;
  int64_t free = cache_.free_blocks();
  if (config_.output_reserve.enabled()) {
    needs = Known(i) + FutureTokens(i);
    free -= ReservedBlocks();
  }
  for (int32_t b = 0; b < found.blocks; ++b) {
    const BlockIndex block = cache_.Find(KeyOf(i, b));
    free -= block >= 0 && cache_.IsFree(block) ? 1 : 0;
  }
  free -= config_.window.Blocks(have, have + tokens, config_.block_tokens);
  if (BlocksFor(needs) - found.cached() > free) return Admission::kBlocked;
  if (!found.below.empty() && !s.loading) {
    s.loading = true;
    s.loaded = tiers_.Read(found.below, now_);
    return Admission::kLoading;
  }
  s.loading = false;
  // Those that are held by nobody first, before a block that is taken could be one of them.
  s.blocks.assign(static_cast<size_t>(found.blocks), -1);
  for (int32_t b = 0; b < found.blocks; ++b) {
    const BlockIndex block = cache_.Find(KeyOf(i, b));
    if (block >= 0) cache_.Share(s.blocks[static_cast<size_t>(b)] = block);
  }
  for (int32_t b = 0; b < found.blocks; ++b) {
    BlockIndex& block = s.blocks[static_cast<size_t>(b)];
    if (block >= 0) continue;
    block = Take();
    cache_.Remember(block, KeyOf(i, b));
  }
  s.remembered = found.blocks;
  s.computed = have;
  prefix_hits_ += int64_t{found.blocks} * config_.block_tokens;
  tier_hits_ += static_cast<int64_t>(found.below.size()) * config_.block_tokens;
  prompt_tokens_ += Known(i);
  FORETRACE_CHECK(Grow(i, have + tokens));
  running_.push_back(i);
  step.admitted.push_back(i);
  Advance(i, tokens, step);
  budget -= tokens;
  return Admission::kAdmitted;
}

void Scheduler::Advance(SequenceIndex i, int32_t tokens, Step& step) {
  Sequence& s = Of(i);
  const bool decodes = s.sampled > 0 && s.computed == Known(i) - 1;
  StepItem item = {i, tokens, s.computed, 0, decodes && tokens == step.batch.tokens_per_decode};
  if (decodes) {
    item.sampled = std::min(
        {speculation_.Draw(static_cast<uint64_t>(i), s.sampled), tokens, s.target - s.sampled});
    s.computed += item.sampled;
  } else {
    s.computed += tokens;
    item.sampled = s.computed == Known(i) ? 1 : 0;
  }
  s.slot = slot_;
  s.sampled += item.sampled;
  s.pending += item.sampled > 0 ? 1 : 0;
  const int32_t full = s.computed / config_.block_tokens;
  for (; s.remembered < full && cache_.keeps_prefixes(); ++s.remembered) {
    cache_.Remember(s.blocks[static_cast<size_t>(s.remembered)], KeyOf(i, s.remembered));
  }
  step.items.push_back(item);
}

void Scheduler::Finish(SequenceIndex request) {
  const auto at = std::find(running_.begin(), running_.end(), request);
  if (at != running_.end()) {
    running_.erase(at);
  } else {  // preempted while its last token was on the way
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (std::get<2>(*it) != request) continue;
      waiting_.erase(it);
      break;
    }
  }
  Sequence& s = Of(request);
  load_ -= RequestOf(request).input_tokens + s.target;
  GiveUp(s);
  if (idle()) reserved_share_ = config_.output_reserve.initial;
}

}  // namespace foretrace::serve
