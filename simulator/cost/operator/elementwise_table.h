#pragma once
// Point-wise framework calls: how many tensors each reads and how much arithmetic it does.

#include <optional>
#include <string_view>

namespace foretrace {

struct ElementwiseTraits {
  std::string_view name;  // without namespace and trailing underscore
  int operands = 1;       // leading tensor arguments; a further one is an out= argument
  double flop = 1;        // an element; transcendental functions count as a handful
  int outputs = 1;
};

// `name` without "aten::"; an in-place call's trailing underscore is ignored.
std::optional<ElementwiseTraits> FindElementwise(std::string_view name);

}  // namespace foretrace
