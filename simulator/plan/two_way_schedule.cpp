// Schedules of lines of devices that have a chunk of the model for either way.

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/plan/schedule.h"

namespace foretrace {

namespace {

class ZeroBubbleVList {
 public:
  ZeroBubbleVList(int32_t microbatches, int32_t stages, int32_t stage)
      : microbatches_(microbatches),
        all_(std::max(microbatches, 2 * stages - 1)),
        stages_(stages),
        stage_(stage) {}

  PassList Make() && {
    WarmUp();
    while (next_[kForward][1] < next_[kForward][0] || next_[kForward][0] < all_) {
      if (next_[kForward][0] < all_) Add(kForward, 0);
      Add(kInput, 0);
      Add(kWeight, 0);
      Add(kForward, 1);
      Add(kInput, 1);
      Add(kWeight, 1);
    }
    CoolDown();
    return std::move(passes_);
  }

 private:
  enum Kind { kForward, kInput, kWeight };

  void Add(Kind kind, int32_t chunk) {
    constexpr PassKind kKinds[] = {PassKind::kForward, PassKind::kBackwardInput,
                                   PassKind::kBackwardWeight};
    const int32_t microbatch = next_[kind][chunk]++;
    if (microbatch < microbatches_) passes_.push_back({kKinds[kind], microbatch, chunk});
  }

  void WarmUp() {
    for (int32_t i = 0; i < 2 * (stages_ - stage_) - 1; ++i) Add(kForward, 0);
    for (int32_t i = 0; i < stage_; ++i) {
      Add(kForward, 1);
      Add(kForward, 0);
    }
    for (int32_t i = 0; i < stages_ - stage_; ++i) {
      Add(kForward, 1);
      Add(kInput, 1);
      Add(kWeight, 1);
    }
  }

  void CoolDown() {
    for (int32_t i = 0; i < stage_; ++i) {
      Add(kInput, 0);
      Add(kInput, 1);
    }
    for (int32_t i = 0; i < stages_ - stage_; ++i) {
      Add(kInput, 0);
      Add(kWeight, 0);
    }
    while (next_[kWeight][1] < next_[kInput][1]) Add(kWeight, 1);
    while (next_[kWeight][0] < next_[kInput][0]) Add(kWeight, 0);
  }

  int32_t microbatches_, all_, stages_, stage_;
  int32_t next_[3][2] = {};  // micro-batch by kind and chunk
  PassList passes_;
};

}  // namespace

PassList ZeroBubbleVSchedule(int32_t microbatches, int32_t stages, int32_t stage) {
  return ZeroBubbleVList(microbatches, stages, stage).Make();
}

namespace {

// DualPipe's list of one device, or DualPipeV's. The near direction enters at the device's own half
// of the line, the far one at the other; of both halves the lists are the same but for that.
class DualPipeList {
 public:
  // Of `half` devices from either end of the line to its middle; `each`: micro-batches that enter
  // at one end.
  DualPipeList(int32_t each, int32_t half, int32_t place, int32_t near_chunk)
      : half_(half), place_(place), each_(each), near_chunk_(near_chunk) {}

  // In the steps of the published code; how often each runs, as it has it.
  PassList Make() {
    const int32_t from_middle = half_ - place_ - 1;
    for (int32_t i = 0; i < 2 * from_middle; ++i) Forward(kNear);
    for (int32_t i = 0; i <= place_; ++i) {
      Forward(kNear);
      Forward(kFar);
    }
    for (int32_t i = 0; i < from_middle; ++i) {
      Backward(kFar, true);
      Weights();
      Forward(kFar);
    }
    for (int32_t i = 0; i < each_ - 2 * half_ + place_ + 1; ++i) {
      // The middle devices' first two run one after the other, for a smaller bubble.
      Forward(kNear, i > 0 || from_middle > 0);
      Backward(kFar);
      Forward(kFar, true);
      Backward(kNear);
    }
    for (int32_t i = 0; i < from_middle; ++i) {
      Backward(kFar);
      Forward(kFar, true);
      Backward(kNear);
    }
    bool split = false;
    for (int32_t i = 0; i <= place_; ++i) {
      const bool middle = i == (place_ + 1) / 2;
      split |= middle && place_ % 2 == 1;
      Backward(kFar, split);
      split |= middle;
      Backward(kNear, split);
    }
    for (int32_t i = 0; i < from_middle; ++i) {
      Weights();
      Backward(kNear, true);
    }
    for (int32_t i = 0; i <= place_; ++i) Weights();
    return std::move(passes_);
  }

 private:
  enum Direction : size_t { kNear, kFar };
  int32_t ChunkOf(Direction d) const { return d == kNear ? near_chunk_ : 1 - near_chunk_; }

  void Forward(Direction d, bool paired = false) {
    passes_.push_back({PassKind::kForward, forward_[d]++, ChunkOf(d), paired});
  }
  void Backward(Direction d, bool split = false) {
    const Pass pass{split ? PassKind::kBackwardInput : PassKind::kBackward, backward_[d]++,
                    ChunkOf(d)};
    passes_.push_back(pass);
    if (split) left_.push_back({PassKind::kBackwardWeight, pass.microbatch, pass.chunk});
  }
  // The weights' gradient that was left first.
  void Weights() { passes_.push_back(left_[done_++]); }

  int32_t half_, place_;
  int32_t each_;  // micro-batches of a direction
  int32_t near_chunk_;
  int32_t forward_[2] = {}, backward_[2] = {};
  PassList left_;
  size_t done_ = 0;  // of these
  PassList passes_;
};

}  // namespace

absl::StatusOr<PassList> DualPipeSchedule(int32_t microbatches, int32_t stages, int32_t stage) {
  if (stages < 2 || stages % 2 != 0 || microbatches % 2 != 0 || microbatches < 2 * stages) {
    return InvalidInput(
        "dualpipe schedule: {} stages and {} micro-batches; both must be even, and micro-batches "
        "at "
        "least twice as many as stages",
        stages, microbatches);
  }
  const bool first_half = stage < stages / 2;
  const int32_t place = first_half ? stage : stages - 1 - stage;
  return DualPipeList(microbatches / 2, stages / 2, place, first_half ? 0 : 1).Make();
}

absl::StatusOr<PassList> DualPipeVSchedule(int32_t microbatches, int32_t stages, int32_t stage) {
  if (stages < 2 || microbatches < 2 * stages) {
    return InvalidInput(
        "dualpipev schedule: {} stages and {} micro-batches; it needs two stages, and at least two "
        "micro-batches a stage",
        stages, microbatches);
  }
  return DualPipeList(microbatches, stages, stage, 0).Make();
}

}  // namespace foretrace
