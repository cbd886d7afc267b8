#include "simulator/cost/embedding/index_generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr int64_t kMaxIndices = int64_t{1} << 30;

absl::Status CheckSizes(int64_t count, int64_t rows) {
  if (rows <= 0) return InvalidInput("an embedding table of {} rows has no indices", rows);
  if (count < 0 || count > kMaxIndices) {
    return InvalidInput("{} embedding indices; between 0 and {} can be generated", count,
                        kMaxIndices);
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t IndexRandom::Next() {
  const uint64_t bits = SplitMix64(state_);
  state_ += kSplitMixStep;
  return bits;
}

int64_t IndexRandom::Below(int64_t n) {
  // Multiply-shift; the bias of at most n / 2^64 does not matter here.
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(Next()) * static_cast<unsigned __int128>(n)) >> 64);
}

absl::StatusOr<std::vector<int64_t>> UniformIndices(int64_t count, int64_t rows, uint64_t seed) {
  FORETRACE_RETURN_IF_ERROR(CheckSizes(count, rows));
  IndexRandom random(seed);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t& index : indices) index = random.Below(rows);
  return indices;
}

absl::StatusOr<std::vector<int64_t>> ZipfIndices(int64_t count, int64_t rows, double exponent,
                                                 uint64_t seed) {
  FORETRACE_RETURN_IF_ERROR(CheckSizes(count, rows));
  if (!(exponent > 0 && exponent <= 10)) {
    return InvalidInput("a Zipf exponent of {} is not in (0, 10]", exponent);
  }
  // Rejection-inversion: H is the integral of the density's continuous hull.
  const auto hull = [&](double x) {
    return std::abs(exponent - 1) < 1e-9 ? std::log(x)
                                         : (std::pow(x, 1 - exponent) - 1) / (1 - exponent);
  };
  const auto inverse = [&](double y) {
    return std::abs(exponent - 1) < 1e-9
               ? std::exp(y)
               : std::pow(std::max(1 + y * (1 - exponent), 1e-300), 1 / (1 - exponent));
  };
  const double low = hull(1.5) - 1, high = hull(static_cast<double>(rows) + 0.5);
  IndexRandom random(seed);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t& index : indices) {
    for (;;) {
      const double u = low + random.Uniform() * (high - low);
      const double x = inverse(u);
      const double k = std::clamp(std::round(x), 1.0, static_cast<double>(rows));
      if (u >= hull(k + 0.5) - std::pow(k, -exponent)) {
        index = static_cast<int64_t>(k) - 1;
        break;
      }
    }
  }
  return indices;
}

absl::StatusOr<std::vector<int64_t>> LocalityIndices(int64_t count, int64_t rows,
                                                     const ReuseFactors& reuse, uint64_t seed) {
  FORETRACE_RETURN_IF_ERROR(CheckSizes(count, rows));
  double total = 0;
  for (int b = 1; b < kReuseBins; ++b) {
    const double f = reuse.fractions[static_cast<size_t>(b)];
    if (!(f >= 0)) return InvalidInput("reuse factor {} of bin {} is negative", f, b);
    total += f;
  }
  if (!(total > 0 && std::isfinite(total))) {
    return InvalidInput("reuse factors add up to {}; some row must be accessed", total);
  }
  IndexRandom random(seed);
  std::vector<int64_t> accesses_of_row;
  for (int64_t left = count; left > 0;) {
    double u = random.Uniform() * total;
    int bin = 1;
    while (bin < kReuseBins - 1 && u >= reuse.fractions[static_cast<size_t>(bin)]) {
      u -= reuse.fractions[static_cast<size_t>(bin)];
      ++bin;
    }
    const int64_t low = int64_t{1} << (bin - 1);
    const int64_t accesses = std::min(left, low + random.Below(low));
    accesses_of_row.push_back(accesses);
    left -= accesses;
  }
  const auto distinct = static_cast<int64_t>(accesses_of_row.size());
  if (distinct > rows) {
    return InvalidInput("{} lookups with these reuse factors touch {} rows, but the table has {}",
                        count, distinct, rows);
  }
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < distinct; ++i) {
    const auto row = static_cast<int64_t>(static_cast<unsigned __int128>(i) *
                                          static_cast<unsigned __int128>(rows) /
                                          static_cast<unsigned __int128>(distinct));
    indices.insert(indices.end(), static_cast<size_t>(accesses_of_row[static_cast<size_t>(i)]),
                   row);
  }
  for (size_t i = indices.size(); i > 1; --i) {
    std::swap(indices[i - 1], indices[static_cast<size_t>(random.Below(static_cast<int64_t>(i)))]);
  }
  return indices;
}

}  // namespace foretrace
