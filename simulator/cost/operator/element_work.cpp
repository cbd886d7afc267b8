#include "simulator/cost/operator/element_work.h"

namespace foretrace {
namespace {

// Of an element, however it is found: its index, the test against the end, addresses of 64 bits,
// loads, a conversion to and from fp32, a store.
constexpr double kElement = 24;
// aten/src/ATen/cuda/detail/IntegerDivider.cuh: a division by a size that was prepared for it is a
// high product, a sum and a shift, the remainder a product and a difference, of which two hide
// behind fp32 work; then one multiply-add for each tensor.
constexpr double kPreparedDivision = 3;
// aten/src/ATen/native/cuda/Shape.cuh, Indexing.cu: sizes that were not prepared. The compiler's
// division of 32 bits: a reciprocal by way of fp32 and two corrections.
constexpr double kDivision = 18;
// c10/core/DynamicCast.h: a load or store that first branches over the types there are.
constexpr double kTypeSwitch = 6;
// Divisions by the sizes of two dimensions, as most concatenated tensors have left of theirs; a
// gathered row's index and its place, and the place of its elements.
constexpr double kConcatDivisions = 2, kGatherDivisions = 4;
// aten/src/ATen/native/cuda/DilatedMaxPool2d.cu, max_pool_backward_nchw: a thread's element of the
// image divides its place by the width, and both of its coordinates by the stride for the first and
// the last window that covers it, of signed numbers; each such window's 8-byte index is loaded and
// compared, its gradient added. Windows of 3 x 3 by strides of 2 are typical: 9 / 4 of them.
constexpr double kPlaceDivisions = 5, kSignedDivision = 26;
constexpr double kCoveringWindows = 9.0 / 4, kWindowInstructions = 28;

}  // namespace

double StridedInstructions(double elements, double dimensions, double tensors) {
  return elements * (kElement + dimensions * (kPreparedDivision + tensors));
}
double ConvertedInstructions(double elements, double tensors) {
  return elements * (kElement + kTypeSwitch * tensors);
}
double ConcatInstructions(double elements) {
  return elements * (kElement + kConcatDivisions * kDivision);
}
double ConvertedChunkInstructions(double elements) {
  // aten/src/ATen/native/cuda/TensorShape.cu, chunk_cat_cuda_kernel: a thread finds its tensor,
  // that's begin, its part and its size in six tables and multiplies in 64 bits, then takes four
  // elements in turn. Set with the packings of llama3-8b-l4-s8192-b1-none (H100, traces/README.md,
  // "Captured"); those of other jobs took no part.
  constexpr double kThread = 73, kElementsOfThread = 4;
  return elements * (kElement + kThread / kElementsOfThread);
}
double GatherInstructions(double elements) {
  return elements * (kElement + kGatherDivisions * kDivision);
}
double BlockCastInstructions(double elements) {
  constexpr double kInstructions = 21;
  return elements * kInstructions;
}
double MaxPoolGradientInstructions(double elements) {
  return elements *
         (kElement + kPlaceDivisions * kSignedDivision + kCoveringWindows * kWindowInstructions);
}

}  // namespace foretrace
