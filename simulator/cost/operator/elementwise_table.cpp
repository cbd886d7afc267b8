#include "simulator/cost/operator/elementwise_table.h"

#include <algorithm>
#include <array>

namespace foretrace {
namespace {

// Sorted by name, for binary search.
constexpr auto kTable = std::to_array<ElementwiseTraits>({
    {"__and__", 2, 1},
    {"__or__", 2, 1},
    {"__xor__", 2, 1},
    {"abs", 1, 1},
    {"add", 2, 2},
    {"addcdiv", 3, 3},
    {"addcmul", 3, 3},
    {"atan", 1, 12},
    {"atan2", 2, 16},
    {"bitwise_and", 2, 1},
    {"bitwise_not", 1, 1},
    {"bitwise_or", 2, 1},
    {"bitwise_xor", 2, 1},
    {"ceil", 1, 1},
    {"clamp", 1, 2},
    {"clamp_max", 1, 1},
    {"clamp_min", 1, 1},
    {"cos", 1, 8},
    {"div", 2, 1},
    {"elu", 1, 8},
    {"elu_backward", 2, 8},
    {"eq", 2, 1},
    {"erf", 1, 12},
    {"exp", 1, 8},
    {"exp2", 1, 7},
    {"expm1", 1, 9},
    {"floor", 1, 1},
    {"floor_divide", 2, 2},
    {"fmod", 2, 2},
    {"ge", 2, 1},
    {"gelu", 1, 16},
    {"gelu_backward", 2, 24},
    {"glu", 1, 10},
    {"gt", 2, 1},
    {"hardsigmoid", 1, 3},
    {"hardsigmoid_backward", 2, 3},
    {"hardswish", 1, 5},
    {"hardswish_backward", 2, 5},
    {"hardtanh", 1, 2},
    {"hardtanh_backward", 2, 2},
    {"isfinite", 1, 1},
    {"isinf", 1, 1},
    {"isnan", 1, 1},
    {"le", 2, 1},
    {"leaky_relu", 1, 2},
    {"leaky_relu_backward", 2, 2},
    {"lerp", 2, 3},
    {"log", 1, 8},
    {"log10", 1, 9},
    {"log1p", 1, 9},
    {"log2", 1, 7},
    {"log_sigmoid", 1, 16},
    {"logical_and", 2, 1},
    {"logical_not", 1, 1},
    {"logical_or", 2, 1},
    {"logical_xor", 2, 1},
    {"lt", 2, 1},
    {"masked_fill", 2, 1},
    {"maximum", 2, 1},
    {"minimum", 2, 1},
    {"mish", 1, 24},
    {"mul", 2, 1},
    {"nan_to_num", 1, 3},
    {"ne", 2, 1},
    {"neg", 1, 1},
    {"pow", 1, 8},
    {"reciprocal", 1, 4},
    {"relu", 1, 1},
    {"remainder", 2, 2},
    {"round", 1, 1},
    {"rsqrt", 1, 4},
    {"rsub", 2, 2},
    {"sigmoid", 1, 10},
    {"sigmoid_backward", 2, 3},
    {"sign", 1, 1},
    {"silu", 1, 11},
    {"silu_backward", 2, 14},
    {"sin", 1, 8},
    {"softplus", 1, 16},
    {"sqrt", 1, 4},
    {"square", 1, 1},
    {"sub", 2, 2},
    {"tan", 1, 10},
    {"tanh", 1, 12},
    {"tanh_backward", 2, 3},
    {"threshold", 1, 1},
    {"threshold_backward", 2, 1},
    {"trunc", 1, 1},
    {"where", 3, 1},
});

}  // namespace

std::optional<ElementwiseTraits> FindElementwise(std::string_view name) {
  if (name.size() > 1 && name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  const auto it = std::lower_bound(
      kTable.begin(), kTable.end(), name,
      [](const ElementwiseTraits& traits, std::string_view key) { return traits.name < key; });
  if (it == kTable.end() || it->name != name) return std::nullopt;
  return *it;
}

}  // namespace foretrace
