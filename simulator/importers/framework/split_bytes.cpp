#include "simulator/importers/framework/split_bytes.h"

namespace foretrace {

std::vector<int64_t> SplitBytes(std::span<const int64_t> rows, int64_t total) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t sum = 0;
  for (const int64_t r : rows) {
    if (r < 0 || r > kMost || sum > kMost) return {};
    sum += r;
  }
  if (rows.size() > UINT16_MAX || sum <= 0 || total % sum != 0) return {};
  std::vector<int64_t> bytes;
  for (const int64_t r : rows) bytes.push_back(r * (total / sum));
  return bytes;
}

}  // namespace foretrace
