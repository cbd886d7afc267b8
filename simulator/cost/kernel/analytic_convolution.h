#pragma once
// Convolutions of a device whose file alone is known, as PyTorch and cuDNN run them on images whose
// columns lie innermost (NCHW, PyTorch's default).

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Time in microseconds of all kernels of one pass.
//
// On tensor cores: implicit GEMM over images and filters with their channels innermost (NHWC), and
// the transforms of operands and results to and from that layout. Filters of one position at a
// stride of 1 are products of the images as they lie, where an image's pixels fill whole loads of
// 16 bytes.
// On multiprocessors: the best of cuDNN's algorithms up to Ada, where releases to 8.9 were looked
// at; since Hopper the kernels that cuDNN 9 chose there.
// With a filter of its own for each channel: depthwise_convolution.h.
double AnalyticConvolutionUs(const GpuPeaks& device, Precision precision, const KernelWork& work);

}  // namespace foretrace
