#pragma once
// Sizes of a product of matrices.

#include <cstdint>

namespace foretrace {

// y[m, n] = x[m, k] w[k, n].
struct MatrixSizes {
  int64_t m = 0, n = 0, k = 0;
  bool known() const { return m > 0 && n > 0 && k > 0; }
};

}  // namespace foretrace
