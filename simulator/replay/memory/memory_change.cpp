#include "simulator/replay/memory/memory_change.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/replay/what_if/node_selector.h"

namespace foretrace {
namespace {

constexpr Bytes MemoryLedger::*kRoles[] = {&MemoryLedger::weights,    &MemoryLedger::gradients,
                                           &MemoryLedger::optimizer,  &MemoryLedger::activations,
                                           &MemoryLedger::recomputed, &MemoryLedger::other};
using Role = Bytes MemoryLedger::*;

absl::Status Misunderstood(std::string_view text) {
  return InvalidInput(
      "--memory-if {}: not understood; there are micro-batch=xF (x2), recompute=REGEX of modules "
      "or ranges, segments=N (8), zero=STAGE/N (3/8)",
      Excerpt(text, 80));
}

// Of twice the recorded events' numbers, so that there is room between two.
struct Held {
  int64_t from = 0, until = 0;
  double bytes = 0;
  Role role = &MemoryLedger::other;
};

class Ledger {
 public:
  Ledger(const MemoryRecording& recording, const MemoryChange& change)
      : recording_(recording), change_(change), blocks_(recording.Blocks()) {}

  absl::StatusOr<MemoryPeak> Peak() {
    for (const MemoryBlock& block : blocks_) roles_.push_back(RoleOf(block));
    for (size_t i = 0; i < recording_.events().size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (recording_.PhaseOf(Event(at)) == MemoryPhase::kBackward) backward_.push_back(at);
    }
    Before();
    if (change_.recompute() != nullptr) {
      FORETRACE_RETURN_IF_ERROR(RecomputeCalls());
    }
    if (change_.segments() > 0) {
      FORETRACE_RETURN_IF_ERROR(RecomputeSegments());
    }
    FORETRACE_RETURN_IF_ERROR(CheckShards());
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const MemoryBlock& block = blocks_[b];
      if (dropped_.contains(b)) continue;
      const int64_t until = block.until == MemoryBlock::kNever ? kEnd : 2 * block.until;
      Hold(block.from < 0 ? kBegin : 2 * block.from, until, static_cast<double>(block.bytes),
           roles_[b]);
    }
    return Sweep();
  }

 private:
  static constexpr int64_t kBegin = -2, kEnd = int64_t{1} << 62;

  const MemoryRecording::Event& Event(int64_t i) const {
    return *recording_.events()[static_cast<size_t>(i)];
  }
  SimTime TimeOf(int64_t i) const { return recording_.TimeOf(Event(i)); }

  Role RoleOf(const MemoryBlock& block) const {
    if (block.from < 0) {
      return recording_.Within(Event(block.until), "Optimizer.zero_grad") ? &MemoryLedger::gradients
                                                                          : &MemoryLedger::other;
    }
    const MemoryRecording::Event& event = Event(block.from);
    const bool stays = block.until == MemoryBlock::kNever;
    switch (recording_.PhaseOf(event)) {
      case MemoryPhase::kOptimizer:
        return stays ? &MemoryLedger::optimizer : &MemoryLedger::other;
      case MemoryPhase::kBackward: {
        const std::optional<SimTime> end = recording_.EndOfBackward(event);
        return stays || !end.has_value() || TimeOf(block.until) > *end ? &MemoryLedger::gradients
                                                                       : &MemoryLedger::activations;
      }
      default:
        return &MemoryLedger::activations;
    }
  }

  // What was there before and stays.
  void Before() {
    int64_t before = Event(0).allocated - Event(0).bytes, now = 0, most = 0;
    std::map<int64_t, int64_t> changes;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].from < 0) before -= blocks_[b].bytes;
      if (roles_[b] != &MemoryLedger::gradients) continue;
      largest_gradient_ = std::max(largest_gradient_, blocks_[b].bytes);
      changes[blocks_[b].from] += blocks_[b].bytes;
      changes[blocks_[b].until] -= blocks_[b].bytes;
    }
    for (const auto& [at, change] : changes) most = std::max(most, now += change);
    before = std::max<int64_t>(before, 0);
    const int64_t weights = recording_.trains() ? std::min(before, most) : before;
    told_apart_ = !recording_.trains() || most > 0;
    const bool state = told_apart_ && recording_.optimizes();
    Hold(kBegin, kEnd, static_cast<double>(weights), &MemoryLedger::weights);
    Hold(kBegin, kEnd, static_cast<double>(before - weights),
         state ? &MemoryLedger::optimizer : &MemoryLedger::other);
  }

  absl::Status CheckShards() {
    if (change_.stage() == 0) return absl::OkStatus();
    if (!told_apart_ || !recording_.trains()) {
      return Infeasible(
          "--memory-if zero={}/{}: rank {} allocates no gradients while recording, so that weights "
          "and optimizer state are not told apart; record a training step with zero_grad() before "
          "it",
          change_.stage(), change_.shards(), recording_.rank().info().rank);
    }
    if (change_.stage() >= 3) {
      held_.push_back(
          {kBegin, kEnd, 2.0 * static_cast<double>(largest_gradient_), &MemoryLedger::gathered});
    }
    return absl::OkStatus();
  }

  // Blocks of the forward pass that outlive the outermost selected call that they are allocated in.
  std::map<std::pair<bool, uint32_t>, std::vector<size_t>> Kept() const {
    std::map<std::pair<bool, uint32_t>, std::vector<size_t>> kept;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const MemoryBlock& block = blocks_[b];
      if (block.from < 0 || block.until == MemoryBlock::kNever) continue;
      if (recording_.PhaseOf(Event(block.from)) != MemoryPhase::kForward) continue;
      for (const MemoryRecording::Call& call : recording_.CallsAround(Event(block.from))) {
        if (!Matches(*change_.recompute(), call.name)) continue;
        if (TimeOf(block.until) > call.end) kept[{call.module, call.id}].push_back(b);
        break;
      }
    }
    return kept;
  }

  // What a part of the forward pass keeps goes at `end`, a place of twice the events' numbers, but
  // for the last, which it returns. Whether anything does.
  bool Recompute(std::span<const size_t> blocks, int64_t end) {
    const std::span<const size_t> inner = blocks.first(blocks.size() - 1);
    int64_t again = MemoryBlock::kNever;
    for (const size_t b : inner) {
      const bool backward = recording_.PhaseOf(Event(blocks_[b].until)) == MemoryPhase::kBackward;
      if (backward) again = std::min(again, blocks_[b].until);
    }
    if (again == MemoryBlock::kNever) return false;
    for (const size_t b : inner) {
      dropped_.insert(b);
      const auto bytes = static_cast<double>(blocks_[b].bytes);
      Hold(2 * blocks_[b].from, std::min(end, 2 * blocks_[b].until), bytes,
           &MemoryLedger::activations);
      if (blocks_[b].until >= again)
        Hold(2 * again - 1, 2 * blocks_[b].until, bytes, &MemoryLedger::recomputed);
    }
    return true;
  }

  absl::Status RecomputeCalls() {
    bool any = false;
    for (const auto& [call, blocks] : Kept()) {
      any |= Recompute(blocks, 2 * EventAfter(call, blocks.front()) - 1);
    }
    if (any) return absl::OkStatus();
    return Infeasible(
        "--memory-if recompute={}: rank {} has no module or range of that name that keeps anything "
        "for its backward pass{}; segments=N does without names",
        Excerpt(change_.recompute()->pattern(), 60), recording_.rank().info().rank,
        recording_.trains() ? "" : ", of which none is recorded");
  }

  // Each forward pass by itself: between two stands a backward pass.
  absl::Status RecomputeSegments() {
    std::map<int64_t, std::vector<size_t>> passes;  // by the first event of the next backward pass
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const MemoryBlock& block = blocks_[b];
      if (block.from < 0 || block.until == MemoryBlock::kNever) continue;
      if (dropped_.contains(b)) continue;  // within a call that is recomputed
      if (recording_.PhaseOf(Event(block.from)) != MemoryPhase::kForward) continue;
      if (recording_.PhaseOf(Event(block.until)) != MemoryPhase::kBackward) continue;
      passes[BackwardAfter(block.from)].push_back(b);
    }
    bool any = false;
    for (const auto& [backward, blocks] : passes) any |= RecomputePass(blocks);
    if (any) return absl::OkStatus();
    return Infeasible(
        "--memory-if segments={}: rank {} {}", change_.segments(), recording_.rank().info().rank,
        passes.empty() ? "keeps nothing for a backward pass, of which none is recorded"
                       : "keeps fewer tensors than that");
  }

  bool RecomputePass(const std::vector<size_t>& blocks) {
    double all = 0, before = 0;
    for (const size_t b : blocks) all += static_cast<double>(blocks_[b].bytes);
    const auto segment_at = [&](double bytes) {
      return static_cast<int64_t>(bytes / all * change_.segments());
    };
    bool any = false;
    for (size_t first = 0, last = 0; first < blocks.size(); first = last) {
      const int64_t segment = segment_at(before);
      for (; last < blocks.size() && segment_at(before) == segment; ++last) {
        before += static_cast<double>(blocks_[blocks[last]].bytes);
      }
      const int64_t end = 2 * blocks_[blocks[last - 1]].from + 1;
      any |= Recompute(std::span(blocks).subspan(first, last - first), end);
    }
    return any;
  }

  // The first event of a backward pass after event `from`.
  int64_t BackwardAfter(int64_t from) const {
    const auto next = std::ranges::upper_bound(backward_, from);
    return next == backward_.end() ? MemoryBlock::kNever : *next;
  }

  // The first event after the call ends in which `block` is allocated.
  int64_t EventAfter(std::pair<bool, uint32_t> id, size_t block) const {
    SimTime end;
    for (const MemoryRecording::Call& call : recording_.CallsAround(Event(blocks_[block].from))) {
      if (std::pair(call.module, call.id) == id) end = call.end;
    }
    const auto events = recording_.events();
    const auto after = std::partition_point(events.begin(), events.end(), [&](const auto* event) {
      return recording_.TimeOf(*event) <= end;
    });
    return after - events.begin();
  }

  void Hold(int64_t from, int64_t until, double bytes, Role role) {
    if (bytes <= 0 || from >= until) return;
    if (role == &MemoryLedger::activations || role == &MemoryLedger::recomputed) {
      bytes *= change_.micro_batch();
    }
    if (role == &MemoryLedger::optimizer) bytes *= change_.Share(1);
    if (role == &MemoryLedger::gradients) bytes *= change_.Share(2);
    if (role == &MemoryLedger::weights) bytes *= change_.Share(3);
    held_.push_back({from, until, bytes, role});
  }

  // The position after which most is held; the first of equals.
  MemoryPeak Sweep() const {
    std::map<int64_t, double> changes;
    for (const Held& held : held_) {
      changes[held.from] += held.bytes;
      changes[held.until] -= held.bytes;
    }
    double now = 0, most = -1;
    int64_t peak = kBegin;
    for (const auto& [at, change] : changes) {
      now += change;
      if (now > most + 0.5) most = now, peak = at;
    }
    MemoryPeak out;
    for (const Role role : kRoles) Add(role, peak, out.ledger);
    Add(&MemoryLedger::gathered, peak, out.ledger);
    out.at = TimeOf(std::clamp<int64_t>((peak + 1) / 2, 0,
                                        static_cast<int64_t>(recording_.events().size()) - 1));
    return out;
  }

  void Add(Role role, int64_t at, MemoryLedger& ledger) const {
    double bytes = 0;
    for (const Held& held : held_) {
      if (held.role == role && held.from <= at && at < held.until) bytes += held.bytes;
    }
    ledger.*role = Bytes(static_cast<int64_t>(std::min(bytes + 0.5, 1e18)));
  }

  const MemoryRecording& recording_;
  const MemoryChange& change_;
  const std::vector<MemoryBlock> blocks_;
  std::vector<Role> roles_;        // by block
  std::set<size_t> dropped_;       // blocks that Recompute holds
  std::vector<int64_t> backward_;  // events of backward passes
  std::vector<Held> held_;
  int64_t largest_gradient_ = 0;
  bool told_apart_ = false;
};

}  // namespace

absl::StatusOr<MemoryChange> MemoryChange::Parse(const std::vector<std::string>& texts) {
  MemoryChange change;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    const auto& [key, value] = parts;
    if (key == "micro-batch") {
      const bool times = value.starts_with('x');
      if (!times || !absl::SimpleAtod(value.substr(1), &change.micro_batch_) ||
          !(change.micro_batch_ > 0 && change.micro_batch_ <= 1e6)) {
        return Misunderstood(text);
      }
    } else if (key == "recompute") {
      RE2::Options quiet;
      quiet.set_log_errors(false);
      change.recompute_ = std::make_shared<const RE2>(value, quiet);
      if (value.empty() || !change.recompute_->ok()) {
        return InvalidInput("--memory-if {}: {}", Excerpt(text, 80),
                            value.empty() ? "no expression" : change.recompute_->error());
      }
    } else if (key == "segments") {
      if (!absl::SimpleAtoi(value, &change.segments_) || change.segments_ < 1 ||
          change.segments_ > 1 << 20) {
        return Misunderstood(text);
      }
    } else if (key == "zero") {
      const std::pair<std::string, std::string> of = absl::StrSplit(value, absl::MaxSplits('/', 1));
      const bool numbers = absl::SimpleAtoi(of.first, &change.stage_) &&
                           absl::SimpleAtoi(of.second, &change.shards_);
      if (!numbers || change.stage_ < 1 || change.stage_ > 3 || change.shards_ < 2 ||
          change.shards_ > 1 << 20) {
        return Misunderstood(text);
      }
    } else {
      return Misunderstood(text);
    }
  }
  return change;
}

absl::StatusOr<MemoryPeak> PeakOf(const MemoryRecording& recording, const MemoryChange& change) {
  return Ledger(recording, change).Peak();
}

}  // namespace foretrace
