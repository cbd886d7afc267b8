#pragma once
// Kernels by their launch: a name and how many waves of blocks it filled the device with.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct Launch {
  std::string_view name;
  uint32_t waves_milli = 0;  // RankTrace::waves_milli
};

// A product of known sizes, by the blocks of the kernel that ran it: replaces `estimate` where that
// rests on no measurement of such products. A kernel that was chosen for another chip than the
// models' says nothing of theirs. False: left as it was. `recorded_on`: the device's name; empty:
// theirs.
bool ByLaunchedProduct(const KernelModels& models, std::string_view recorded_on,
                       const Launch& launch, const KernelWork& work, Precision precision,
                       Estimate& estimate);

// Elements that PyTorch's element-wise kernels, gathers and optimizers name by their threads; what
// they read and write. nullopt: another kernel, or its grid is not known.
std::optional<KernelWork> WorkOfLaunch(const Launch& launch, const GpuPeaks& device);

// How many elements the element-wise kernels beside a kernel in its stream work on: what it is
// given, or gives on.
class MovedElements {
 public:
  MovedElements(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device);
  int64_t Near(NodeIndex kernel) const;  // 0: no such kernel is near

 private:
  std::vector<int64_t> elements_;   // by stream, then by start
  std::vector<uint32_t> lane_;      // of the same
  std::vector<uint32_t> position_;  // by node
};

struct LaunchEstimate {
  SimTime time;
  KernelKind kind = KernelKind::kOther;
};
// A kernel of which no shapes are known. Products are taken to have a typical reduction; kernels
// whose threads do not say what they move, to move what the element-wise kernels beside them do
// (`near_elements`), or four elements a thread. nullopt: the launch's size is not known.
std::optional<LaunchEstimate> EstimateLaunch(const KernelModels& models, const Launch& launch,
                                             int64_t near_elements);

}  // namespace foretrace
