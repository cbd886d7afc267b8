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

// Of convolutions (ATen's schemas, native_functions.yaml): the result, by padding, stride and
// dilation among "Concrete Inputs"; of their backward passes the gradients that the output mask
// asks for. Empty for other operators, transposed convolutions, and where an argument is missing or
// does not fit.
std::vector<ImpliedOutput> ImpliedOutputs(const Event& event);

}  // namespace foretrace::kineto
