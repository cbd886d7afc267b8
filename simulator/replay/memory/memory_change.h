#pragma once
// What holds a recorded job's memory, and how its peak moves with the job.

#include <re2/re2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/memory_ledger.h"
#include "simulator/replay/memory/memory_recording.h"

namespace foretrace {

// --memory-if, may be repeated:
//   micro-batch=xF    as many times as many samples in a forward pass
//   recompute=REGEX   calls of modules, or ranges, of that name keep only what they return; the
//                     rest is there again from when their backward pass first frees some of it
//   segments=N        the same of the forward pass in N parts, each with as much of what it keeps
//                     for the backward pass (Chen et al., arXiv:1604.06174, section 3): of
//                     recordings without modules and ranges
//   zero=STAGE/N      N more ranks divide the optimizer's state (stage 1), gradients too (2),
//                     weights too (3)
class MemoryChange {
 public:
  // Errors: text that does not follow the grammar.
  static absl::StatusOr<MemoryChange> Parse(const std::vector<std::string>& texts);

  bool empty() const {
    return micro_batch_ == 1 && recompute_ == nullptr && segments_ == 0 && stage_ == 0;
  }
  double micro_batch() const { return micro_batch_; }
  const RE2* recompute() const { return recompute_.get(); }  // null: nothing
  int32_t segments() const { return segments_; }             // 0: nothing
  int32_t stage() const { return stage_; }
  int32_t shards() const { return shards_; }
  // 1 of how many of what that stage divides.
  double Share(int32_t from) const { return stage_ >= from ? 1.0 / shards_ : 1; }

 private:
  double micro_batch_ = 1;
  std::shared_ptr<const RE2> recompute_;
  int32_t segments_ = 0;
  int32_t stage_ = 0, shards_ = 1;
};

struct MemoryPeak {
  MemoryLedger ledger;
  SimTime at;  // recorded
};

// The peak with `change`, and what then holds it: activations are what was allocated in the forward
// pass, and in the backward pass and freed within it; gradients what the backward pass leaves;
// optimizer what an optimizer's step leaves. What was there before the recording is as many bytes
// of weights as there are of gradients and for the rest the optimizer's state (weights alone where
// no backward pass is recorded; `other` where no gradients are). Under ZeRO 3 two of the largest
// gradients' tensors stand for gathered weights. Needs a recording that is paired and has totals.
// Errors: a change that finds nothing to change.
absl::StatusOr<MemoryPeak> PeakOf(const MemoryRecording& recording, const MemoryChange& change);

}  // namespace foretrace
