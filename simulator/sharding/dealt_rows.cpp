#include "simulator/sharding/dealt_rows.h"
#include "simulator/base/split_mix.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

// More rows of a bin than that are even over blocks within a few percent.
constexpr double kMostDealt = 1024;

}  // namespace

DealtRows::DealtRows(const TableAccess& access, int64_t rows, uint64_t table)
    : rows_(static_cast<double>(rows)) {
  std::array<double, kReuseBins> count{};
  double lookups = 0;
  for (int b = 1; b < kReuseBins; ++b) {
    const auto i = static_cast<size_t>(b);
    count[i] = access.reuse.fractions[i] * static_cast<double>(access.unique_rows);
    lookups += count[i] * ReuseBinCount(b);
  }
  uint64_t number = table << 32;
  for (int b = kReuseBins - 1; b > 0; --b) {
    const auto i = static_cast<size_t>(b);
    // Counts are products of fractions: a row is not lost to their last bit.
    const double whole = count[i] <= kMostDealt ? std::floor(count[i] + 1e-6) : 0;
    for (double k = 0; k < whole; ++k) hot_.push_back({UnitInterval(SplitMix64(number++)), b});
    spread_[i] = std::max(count[i] - whole, 0.0);
    share_of_row_[i] = lookups > 0 ? ReuseBinCount(b) / lookups : 0;
  }
  std::sort(hot_.begin(), hot_.end(), [](const Hot& a, const Hot& b) {
    return a.position != b.position ? a.position < b.position : a.bin > b.bin;
  });
}

DealtRows::Part DealtRows::Of(int64_t first, int64_t count) const {
  const double from = static_cast<double>(first) / rows_;
  const double to = static_cast<double>(first + count) / rows_;
  std::array<double, kReuseBins> held{};
  for (size_t b = 0; b < held.size(); ++b) held[b] = spread_[b] * (to - from);
  const auto before = [](const Hot& hot, double position) { return hot.position < position; };
  auto at = std::lower_bound(hot_.begin(), hot_.end(), from, before);
  for (; at != hot_.end() && at->position < to; ++at) ++held[static_cast<size_t>(at->bin)];
  Part part;
  for (size_t b = 0; b < held.size(); ++b) {
    part.unique_rows += held[b];
    part.lookups += held[b] * share_of_row_[b];
  }
  // Without reuse factors every lookup is of its own row.
  if (part.unique_rows <= 0) part.lookups = to - from;
  for (size_t b = 0; b < held.size() && part.unique_rows > 0; ++b) {
    part.reuse.fractions[b] = held[b] / part.unique_rows;
  }
  part.unique_rows = std::min(part.unique_rows, static_cast<double>(count));
  return part;
}

}  // namespace foretrace
