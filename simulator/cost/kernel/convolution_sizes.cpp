#include "simulator/cost/kernel/convolution_sizes.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/sizes.h"

namespace foretrace {

ConvolutionSizes ConvolutionSizesOf(const KernelWork& work) {
  ConvolutionSizes s;
  s.images = Positive(work.images);
  s.groups = Positive(work.batch);
  s.positions = Positive(work.filter_h) * Positive(work.filter_w);
  s.element_bytes = Positive(ElementSize(work.dtype));
  s.channels = std::max(Positive(work.channels) / s.groups, 1.0);
  const double read = static_cast<double>(work.read.count()) / s.element_bytes;
  const auto pixels_of = [&s](double elements) {
    return std::max(std::round(elements / (s.images * s.groups * s.channels)), 1.0);
  };
  if (work.weight_gradient) {
    s.filters = Positive(work.m);
    s.out_pixels = std::max(Positive(work.k) / s.images, 1.0);
    s.in_pixels = pixels_of(read - s.out());
  } else if (work.pass == Direction::kForward) {
    s.filters = Positive(work.n);
    s.out_pixels = std::max(Positive(work.m) / s.images, 1.0);
    s.in_pixels = pixels_of(read - s.groups * s.filters * Positive(work.k));
  } else {
    s.in_pixels = std::max(Positive(work.m) / s.images, 1.0);
    const double stride = Positive(work.stride);
    s.out_pixels = std::max(s.in_pixels / stride / stride, 1.0);
    const double of_filter = s.images * s.out_pixels + s.channels * s.positions;
    s.filters = std::max(std::round(read / s.groups / of_filter), 1.0);
  }
  return s;
}

}  // namespace foretrace
