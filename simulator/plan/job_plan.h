#pragma once
// What each device of a plan runs in one iteration. Every notation of a plan converts to this
// value: words of mappings (mapping/mapping_plan.h), lists of stages (mapping/stage_plan.h),
// placements (planning/mappings/phaze_plan.h), partitions of kernels (dataflow/mapping_plan.h).
// plan/lowering.h alone makes events of it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/plan/pipeline_timing.h"
#include "simulator/plan/schedule.h"

namespace foretrace {

inline constexpr int32_t kNoGroup = -1;
inline constexpr int32_t kNoMark = -1;

// Sets of devices, each of which exchanges among itself. A device is in one of them at most.
struct DeviceGroups {
  std::string kind;
  std::vector<std::vector<int32_t>> sets;  // of ranks
};

// What a step waits for. A kernel waits for the one before it in any case.
struct Awaited {
  enum class Kind : uint8_t {
    kKernels,  // the kernel before, or what holds kernels up since
    kInputs,   // what the pass receives; nothing where it receives nothing
    kStep,     // a step of the same body
    kMark,  // the last step of an earlier body that left the mark, if any; of output, of this one
            // too
  };
  Kind kind = Kind::kKernels;
  int32_t index = 0;  // of the step, or the mark
};
using AwaitedList = std::vector<Awaited>;
inline AwaitedList AfterKernels() { return {{Awaited::Kind::kKernels, 0}}; }
inline AwaitedList AfterInputs() { return {{Awaited::Kind::kInputs, 0}}; }
inline Awaited TheMark(int32_t mark) { return {Awaited::Kind::kMark, mark}; }

// `before`, the name of the pass, `after`; or `before` alone.
struct StepName {
  std::string before;
  bool of_pass = false;
  std::string after;
};
inline StepName Named(std::string name) { return {std::move(name), false, ""}; }
inline StepName OfPass(std::string before = "", std::string after = "") {
  return {std::move(before), true, std::move(after)};
}

// A kernel, or an exchange within a group: a collective, or what each sends to the next one and the
// last to the first (kSendRecv). Exchanges run beside kernels.
struct PlanStep {
  StepName name;
  SimTime duration;
  AwaitedList awaits;
  int32_t group = kNoGroup;  // in JobPlan::groups; kNoGroup: a kernel
  CollectiveOp op = CollectiveOp::kUnknown;
  Bytes bytes;
  bool holds = false;  // later kernels wait for the exchange
  int32_t mark = kNoMark;
};

// What a device runs in a pass of one micro-batch, or after all of them, in the order of issue.
struct PlanBody {
  std::vector<PlanStep> steps;
  AwaitedList output = AfterKernels();  // what must be there before it is sent on

  // Each returns what stands for the step.
  Awaited Add(PlanStep step) {
    steps.push_back(std::move(step));
    return {Awaited::Kind::kStep, static_cast<int32_t>(steps.size()) - 1};
  }
  Awaited Kernel(StepName name, SimTime duration, AwaitedList also = {}) {
    PlanStep step;
    step.name = std::move(name);
    step.duration = duration;
    step.awaits = std::move(also);
    return Add(std::move(step));
  }
  // Not before `awaits`.
  Awaited Exchange(PlanStep exchange, AwaitedList awaits) {
    FORETRACE_CHECK(exchange.group != kNoGroup);
    exchange.awaits = std::move(awaits);
    return Add(std::move(exchange));
  }
  // After the kernels so far; later ones wait for it.
  Awaited HoldingExchange(PlanStep exchange) {
    exchange.holds = true;
    return Exchange(std::move(exchange), AfterKernels());
  }
};

// Devices that run the same. Replicas share each micro-batch; of a replica's devices each has a
// part of every operator.
struct PlannedStage {
  std::string source;  // what it is, for traces
  // Replica after replica, `tensor` devices each.
  std::vector<int32_t> ranks;
  int32_t tensor = 1;
  int32_t micro_batch = 1;        // samples
  PassList passes;                // its schedule
  std::vector<uint32_t> body_of;  // by pass, in `bodies`
  std::vector<PlanBody> bodies;
  PlanBody end;  // after the last pass: gradients, the optimizer
};

// Between (stage, chunk) and (stage, chunk), with the times of messages. Each replica sends to
// those that have samples in common with it, and where micro-batches differ in size the larger
// ones.
struct PlannedEdge {
  TimedEdge ends;
  Bytes bytes;         // of a message between two devices
  bool holds = false;  // the sender's later kernels wait for the message
};

struct JobPlan {
  std::string name;      // for messages
  std::string shorter;   // what would make its iteration shorter, for messages
  std::string producer;  // "foretrace generate"
  DType dtype = DType::kFloat16;
  int32_t mini_batch = 1;  // samples, of all stages alike
  std::vector<DeviceGroups> groups;
  int32_t links = kNoGroup;  // the group that edges belong to
  std::vector<PlannedStage> stages;
  std::vector<PlannedEdge> edges;

  // Adds the sets of more than one device; kNoGroup where there are none.
  int32_t AddGroup(std::string kind, std::vector<std::vector<int32_t>> sets);
  // Kernels, exchanges and messages of all devices; one message a pass and edge.
  double Nodes() const;
};

}  // namespace foretrace
