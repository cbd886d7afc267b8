#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace foretrace {

// {1, 64, 56, 56} -> "1x64x56x56", as tables of measured operators write shapes.
inline std::string JoinSizes(std::span<const int32_t> sizes) {
  std::string text;
  for (const int32_t size : sizes) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

}  // namespace foretrace
