#pragma once
// What a mistyped name was meant to be.

#include <span>
#include <string>
#include <string_view>

namespace foretrace {

// Least number of characters to insert, delete or replace, or of neighbours to swap, that makes one
// text of the other (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b);

// The name nearest to `typed`, of equals the first; empty when over a third of the longer of both
// would have to be typed anew.
std::string NearestName(std::string_view typed, std::span<const std::string> names);

}  // namespace foretrace
