#include "simulator/sharding/task.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(PlacementKind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "table_wise", "column_wise", "row_wise", "table_row_wise", "data_parallel"};
  return EnumName(kNames, kind);
}

TableAccess ThinAccess(const TableAccess& access, double fraction) {
  if (fraction >= 1 || access.unique_rows == 0) return access;
  // A row accessed c times is accessed c x fraction times on average, and not at all with
  // probability (1 - fraction)^c.
  TableAccess thin;
  const auto unique = static_cast<double>(access.unique_rows);
  double kept_rows = 0;
  for (int b = 1; b < kReuseBins; ++b) {
    const double share = access.reuse.fractions[static_cast<size_t>(b)];
    if (share <= 0) continue;
    const double count = ReuseBinCount(b);
    const double seen = share * unique * -std::expm1(count * std::log1p(-fraction));
    const double left = std::max(1.0, share * unique * count * fraction / std::max(seen, 1e-12));
    thin.reuse.fractions[static_cast<size_t>(ReuseBin(std::llround(left)))] += seen;
    kept_rows += seen;
  }
  for (double& f : thin.reuse.fractions) f = kept_rows > 0 ? f / kept_rows : 0;
  thin.lookups = std::llround(static_cast<double>(access.lookups) * fraction);
  thin.unique_rows = std::clamp<int64_t>(std::llround(kept_rows),
                                         std::min<int64_t>(1, thin.lookups), thin.lookups);
  return thin;
}

}  // namespace foretrace
