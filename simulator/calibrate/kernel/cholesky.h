#pragma once
// Systems of equations of symmetric positive definite matrices, as covariances are.

#include <vector>

namespace foretrace {

using LowerTriangle = std::vector<std::vector<double>>;  // by row, the diagonal last

// The lower factor by Cholesky, in place; false: the matrix is not positive definite.
bool FactorCholesky(LowerTriangle& a);

// Solves L L^T x = b in place.
void SolveCholesky(const LowerTriangle& factor, std::vector<double>& b);

}  // namespace foretrace
