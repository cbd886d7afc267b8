#pragma once
// Piper's partitioner: Tarnawski, Narayanan and Phanishayee, "Piper: multidimensional planner for
// DNN parallelization" (NeurIPS 2021).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/search/op_graph.h"

namespace foretrace {

// One way to run a node over t devices. Times are of a sample.
struct PiperOption {
  std::string name;
  RealSeconds time;
  RealBytes parameter_bytes;
  RealBytes memory_per_inflight;  // a
  RealBytes memory_fixed;         // b
  // What is moved besides when the edge enters or leaves the stage; by neighbour.
  std::map<int32_t, RealBytes> sync_in;
  std::map<int32_t, RealBytes> sync_out;
  bool recompute = false;
};

struct PiperEdge {
  int32_t from = 0;
  int32_t to = 0;
  RealBytes bytes;  // per sample
};

struct PiperProblem {
  std::vector<std::map<int32_t, std::vector<PiperOption>>> nodes;  // by tensor-parallel degree
  std::vector<PiperEdge> edges;
  int32_t max_devices = 1;
  RealBytes memory;  // per device
  Bandwidth bandwidth;
  int32_t batch = 1;  // samples (microbatches) per batch; N
  // What the planner may use.
  bool data_parallel = true;
  bool tensor_parallel = true;
  bool recompute = true;
  size_t max_downsets = 200'000;
};

struct PiperStage {
  std::vector<int32_t> nodes;
  std::vector<int32_t> options;  // index chosen, by node
  int32_t data_parallel = 1;
  int32_t tensor_parallel = 1;
  RealSeconds time;  // per sample
  RealBytes memory;
};

struct PiperPlan {
  RealSeconds time_per_sample;
  int32_t devices = 0;
  std::vector<PiperStage> stages;
};

// Minimises the bottleneck's time per sample: compute/d + [2 sum(cut bytes + sync)/d + sum 4 (d-1)
// w / (d N)] / bandwidth, under sum(a * ceil(D/d) + b) <= memory with D the sum of data-parallel
// degrees of the stage and those after it. d divides N; at most min(N, devices) degrees in all.
// Within a stage, options are chosen as Piper's greedy does, then improved.
// Errors: invalid problems; infeasible: nothing fits in memory, too many downsets.
absl::StatusOr<PiperPlan> PartitionPiper(const PiperProblem& problem);

// Time and memory of a given plan under the same formulas; the plan's own numbers are ignored.
// Errors: memory exceeded, degrees that are not allowed, stages that are no ordered partition.
absl::StatusOr<PiperPlan> EvaluatePiperPlan(const PiperProblem& problem, const PiperPlan& plan);

}  // namespace foretrace
