#pragma once
// A convolution whose kernels a recording shows: their names say which algorithm ran, so that each
// kernel is estimated by itself.

#include <optional>
#include <span>
#include <string_view>

#include "simulator/base/time.h"
#include "simulator/cost/kernel/convolution_names.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Of a kernel that works out a few values for the one that follows.
double WorkspaceUs(const GpuPeaks& device);

class RecordedConvolution {
 public:
  // `works`: Kernels(op). `bandwidth_efficiency`: of the DRAM's peak. `names`: of all kernels of
  // the call. `device`, `op` and `works` are kept by reference.
  RecordedConvolution(const GpuPeaks& device, double bandwidth_efficiency, const Conv2dOp& op,
                      const KernelList& works, std::span<const std::string_view> names);

  // What the next kernel takes, in order of issue; nullopt: its name does not say what it is.
  std::optional<SimTime> Next(const Launch& launch);

 private:
  const KernelWork* WorkOf(const ConvolutionKernel& kernel);
  double MainUs(const ConvolutionKernel& kernel, const KernelWork& work) const;
  double EngineUs(const ConvolutionKernel& kernel, const KernelWork& work) const;
  double BlocksUs(const ConvolutionKernel& kernel, const KernelWork& work) const;
  double PaddedChannels(double element_bytes) const;
  double TileUs(const ConvolutionKernel& kernel, const KernelWork& work) const;
  double AroundUs(const ConvolutionKernel& kernel, const Launch& launch) const;
  double TransformedElements(const ConvolutionKernel& kernel) const;
  double MemoryUs(double bytes) const;

  const GpuPeaks& device_;
  double bytes_per_us_;
  const Conv2dOp& op_;
  const KernelList& works_;
  double groups_, images_, channels_, filters_;  // the last two of a group
  double positions_, pixels_;                    // of a filter, of a result
  double image_elements_, result_elements_;
  bool sums_images_ = false;       // gradients of filters are added up over images
  int into_layout_ = 0;            // kernels that bring operands into another layout
  bool input_gradient_ = false;    // has been begun
  bool winograd_ = false;          // a transform of tiles came before
  bool padded_ = false;            // images were, to whole loads of channels
  bool filters_gradient_ = false;  // ... for the gradient of the filters
};

}  // namespace foretrace
