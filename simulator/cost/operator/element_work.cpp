#include "simulator/cost/operator/element_work.h"

#include <algorithm>

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
// A gathered row's index and its place, and the place of its elements.
constexpr double kGatherDivisions = 4;
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
double ConcatInstructions(double elements, int64_t divisions, bool strided) {
  // aten/src/ATen/native/cuda/Shape.cu, CatArrIndexToOffset: the sizes are the same in each turn of
  // a thread's loop, before which their reciprocals are taken. Of a tensor that does not lie in one
  // piece they are looked up by the block's number. Concatenations of `control` (A100, one or two
  // divisions) and Qwen1.5 (H100, six).
  constexpr double kOfDivision = 4, kStrided = 18;
  return elements *
         (kElement + kOfDivision * static_cast<double>(divisions) + (strided ? kStrided : 0));
}
double ContiguousConcatInstructions(int64_t elements, int64_t parts, int64_t element_bytes) {
  // aten/src/ATen/native/cuda/Shape.cu: CatArrayBatchedCopy_vectorized moves 16 bytes at a time
  // where all tensors begin there, CatArrayBatchedCopy_contig an element. What that takes beside
  // its bytes: even rows of calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz.
  constexpr int64_t kVector = 16;
  constexpr double kBeside = 14;
  const int64_t tensors = std::max<int64_t>(parts, 1);
  const int64_t begins = elements / tensors * element_bytes;
  if (elements % tensors == 0 && begins % kVector == 0) return 0;
  return static_cast<double>(elements) * kBeside;
}
double IndexedInstructions(double elements) {
  // The offsets of three tensors, of which one goes through the index. Even rows of
  // calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz.
  constexpr double kOffsets = 48;
  return elements * (kElement + kOffsets);
}
double DropoutInstructions(int64_t elements) {
  // aten/src/ATen/native/cuda/Dropout.cu: numbers of a Philox generator (ten rounds) for vectors of
  // four elements or of two, else for four single ones of a stride. What they take beside their
  // bytes: even rows of calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz. Of vectors of
  // four it would be 17.5 there; whole jobs on A100 (Megatron-LM's table 5) do not show it.
  constexpr double kOfTwo = 47, kSingle = 33;
  if (elements % 4 == 0) return 0;
  return static_cast<double>(elements) * (elements % 2 == 0 ? kOfTwo : kSingle);
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
