#pragma once
// Results that a profile does not list but that an operator's arguments imply.

#include <cstdint>
#include <vector>

#include "simulator/importers/kineto/event.h"

namespace foretrace::kineto {

struct ImpliedOutput {
  size_t like = 0;  // index into Event::dims: the tensor whose type it has
  std::vector<int64_t> dims;
};

// By the arguments among "Concrete Inputs" (ATen's schemas, native_functions.yaml), of
// - convolutions over one to three dimensions, by padding, stride and dilation; of their backward
//   passes the gradients that the output mask asks for;
// - pools, by their windows; resizing, by the size asked for;
// - reductions of floating-point tensors over named dimensions, of which results have the type;
// - rows that one index selects.
// Empty for other operators, transposed convolutions, and where an argument is missing or does not
// fit.
std::vector<ImpliedOutput> ImpliedOutputs(const Event& event);

}  // namespace foretrace::kineto
