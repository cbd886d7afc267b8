#pragma once
// Images, channels and filters of a convolution's pass.

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

struct ConvolutionSizes {
  double images = 1, groups = 1;
  double positions = 1;  // of a filter
  double element_bytes = 4;
  double channels = 1, filters = 1;      // of a group
  double in_pixels = 1, out_pixels = 1;  // of an image
  double in() const { return images * groups * channels * in_pixels; }
  double out() const { return images * groups * filters * out_pixels; }
};

// `work` is a convolution. Gradients of inputs at a stride do not state their results' pixels,
// which are taken to be as many times fewer as the stride says.
ConvolutionSizes ConvolutionSizesOf(const KernelWork& work);

}  // namespace foretrace
