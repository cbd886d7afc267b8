#pragma once
// Unequal shares of an all-to-all, as PyTorch's recordings give them.

#include <cstdint>
#include <span>
#include <vector>

namespace foretrace {

// Splits count rows of the first dimension; in bytes they share out `total`. Empty where they do
// not, or are more than a node can have.
std::vector<int64_t> SplitBytes(std::span<const int64_t> rows, int64_t total);

}  // namespace foretrace
