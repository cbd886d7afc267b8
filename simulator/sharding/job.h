#pragma once
// One training iteration of a sharded model as a program of the engine. The program depends on the
// plan's shape alone; a plan sets durations in it.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/embedding/lookup_stack.h"
#include "simulator/engine/program.h"
#include "simulator/sharding/dense_work.h"
#include "simulator/sharding/plan_work.h"

namespace foretrace {

enum class JobSemantics : uint8_t {
  kFull,
  // The multi-GPU paper's Algorithm 1: communication first brings both streams to the same time,
  // and no call blocks the CPU.
  kAlgorithm1,
};

// What a piece of device work is, for reports.
enum class WorkPart : uint8_t {
  kCpu,
  kLookupForward,
  kLookupBackward,
  kDense,
  kOptimizer,
  kAllToAll,
  kRowCollectives,  // reduce-scatters and all-gathers of row-wise tables
  kAllReduce,
  kCount,
};
std::string_view Name(WorkPart part);

class ShardedJob {
 public:
  // `ranks` of the task's; fewer than all only for shapes whose collectives are all of the world.
  // `stack`: how collectives are started and ended; null: as PyTorch does.
  static absl::StatusOr<ShardedJob> Build(const ShardingTask& task, const DenseWork& dense,
                                          PlanShape shape, JobSemantics semantics,
                                          CollectiveTimes& collectives, int32_t ranks,
                                          const LookupStack* stack = nullptr);

  // Every duration that depends on the plan. Requires work.shape to be the job's, and `table_step`
  // the optimizer's time for data-parallel tables. Rank i of the job does the work of ranks[i].
  void SetWork(const PlanWork& work, SimTime table_step, std::span<const uint32_t> ranks);

  const Program& program() const { return program_; }
  const TraceStore& store() const { return store_; }
  // By item; the same on every rank.
  const std::vector<WorkPart>& parts() const { return parts_; }
  PlanShape shape() const { return shape_; }
  int32_t ranks_per_node() const { return ranks_per_node_; }
  // The step of a communication item; the same on every rank.
  CommStep step(uint32_t item) const { return steps_[item]; }
  // Of an all-reduce of dense gradients, which no plan changes; zero for others.
  Bytes bucket(uint32_t item) const { return buckets_[item]; }

 private:
  friend class JobBuilder;
  explicit ShardedJob(TraceStore store) : store_(std::move(store)) { comm_.fill(kNoItem); }

  PlanShape shape_;
  Program program_;
  TraceStore store_;
  int32_t ranks_per_node_ = 1;
  std::vector<WorkPart> parts_;
  std::vector<CommStep> steps_;
  std::vector<Bytes> buckets_;
  // Items whose duration a plan sets.
  uint32_t lookup_forward_ = kNoItem, lookup_backward_ = kNoItem;
  uint32_t copy_forward_ = kNoItem, copy_backward_ = kNoItem, copy_step_ = kNoItem;
  std::array<uint32_t, static_cast<size_t>(CommStep::kCount)> comm_;
};

}  // namespace foretrace
