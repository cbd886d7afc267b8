#pragma once
// From a framework call of a trace (name, tensor shapes and types) to an operator.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "simulator/base/dtype.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// Shape and type of one tensor argument or result. Scalars and absent arguments have no dimensions.
struct TensorShape {
  std::span<const int64_t> dims;
  DType dtype = DType::kUnknown;
};

struct TracedOperator {
  OperatorCall op;
  // The call does not say everything (a convolution without its output's size): usual values were
  // assumed, and estimates built on this count as extrapolated.
  bool assumed = false;
};

// The operator behind one innermost framework call such as "aten::addmm". `inputs` holds every
// argument in order, those without dimensions included or not; `outputs` may be empty, as in Kineto
// traces. nullopt: not a call that does device work, unknown, or without the shapes it takes.
std::optional<TracedOperator> OperatorFromTrace(std::string_view name,
                                                std::span<const TensorShape> inputs,
                                                std::span<const TensorShape> outputs);

}  // namespace foretrace
