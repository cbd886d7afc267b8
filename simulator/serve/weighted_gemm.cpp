#include "simulator/serve/weighted_gemm.h"

#include <algorithm>
#include <cmath>

namespace foretrace::serve {
namespace {

// Rows with which GEMMs of any width are bound by arithmetic on any device of the catalogue.
constexpr int64_t kManyRows = 4096;

KernelWork Sized(KernelWork work, int64_t m, int64_t k) {
  const int64_t batch = std::max<int64_t>(work.batch, 1);
  const KernelWork sized = Kernels({BatchedMatmulOp{batch, m, work.n, k}, work.dtype}).front();
  work.m = m;
  work.k = k;
  work.flop = sized.flop;
  work.read = sized.read;
  work.written = sized.written;
  return work;
}

// The longer of reading the weights in `bits` and of the arithmetic in the work's precision, but no
// longer than with weights of that precision.
Estimate Narrow(const DeviceCosts& costs, const KernelWork& work, double bits) {
  const double share = bits / (8.0 * static_cast<double>(ElementSize(work.dtype)));
  const auto depth =
      std::max<int64_t>(1, std::llround(static_cast<double>(work.k) * std::min(share, 1.0)));
  const Estimate reading = costs.Kernel(Sized(work, work.m, depth));
  const int64_t rows = std::max(work.m, kManyRows);
  Estimate computing = costs.Kernel(Sized(work, rows, work.k));
  computing.time = computing.time.ScaledBy(static_cast<double>(work.m) / static_cast<double>(rows));
  const Estimate& longer = reading.time > computing.time ? reading : computing;
  const Estimate whole = costs.Kernel(Sized(work, work.m, work.k));
  return longer.time < whole.time ? longer : whole;
}

}  // namespace

double WeightedJoules(const DeviceCosts& costs, const KernelWork& work, WeightFormat format,
                      SimTime time) {
  const bool gemm = work.kind == KernelKind::kGemm || work.kind == KernelKind::kBatchedGemm;
  if (format == WeightFormat::kModel || !gemm) {
    return costs.JoulesAboveIdle(work.dtype, work.flop, Bytes(work.total_bytes()), time);
  }
  const int64_t weights = std::max<int64_t>(work.batch, 1) * work.n * work.k;
  const double stored = static_cast<double>(weights) * BitsOf(format) / 8;
  const int64_t others = work.total_bytes() - weights * ElementSize(work.dtype);
  return costs.JoulesAboveIdle(costs.Multiplies(format) ? DType::kFloat8 : work.dtype, work.flop,
                               Bytes(others + std::llround(stored)), time);
}

Estimate WeightedGemm(const DeviceCosts& costs, const KernelWork& work, WeightFormat format) {
  const bool gemm_of_weights =
      work.kind == KernelKind::kGemm || work.kind == KernelKind::kBatchedGemm;
  if (format == WeightFormat::kModel || !gemm_of_weights) return costs.Kernel(work);
  if (const auto measured = costs.Gemm(work, format)) return *measured;
  if (!costs.Multiplies(format)) return Narrow(costs, work, BitsOf(format));
  KernelWork gemm = work;
  gemm.dtype = DType::kFloat8;
  gemm.block_scaled = format == WeightFormat::kFp8Block;
  const int64_t elements = std::max<int64_t>(work.batch, 1) * work.m * work.k;
  const Estimate bits = costs.Kernel(CastToFloat8(elements, work.dtype, gemm.block_scaled));
  Estimate all = BitsOf(format) < 8 ? Narrow(costs, gemm, BitsOf(format))
                                    : costs.Kernel(Sized(gemm, work.m, work.k));
  all.time += bits.time;
  all.extrapolated = all.extrapolated || bits.extrapolated;
  return all;
}

}  // namespace foretrace::serve
