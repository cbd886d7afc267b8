#pragma once
// Integer instructions, of all threads, of PyTorch's kernels that find each element by dividing its
// index by the sizes of the tensor (aten/src/ATen/native/cuda); they move no vectors.

#include <cstdint>

namespace foretrace {

// Sizes whose divisions were prepared: strided copies, scattering and gathering of elements.
double StridedInstructions(double elements, double dimensions, double tensors);
double ConvertedInstructions(double elements, double tensors);
// Of a kernel that divides so many times for an element; `strided`: for its place in its own
// tensor, too.
double ConcatInstructions(double elements, int64_t divisions, bool strided);
// Of tensors of one size that lie in one piece each; 0: all begin at 16 bytes, so that vectors
// move.
double ContiguousConcatInstructions(int64_t elements, int64_t parts, int64_t element_bytes);
// FSDP2's gradients of bfloat16, packed in chunks to be reduced in float.
double ConvertedChunkInstructions(double elements);
// Of rows: index_select, index_add.
double GatherInstructions(double elements);
// Of elements by indexing (index_elementwise_kernel).
double IndexedInstructions(double elements);
// Random numbers; 0: what vectors of four move hides them.
double DropoutInstructions(int64_t elements);
// Casts to 8 bits with a scale for every 128: their largest by shuffles, then each by itself. What
// TensorRT-LLM's take on an H100 beside their bytes (aiconfigurator fp8_block, matrices of 128
// columns, whose GEMMs take a fifth of the time).
double BlockCastInstructions(double elements);
// The gradient of maximum pooling, of elements of the image.
double MaxPoolGradientInstructions(double elements);

}  // namespace foretrace
