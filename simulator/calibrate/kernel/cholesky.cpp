#include "simulator/calibrate/kernel/cholesky.h"

#include <cmath>
#include <cstddef>

namespace foretrace {

bool FactorCholesky(LowerTriangle& a) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t l = 0; l < j; ++l) sum -= a[i][l] * a[j][l];
      if (i == j && !(sum > 0)) return false;
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  return true;
}

void SolveCholesky(const LowerTriangle& factor, std::vector<double>& b) {
  for (size_t i = 0; i < b.size(); ++i) {
    for (size_t l = 0; l < i; ++l) b[i] -= factor[i][l] * b[l];
    b[i] /= factor[i][i];
  }
  for (size_t i = b.size(); i-- > 0;) {
    b[i] /= factor[i][i];
    for (size_t l = 0; l < i; ++l) b[l] -= factor[i][l] * b[i];
  }
}

}  // namespace foretrace
