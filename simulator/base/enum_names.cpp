#include "simulator/base/enum_names.h"

#include <algorithm>
#include <cctype>

namespace foretrace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace foretrace
