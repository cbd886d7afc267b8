#include "simulator/plan/schedule.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

std::string_view Name(ScheduleKind kind) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "gpipe", "1f1b", "kfkb", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipev"};
  return EnumName(kNames, kind);
}

PassList GPipeSchedule(int32_t microbatches) {
  PassList passes;
  for (const PassKind kind : {PassKind::kForward, PassKind::kBackward}) {
    for (int32_t i = 0; i < microbatches; ++i) passes.push_back({kind, i, 0});
  }
  return passes;
}

PassList KFKBSchedule(int32_t microbatches, int32_t k, int32_t in_flight) {
  PassList passes;
  passes.reserve(2 * static_cast<size_t>(microbatches));
  int32_t forward = 0, backward = 0;
  const auto run = [&](PassKind kind, int32_t& next, int32_t count, int32_t limit) {
    for (; count > 0 && next < limit; --count) passes.push_back({kind, next++, 0});
  };
  run(PassKind::kForward, forward, in_flight, microbatches);
  while (backward < microbatches) {
    run(PassKind::kBackward, backward, k, forward);
    run(PassKind::kForward, forward, k, microbatches);
  }
  return passes;
}

namespace {

// Groups of `stages` micro-batches, chunk after chunk; backward visits the chunks in reverse.
class InterleavedOrder {
 public:
  InterleavedOrder(int32_t stages, int32_t chunks) : stages_(stages), chunks_(chunks) {}

  Pass Next(PassKind kind) {
    Cursor& c = at_[static_cast<size_t>(kind)];
    const bool forward = kind == PassKind::kForward;
    const Pass pass{kind, c.first + c.within, forward ? c.chunk : chunks_ - 1 - c.chunk};
    if (++c.within == stages_) {
      c.within = 0;
      if (++c.chunk == chunks_) {
        c.chunk = 0;
        c.first += stages_;
      }
    }
    return pass;
  }

 private:
  struct Cursor {
    int32_t first = 0, chunk = 0, within = 0;
  };
  int32_t stages_, chunks_;
  Cursor at_[static_cast<size_t>(PassKind::kCount)];
};

absl::Status CheckGroups(int32_t microbatches, int32_t stages) {
  if (microbatches % stages == 0) return absl::OkStatus();
  return InvalidInput(
      "interleaved schedule: {} micro-batches are not a multiple of {} pipeline stages",
      microbatches, stages);
}

}  // namespace

absl::StatusOr<PassList> InterleavedSchedule(int32_t microbatches, int32_t stages, int32_t stage,
                                             int32_t chunks) {
  if (chunks == 1) {
    return KFKBSchedule(microbatches, 1, std::min(microbatches, stages - stage));
  }
  FORETRACE_RETURN_IF_ERROR(CheckGroups(microbatches, stages));
  InterleavedOrder order(stages, chunks);
  const int32_t total = microbatches * chunks;
  // Megatron Core's warm-up since 0.10 (November of 2024, pipeline_parallel/schedules.py,
  // get_pp_rank_microbatches), and PyTorch's; before, all forwards of a single group of
  // micro-batches came first on every stage.
  const int32_t warmup = std::min(total, (stages - stage - 1) * 2 + (chunks - 1) * stages);
  PassList passes;
  passes.reserve(2 * static_cast<size_t>(total));
  for (int32_t i = 0; i < warmup; ++i) passes.push_back(order.Next(PassKind::kForward));
  for (int32_t i = warmup; i < total; ++i) {
    passes.push_back(order.Next(PassKind::kForward));
    passes.push_back(order.Next(PassKind::kBackward));
  }
  for (int32_t i = 0; i < warmup; ++i) passes.push_back(order.Next(PassKind::kBackward));
  return passes;
}

absl::StatusOr<PassList> InterleavedZeroBubbleSchedule(int32_t microbatches, int32_t stages,
                                                       int32_t stage, int32_t chunks) {
  FORETRACE_RETURN_IF_ERROR(CheckGroups(microbatches, stages));
  InterleavedOrder order(stages, chunks);
  const int32_t total = microbatches * chunks;
  const int32_t warmup = std::min(total, stages - stage - 1 + (chunks - 1) * stages);
  PassList passes;
  passes.reserve(3 * static_cast<size_t>(total));
  for (int32_t i = 0; i < warmup; ++i) passes.push_back(order.Next(PassKind::kForward));
  for (int32_t i = 0; i < total; ++i) {
    if (warmup + i < total) passes.push_back(order.Next(PassKind::kForward));
    passes.push_back(order.Next(PassKind::kBackwardInput));
    if (i >= stage) passes.push_back(order.Next(PassKind::kBackwardWeight));
  }
  for (int32_t i = 0; i < std::min(stage, total); ++i) {
    passes.push_back(order.Next(PassKind::kBackwardWeight));
  }
  return passes;
}

std::vector<PassList> ZeroBubbleH1Schedule(int32_t microbatches, int32_t stages) {
  // List scheduling in unit time: every kind of pass takes one step, as in the paper's figure 3.
  // A stage goes forward while 1F1B's bounds on what it holds allow, else it takes the input
  // gradient that its predecessor waits for, else a weight gradient.
  struct Stage {
    int32_t forward = 0, input = 0, weight = 0;
  };
  std::vector<PassList> passes(static_cast<size_t>(stages));
  std::vector<Stage> done(static_cast<size_t>(stages));
  const auto total = static_cast<size_t>(microbatches) * 3;
  const auto unfinished = [&](const PassList& p) { return p.size() < total; };
  while (std::any_of(passes.begin(), passes.end(), unfinished)) {
    const std::vector<Stage> before = done;  // what had ended when this step began
    for (int32_t s = 0; s < stages; ++s) {
      const Stage& now = before[static_cast<size_t>(s)];
      Stage& next = done[static_cast<size_t>(s)];
      const int32_t arrived = s == 0 ? microbatches : before[static_cast<size_t>(s) - 1].forward;
      const int32_t returned =
          s + 1 == stages ? now.forward : before[static_cast<size_t>(s) + 1].input;
      PassList& list = passes[static_cast<size_t>(s)];
      // 1F1B's warm-up bounds what may be forward of the input gradients.
      const bool may_forward = now.forward < std::min(arrived, microbatches) &&
                               now.forward - now.input < stages - s &&
                               now.forward - now.weight < stages;
      if (may_forward) {
        list.push_back({PassKind::kForward, next.forward++, 0});
      } else if (now.input < std::min(returned, now.forward)) {
        list.push_back({PassKind::kBackwardInput, next.input++, 0});
      } else if (now.weight < now.input) {
        list.push_back({PassKind::kBackwardWeight, next.weight++, 0});
      }
    }
  }
  return passes;
}

int32_t PeakInFlight(const PassList& passes) {
  int32_t held = 0, peak = 0;
  for (const Pass& p : passes) {
    if (p.kind == PassKind::kForward) peak = std::max(peak, ++held);
    if (p.kind == PassKind::kBackward || p.kind == PassKind::kBackwardWeight) --held;
  }
  return peak;
}

namespace {

std::vector<bool> NotPaired(const PassList& passes) {
  std::vector<bool> lone;
  bool after = false;
  for (const Pass& p : passes) {
    lone.push_back(p.kind != PassKind::kBackwardWeight && !p.paired && !after);
    after = p.paired;
  }
  return lone;
}

}  // namespace

std::vector<bool> LonePasses(const PassList& passes) {
  const auto paired = [](const Pass& p) { return p.paired; };
  if (std::any_of(passes.begin(), passes.end(), paired)) return NotPaired(passes);
  std::vector<size_t> forward, backward;
  size_t before = 0;  // forward ones before the first backward one
  for (size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].kind == PassKind::kForward) {
      forward.push_back(i);
      before += backward.empty() ? 1 : 0;
    } else if (passes[i].kind != PassKind::kBackwardWeight) {
      backward.push_back(i);
    }
  }
  const size_t lone = before == forward.size() ? before : std::max<size_t>(before, 2) - 1;
  std::vector<bool> found(passes.size(), false);
  for (size_t i = 0; i < std::min(lone, backward.size()); ++i) {
    found[forward[i]] = found[backward[backward.size() - 1 - i]] = true;
  }
  return found;
}

namespace {

// What a schedule has run of a chunk.
struct ChunkPasses {
  int32_t forward = 0, backward = 0;
  std::vector<int32_t> split;  // micro-batches whose weights' gradient comes later
  size_t weights = 0;          // of these, how many have come
};

absl::Status CheckPairs(const PassList& passes) {
  for (size_t i = 0; i < passes.size(); ++i) {
    if (!passes[i].paired) continue;
    const bool fits = passes[i].kind == PassKind::kForward && i + 1 < passes.size() &&
                      passes[i + 1].kind == PassKind::kBackward && !passes[i + 1].paired &&
                      passes[i + 1].chunk != passes[i].chunk;
    if (!fits) {
      return InvalidInput(
          "C4: the pass of micro-batch {} is no forward pass beside another chunk's backward pass",
          passes[i].microbatch);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPassOrder(const PassList& passes, int32_t microbatches, int32_t chunks) {
  std::vector<ChunkPasses> done(static_cast<size_t>(chunks));
  for (const Pass& p : passes) {
    const auto out_of_order = [&] {
      return InvalidInput("C4: a pass of micro-batch {} is out of order or repeated", p.microbatch);
    };
    const auto early = [&] {
      return InvalidInput("C4: the backward pass of micro-batch {} comes before its forward pass",
                          p.microbatch);
    };
    if (p.chunk < 0 || p.chunk >= chunks) return out_of_order();
    ChunkPasses& own = done[static_cast<size_t>(p.chunk)];
    if (p.kind == PassKind::kBackwardWeight) {
      if (own.weights == own.split.size()) return early();
      if (own.split[own.weights++] != p.microbatch) return out_of_order();
      continue;
    }
    const bool forward = p.kind == PassKind::kForward;
    int32_t& next = forward ? own.forward : own.backward;
    if (p.microbatch != next) return out_of_order();
    if (!forward && own.forward <= p.microbatch) return early();
    ++next;
    if (p.kind == PassKind::kBackwardInput) own.split.push_back(p.microbatch);
  }
  for (const ChunkPasses& own : done) {
    if (own.forward != microbatches || own.backward != microbatches ||
        own.weights != own.split.size()) {
      return InvalidInput(
          "C4: the schedule does not pass every one of {} micro-batches forward "
          "and backward once",
          microbatches);
    }
  }
  return CheckPairs(passes);
}

std::string ToString(const PassList& passes) {
  std::string text;
  for (const Pass& p : passes) text += "FBIW"[static_cast<size_t>(p.kind)];
  return text;
}

}  // namespace foretrace
