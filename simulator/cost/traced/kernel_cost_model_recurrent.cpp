// Kernels of recurrences that one call launches all steps of.

#include <algorithm>
#include <vector>

#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/vector_rates.h"
#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/cost/traced/recurrent_calls.h"

namespace foretrace {
namespace {

// The state of a step goes to all blocks by way of L2: it is written, its end is signalled, seen,
// and it is read. 193 cycles each ("Dissecting the NVIDIA Volta GPU architecture via
// microbenchmarking", 2018).
constexpr double kTripsOfStep = 4, kL2Cycles = 193;

SimTime AllSteps(const GpuPeaks& device, const Recurrence& recurrence, Precision precision,
                 double kernels) {
  const double steps = static_cast<double>(recurrence.steps);
  const double waits_us = steps * kTripsOfStep * kL2Cycles / VectorRatesOf(device).cycles_per_us;
  const double multiplies_us =
      recurrence.recurrent.count() / (device.boost_tflops(precision) * 1e6) / kernels;
  return SimTime::FromUs(std::min(waits_us + multiplies_us, 1e9));
}

}  // namespace

// A call's products come to its FLOP: each result sums as many, those of kernels that go through
// all steps aside.
bool KernelCostModel::AssignRecurrence(const TraceStore& store, const RankTrace& rank,
                                       const CallKernels& op, std::vector<Entry>& entries) const {
  std::vector<TensorShape> inputs;
  for (const Tensor& tensor : rank.tensors(op.call)) {
    if (!tensor.is_output) inputs.push_back({rank.dims(tensor), tensor.dtype});
  }
  const auto recurrence = RecurrenceOf(store.name(rank, op.call), inputs);
  if (!recurrence) return false;
  const GpuPeaks& device = models_->device();
  double results = 0, through = 0;
  for (const NodeIndex node : op.kernels) {
    if (rank.kind(node) != NodeKind::kKernel) continue;
    const Launch launch = LaunchOf(store, rank, node);
    if (launch.waves_milli == 0) return false;
    if (GoesThroughSteps(launch.name)) {
      ++through;
    } else if (IsMatrixKernel(launch.name)) {
      results += ResultsOfGemm(device, launch);
    }
  }
  const Flop multiplied = through > 0 ? recurrence->inputs : recurrence->flop();
  const double depth = results > 0 ? multiplied.count() / (2 * results) : 0;
  for (const NodeIndex node : op.kernels) {
    Entry& entry = entries[node.value];
    entry.call = op.call;
    if (rank.kind(node) != NodeKind::kKernel) {
      entry.estimate = {Floor(), EstimateSource::kAnalytic, true};
      entry.kind = KernelKind::kFill;
      continue;
    }
    const Launch launch = LaunchOf(store, rank, node);
    if (GoesThroughSteps(launch.name)) {
      const Precision precision = PrecisionOf(recurrence->dtype, false);
      entry.estimate = {AllSteps(device, *recurrence, precision, through),
                        EstimateSource::kAnalytic, true};
      entry.kind = KernelKind::kGemm;
    } else if (IsMatrixKernel(launch.name)) {
      entry.estimate = {EstimateGemm(*models_, launch, depth), EstimateSource::kAnalytic, true};
      entry.kind = KernelKind::kGemm;
    } else if (const auto launched = EstimateLaunch(*models_, launch, 0, 0)) {
      entry.estimate = {launched->time, EstimateSource::kAnalytic, true};
      entry.kind = launched->kind;
    }
  }
  return true;
}

}  // namespace foretrace
