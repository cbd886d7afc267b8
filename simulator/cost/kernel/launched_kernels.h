#pragma once
// Kernels by their launch: a name and how many waves of blocks it filled the device with.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct Launch {
  std::string_view name;
  uint32_t waves_milli = 0;     // RankTrace::waves_milli
  bool after_clearing = false;  // the call cleared memory first, and adds no parts up afterwards
  const LaunchAttr* attr = nullptr;  // null: the grid is not known, but its waves
  // That a thread of a contiguous element-wise kernel takes (ElementsOfThread).
  int64_t thread_elements = kElementsOfThread;

  static constexpr int64_t kElementsOfThread = 4;
};

// Of a kernel as recorded.
Launch LaunchOf(const TraceStore& store, const RankTrace& rank, NodeIndex kernel);

// Whether the kernels of a recording were chosen for the chip of `device`: those of another one say
// nothing of it. `recorded_on`: the recorded device's name; empty: that one. Reads files: ask once
// a recording.
bool ChosenForChip(const GpuPeaks& device, std::string_view recorded_on);

// Whether a kernel is a GEMM's, a convolution's or, whole, attention's; whether it is the latter,
// and whether a pass over what attention's gradients begin or end with.
bool IsMatrixKernel(std::string_view name);
bool IsAttentionKernel(std::string_view name);
bool IsAroundAttention(std::string_view name);

// What a kernel does as far as its name says; kOther: it does not.
KernelKind KindOfKernel(std::string_view name);

// Whether the blocks of a matrix kernel for Hopper and later, at most as many as the device has
// multiprocessors, go through all tiles, so that the grid says nothing of the results.
bool GoesThroughTiles(const GpuPeaks& device, const Launch& launch);

// Tensors that an element-wise kernel names pointers to: "Array<char*, 3>" or "array<char*, 3ul>";
// 0: it does not.
int64_t TensorsNamed(std::string_view name);

// Of what type the elements are that PyTorch's kernels name; 32 bits where they name none.
DType ElementNamed(std::string_view name);

// Of the DRAM's peak that element-wise kernels attain.
double StreamEfficiency(const KernelModels& models);

// A GEMM of known sizes, by the blocks of the kernel that ran it, which was chosen for the
// models' chip: replaces `estimate` where that rests on no measurement of such GEMMs. False:
// left as it was.
bool ByLaunchedGemm(const KernelModels& models, const Launch& launch, const KernelWork& work,
                    Precision precision, Estimate& estimate);

// Elements that PyTorch's element-wise kernels, gathers and optimizers name by their threads; what
// they read and write. nullopt: another kernel, or its grid is not known.
std::optional<KernelWork> WorkOfLaunch(const Launch& launch, const GpuPeaks& device);

// A list of indices has no dimensions in a profile, so that all of its source would count as
// gathered: work that rests on that is cut down to what the launch has threads for.
void BoundByLaunch(const Launch& launch, const GpuPeaks& device, KernelWork& work);

// How many results the blocks of a matrix kernel have, and the time of one that sums `depth`
// products for each.
double ResultsOfGemm(const GpuPeaks& device, const Launch& launch);
SimTime EstimateGemm(const KernelModels& models, const Launch& launch, double depth);

struct LaunchEstimate {
  SimTime time;
  KernelKind kind = KernelKind::kOther;
};
// How many results the GEMMs among these launches have, the geometric mean; 0: there is none.
double MeanResults(const GpuPeaks& device, std::span<const Launch> launches);

// A kernel of which no shapes are known. GEMMs are taken to have a typical reduction, of training
// the longer the fewer results they have against `typical_results` (0: no training); kernels
// whose threads do not say what they move, to move what the element-wise kernels beside them do
// (`near_elements`), or four elements a thread. nullopt: the launch's size is not known.
std::optional<LaunchEstimate> EstimateLaunch(const KernelModels& models, const Launch& launch,
                                             int64_t near_elements, double typical_results);

}  // namespace foretrace
