#pragma once
// In which order a pipeline stage runs its passes over the micro-batches of one iteration.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

enum class PassKind : uint8_t {
  kForward,
  kBackward,        // gradients of input and weights together
  kBackwardInput,   // gradient of the input only
  kBackwardWeight,  // gradient of the weights, later
  kCount,
};

struct Pass {
  PassKind kind = PassKind::kForward;
  int32_t microbatch = 0;
  int32_t chunk = 0;  // model chunk of the stage, for schedules with several
  // Runs beside the pass after it: both begin when both have what they need, and what either sends
  // on is there when both have ended.
  bool paired = false;
  auto operator<=>(const Pass&) const = default;
};
using PassList = std::vector<Pass>;

enum class ScheduleKind : uint8_t {
  kGPipe,
  k1F1B,
  kKFKB,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubbleV,
  kDualPipe,
  kDualPipeV,
  kCount,
};
std::string_view Name(ScheduleKind kind);

// All forwards, then all backwards (Huang et al., 2019).
PassList GPipeSchedule(int32_t microbatches);

// `in_flight` forwards, then alternately k backwards and k forwards, then the remaining backwards
// (GraphPipe, footnote 7). 1F1B is k = 1 with in_flight = depth from the end.
PassList KFKBSchedule(int32_t microbatches, int32_t k, int32_t in_flight);

// Interleaved 1F1B of `chunks` model chunks a stage (Narayanan et al., 2021, section 2.2), in
// Megatron-LM's order: micro-batches go through the chunks in groups of `stages`.
// Errors: microbatches is not a multiple of stages.
absl::StatusOr<PassList> InterleavedSchedule(int32_t microbatches, int32_t stages, int32_t stage,
                                             int32_t chunks);

// The same with backward passes split: a device puts off as many weights' gradients as stages are
// before it, and goes forward that much less before its first backward pass (PyTorch's
// ScheduleInterleavedZeroBubble, torch/distributed/pipelining/schedules.py).
// Errors: microbatches is not a multiple of stages.
absl::StatusOr<PassList> InterleavedZeroBubbleSchedule(int32_t microbatches, int32_t stages,
                                                       int32_t stage, int32_t chunks);

// ZB-H1 of "Zero bubble pipeline parallelism" (Qi et al., 2024), section 2.1: backward split into
// its two gradients, weight gradients filling the drain; as many in flight as 1F1B at most.
std::vector<PassList> ZeroBubbleH1Schedule(int32_t microbatches, int32_t stages);

// ZB-V of "Pipeline parallelism with controllable memory" (Qi et al., 2024), section 4, in the
// order of PyTorch's ScheduleZBVZeroBubble (torch/distributed/pipelining/schedules.py): the model
// goes down the line of devices and back up. Chunk 0 of device `stage` is stage `stage` of 2
// `stages`, chunk 1 stage `2 stages - 1 - stage`, so that the first device has both ends. Backward
// passes are split; a device holds at most twice as many chunks as there are stages. Of fewer
// micro-batches than 2 `stages` - 1 those that are lacking are left out.
PassList ZeroBubbleVSchedule(int32_t microbatches, int32_t stages, int32_t stage);

// DualPipe of "DeepSeek-V3 technical report" (DeepSeek-AI, 2024), section 3.2.1, as its authors
// published it (github.com/deepseek-ai/DualPipe, dualpipe/dualpipe.py, step): half of the
// micro-batches enter at either end of the line. Chunk 0 of device `stage` is stage `stage` of
// those from the front, chunk 1 is stage `stages - 1 - stage` of those from the back; micro-batches
// are counted by direction. Forward and backward passes of opposite directions run in pairs once
// the pipeline is full. Errors: an odd number of either; fewer micro-batches than twice the stages.
absl::StatusOr<PassList> DualPipeSchedule(int32_t microbatches, int32_t stages, int32_t stage);

// DualPipeV, "cut in half" (github.com/deepseek-ai/DualPipe, dualpipe/dualpipev.py, step; PyTorch's
// ScheduleDualPipeV): what DualPipe's devices of the first half do, on a line that goes down and
// back up as ZB-V's. Errors: fewer than two stages; fewer micro-batches than twice the stages.
absl::StatusOr<PassList> DualPipeVSchedule(int32_t microbatches, int32_t stages, int32_t stage);

// Most micro-batches (of any chunk) between their forward and the end of their backward.
int32_t PeakInFlight(const PassList& passes);

// By pass, whether it runs by itself where software runs a forward pass of one micro-batch beside
// the backward pass of another: as many of the first forward passes as come before the first
// backward one but one, at least one, and as many of the last backward ones. All, where no forward
// pass comes after a backward one. Where passes are paired, those that are not.
std::vector<bool> LonePasses(const PassList& passes);

// Condition C4 of GraphPipe: every micro-batch once forward and once backward, whole or its
// weights' gradient later, each in order of micro-batches, forward before backward. A pair is a
// forward and a whole backward pass of two chunks. The message names the offending pass.
absl::Status CheckPassOrder(const PassList& passes, int32_t microbatches, int32_t chunks = 1);

// "FFBFBB", for messages and tests.
std::string ToString(const PassList& passes);

}  // namespace foretrace
