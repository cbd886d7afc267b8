#pragma once
// What shapes do not say of a call, and a profile's other lists do.

#include "simulator/importers/kineto/event.h"
#include "simulator/trace/kinds.h"

namespace foretrace::kineto {

// How attention is masked, by the argument among "Concrete Inputs" (ATen's schemas,
// native_functions.yaml); else how many tensors are scattered, by "Input Strides". kUnknown where
// the list is missing.
CallDetail CallDetailOf(const Event& event);

}  // namespace foretrace::kineto
