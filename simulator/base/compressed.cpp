#include "simulator/base/compressed.h"

#include <utility>

namespace foretrace {

std::string_view UnpackerOf(std::string_view beginning) {
  using namespace std::literals;
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"\x1f\x8b"sv, "gzip -d"},
      {"\xfd"
       "7zXZ\0"sv,
       "xz -d"},
      {"\x28\xb5\x2f\xfd"sv, "zstd -d"},
      {"BZh"sv, "bzip2 -d"}};
  for (const auto& [magic, program] : kKinds) {
    if (beginning.starts_with(magic)) return program;
  }
  return {};
}

}  // namespace foretrace
