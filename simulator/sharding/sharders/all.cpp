#include <algorithm>

#include "simulator/sharding/sharder.h"

namespace foretrace {

std::vector<std::unique_ptr<Sharder>> AllSharders() {
  static constexpr MakeSharder kMakers[] = {
      MakeNaiveSharder,
      MakeRandomSharder,
      MakeSizeGreedySharder,
      MakeLookupGreedySharder,
      MakeNormLookupGreedySharder,
      MakeSizeLookupGreedySharder,
      MakeLptSharder,
      MakeIlpSharder,
      MakeSearchSharder,
  };
  std::vector<std::unique_ptr<Sharder>> sharders;
  for (const MakeSharder make : kMakers) sharders.push_back(make());
  return sharders;
}

int64_t DefaultBudget(const ShardingTask& task) {
  // A simulated plan costs time in proportion to ranks, and to tables; the bounds keep small tasks
  // thorough and large ones within seconds.
  const auto size = static_cast<double>(task.tables.size()) * task.gpus;
  return static_cast<int64_t>(std::clamp(1.5e7 / size, 1000.0, 4000.0));
}

}  // namespace foretrace
