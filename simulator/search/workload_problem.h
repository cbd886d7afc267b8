#pragma once
// From a workload and a device to the partitioners' problems.

#include <cstdint>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/search/graphpipe.h"
#include "simulator/search/operator_times.h"
#include "simulator/search/phaze.h"
#include "simulator/search/pipedream.h"
#include "simulator/search/piper.h"
#include "simulator/workload/workload.h"

namespace foretrace {

// An operator on x samples takes overhead + max(x FLOP / rate, (weights + x bytes) / bandwidth).
struct PartitionDevice {
  FlopRate flop_rate;          // attainable
  Bandwidth memory_bandwidth;  // attainable
  Bandwidth network;           // between any two devices
  SimTime overhead;            // per operator and pass
  Bytes memory;
  // Kept per parameter: weight, gradient, optimizer state.
  double bytes_per_parameter = 12;
  int32_t devices = 1;
  // Tensor parallelism: its widths besides 1, and what devices exchange sums over.
  std::vector<int32_t> widths = {};
  Bandwidth tensor_network = {};
  SimTime tensor_latency = {};  // of such an exchange
  // Of operators whose calls are known, and of what tensor parallelism exchanges, instead of the
  // rates above; null: those.
  const OperatorTimes* times = nullptr;
};

// At width t an operator that t divides has a t-th of the FLOP, bytes and parameters; what tensor
// parallelism sums over the group, its result or its input's gradient, takes the latency and a
// ring's 2 (t - 1) / t of its size over `tensor_network`. The mini-batch must be a power of two.
GraphPipeProblem GraphPipeProblemOf(const Workload& workload, const PartitionDevice& device,
                                    int32_t mini_batch);

// For micro-batches of one size, on which PipeDream's and Piper's formulas depend; Piper's with
// every operator's activations kept or not, at every width.
PipeDreamProblem PipeDreamProblemOf(const GraphPipeProblem& problem, int32_t micro_batch);
PiperProblem PiperProblemOf(const GraphPipeProblem& problem, int32_t micro_batch);
// At every width, every micro-batch of `micro_batches`, with activations kept or not. Its memory
// and parameters are those of `problem`, which must outlive it.
PhazeProblem PhazeProblemOf(const GraphPipeProblem& problem,
                            const std::vector<int32_t>& micro_batches);

}  // namespace foretrace
