#include "simulator/plan/schedule.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"

namespace foretrace {

std::string_view Name(ScheduleKind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {"gpipe", "1f1b", "kfkb", "interleaved",
                                                             "zb-h1"};
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

absl::StatusOr<PassList> InterleavedSchedule(int32_t microbatches, int32_t stages, int32_t stage,
                                             int32_t chunks) {
  if (chunks > 1 && microbatches % stages != 0) {
    return InvalidInput(
        "interleaved schedule: {} micro-batches are not a multiple of {} pipeline stages",
        microbatches, stages);
  }
  if (chunks == 1) {
    return KFKBSchedule(microbatches, 1, std::min(microbatches, stages - stage));
  }
  // Groups of `stages` micro-batches, chunk after chunk; backward visits the chunks in reverse.
  struct Cursor {
    int32_t first = 0, chunk = 0, within = 0;
  };
  Cursor at[2];
  const auto next = [&](PassKind kind) {
    Cursor& c = at[kind == PassKind::kForward ? 0 : 1];
    const Pass pass{kind, c.first + c.within,
                    kind == PassKind::kForward ? c.chunk : chunks - 1 - c.chunk};
    if (++c.within == stages) {
      c.within = 0;
      if (++c.chunk == chunks) {
        c.chunk = 0;
        c.first += stages;
      }
    }
    return pass;
  };
  const int32_t total = microbatches * chunks;
  // Megatron-LM's warm-up; with one group of micro-batches all forwards come first.
  const int32_t warmup = microbatches == stages
                             ? total
                             : std::min(total, (stages - stage - 1) * 2 + (chunks - 1) * stages);
  PassList passes;
  passes.reserve(2 * static_cast<size_t>(total));
  for (int32_t i = 0; i < warmup; ++i) passes.push_back(next(PassKind::kForward));
  for (int32_t i = warmup; i < total; ++i) {
    passes.push_back(next(PassKind::kForward));
    passes.push_back(next(PassKind::kBackward));
  }
  for (int32_t i = 0; i < warmup; ++i) passes.push_back(next(PassKind::kBackward));
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
  const bool split = std::any_of(passes.begin(), passes.end(),
                                 [](const Pass& p) { return p.kind == PassKind::kBackwardWeight; });
  const PassKind ends = split ? PassKind::kBackwardWeight : PassKind::kBackward;
  int32_t held = 0, peak = 0;
  for (const Pass& p : passes) {
    if (p.kind == PassKind::kForward) peak = std::max(peak, ++held);
    if (p.kind == ends) --held;
  }
  return peak;
}

std::vector<bool> LonePasses(const PassList& passes) {
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

absl::Status CheckPassOrder(const PassList& passes, int32_t microbatches, int32_t chunks) {
  const auto width = static_cast<size_t>(PassKind::kCount);
  std::vector<int32_t> next(static_cast<size_t>(chunks) * width, 0);
  const auto count = [&](int32_t chunk, PassKind kind) -> int32_t& {
    return next[static_cast<size_t>(chunk) * width + static_cast<size_t>(kind)];
  };
  for (const Pass& p : passes) {
    if (p.chunk < 0 || p.chunk >= chunks || p.microbatch != count(p.chunk, p.kind)) {
      return InvalidInput("C4: a pass of micro-batch {} is out of order or repeated", p.microbatch);
    }
    const bool after_forward = count(p.chunk, PassKind::kForward) > p.microbatch;
    const bool after_input = count(p.chunk, PassKind::kBackwardInput) > p.microbatch;
    if ((p.kind != PassKind::kForward && !after_forward) ||
        (p.kind == PassKind::kBackwardWeight && !after_input)) {
      return InvalidInput("C4: the backward pass of micro-batch {} comes before its forward pass",
                          p.microbatch);
    }
    ++count(p.chunk, p.kind);
  }
  for (int32_t c = 0; c < chunks; ++c) {
    const int32_t whole = count(c, PassKind::kBackward);
    const int32_t split = count(c, PassKind::kBackwardInput);
    if (count(c, PassKind::kForward) != microbatches || whole + split != microbatches ||
        count(c, PassKind::kBackwardWeight) != split) {
      return InvalidInput(
          "C4: the schedule does not pass every one of {} micro-batches forward "
          "and backward once",
          microbatches);
    }
  }
  return absl::OkStatus();
}

std::string ToString(const PassList& passes) {
  std::string text;
  for (const Pass& p : passes) text += "FBIW"[static_cast<size_t>(p.kind)];
  return text;
}

}  // namespace foretrace
