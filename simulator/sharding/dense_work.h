#pragma once
// The dense part of the model as ops and kernels with durations: what every rank does alike,
// whatever the plan.

#include <string>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/sharding/task.h"

namespace foretrace {

struct DenseKernel {
  std::string name;
  SimTime time;
  EstimateSource source = EstimateSource::kAnalytic;
};

// A framework op: what the CPU issues together.
struct DenseOp {
  std::string name;
  std::vector<DenseKernel> kernels;
  // Gradients that are complete with this op, for the all-reduce; zero for most.
  Bytes gradients;
};

struct DenseWork {
  std::vector<DenseOp> bottom_forward;
  std::vector<DenseOp> interaction_forward;
  std::vector<DenseOp> top_forward;  // with the loss
  std::vector<DenseOp> top_backward;
  std::vector<DenseOp> interaction_backward;
  std::vector<DenseOp> bottom_backward;
  std::vector<DenseOp> optimizer;
  Bytes parameters;
  Bytes activations;  // kept from forward to backward, of one rank
};

// For one rank's share of the batch. `kernels` predicts kernel times; `GEMMs` is the arithmetic
// of GEMMs.
DenseWork BuildDenseWork(const ShardingTask& task, const KernelModels& kernels,
                         Precision gemms = Precision::kFloat32);

// The optimizer's step for `parameters` values in `tensors` tensors.
DenseOp OptimizerStep(const ShardingTask& task, const KernelModels& kernels, int64_t parameters,
                      int64_t tensors);

// Values that the optimizer keeps for each parameter.
int64_t OptimizerStates(OptimizerKind kind);

}  // namespace foretrace
