#pragma once
// Kernels that PyTorch's compiler generates: what their names and launches say of the tensors that
// they pass over.

#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

// "triton_poi_fused_" and the operators in it, each once, in alphabetical order, then a number:
// "poi" is point-wise, "red" and "per" are reductions, of which the latter hold all that a result
// needs at once.
struct GeneratedKernel {
  enum class Kind : uint8_t { kPointwise, kRowReduction, kReduction };
  Kind kind = Kind::kPointwise;
  // Of what a point-wise one writes, rounded up to whole blocks; 0: a reduction's.
  int64_t elements = 0;
  int64_t rows = 0;  // of one of whole rows, where each has a block; 0: not known
  // Tensors as large as that, or as the rows are, in elements of the type that the job computes in.
  // Of a norm's gradient without what is added up to what it is given.
  double read = 1, written = 1;
  bool softmax = false;   // of all classes of a loss
  bool gradient = false;  // of an operator's input
  bool of_norm = false;
  bool quantises = false;    // operands of products of 8 bits
  bool turned_over = false;  // a tensor is written with its dimensions changed, too
};

// nullopt: another kernel.
std::optional<GeneratedKernel> GeneratedKernelOf(std::string_view name, const LaunchAttr& launch);

}  // namespace foretrace
