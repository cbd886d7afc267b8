#include "simulator/importers/kineto/attention_mask.h"

#include <algorithm>
#include <string_view>

namespace foretrace::kineto {
namespace {

// Where `is_causal` stands, or `custom_mask_type`, a number of which 0 is none. Another kind of
// value stands there in older releases' lists of arguments.
struct Masked {
  std::string_view name;
  size_t argument;
  bool number = false;
};
constexpr Masked kMasked[] = {{"aten::scaled_dot_product_attention", 5},
                              {"aten::_scaled_dot_product_flash_attention", 4},
                              {"aten::_scaled_dot_product_flash_attention_backward", 11},
                              {"aten::_scaled_dot_product_efficient_attention", 6},
                              {"aten::_scaled_dot_product_efficient_attention_backward", 11},
                              {"aten::_scaled_dot_product_cudnn_attention", 6},
                              {"aten::_scaled_dot_product_cudnn_attention_backward", 14},
                              {"aten::_flash_attention_forward", 8},
                              {"aten::_flash_attention_backward", 11},
                              {"aten::_efficient_attention_forward", 9, true},
                              {"aten::_efficient_attention_backward", 14, true}};

}  // namespace

AttentionMask AttentionMaskOf(const Event& event) {
  if (event.concrete.empty()) return AttentionMask::kUnknown;
  const auto* masked = std::ranges::find(kMasked, event.Text(Field::kName), &Masked::name);
  if (masked == std::end(kMasked) || masked->argument >= event.concrete.size()) {
    return AttentionMask::kUnknown;
  }
  const std::string_view value = event.concrete[masked->argument];
  if (value == (masked->number ? "0" : "False")) return AttentionMask::kNone;
  const bool causal = masked->number ? value == "1" || value == "2" : value == "True";
  return causal ? AttentionMask::kCausal : AttentionMask::kUnknown;
}

}  // namespace foretrace::kineto
