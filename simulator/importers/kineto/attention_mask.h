#pragma once
// Whether a call of attention is masked causally, which its shapes do not say.

#include "simulator/importers/kineto/event.h"
#include "simulator/trace/kinds.h"

namespace foretrace::kineto {

// By the argument among "Concrete Inputs" (ATen's schemas, native_functions.yaml). kUnknown for
// other operators, and where the argument is missing.
AttentionMask AttentionMaskOf(const Event& event);

}  // namespace foretrace::kineto
