#pragma once
// Compressed files, told by how they begin.

#include <string_view>

namespace foretrace {

// The program that unpacks a file that begins so ("gzip -d"); empty: it is not compressed.
std::string_view UnpackerOf(std::string_view beginning);

}  // namespace foretrace
