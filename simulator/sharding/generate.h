#pragma once
// Random sharding tasks by the rules of the multi-GPU paper (section V-B1), with tables drawn from
// the published statistics of Meta's dlrm_datasets.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/split_mix.h"
#include "simulator/cost/embedding/reuse_factors.h"
#include "simulator/sharding/task.h"

namespace foretrace {

// One part (year) of the dataset. The statistics give the number of lookups and distinct rows over
// all tables, and how often rows are accessed; how lookups spread over tables is the paper's
// figure 3.
struct TableStatistics {
  std::string label;                    // "2021"
  double lookups = 0, unique_rows = 0;  // of all tables together
  ReuseFactors reuse;
  int64_t tables = 0;      // in the dataset
  int64_t batch = 0;       // samples behind them
  double heavy_share = 0;  // of tables with 20 lookups a sample or more
};

inline constexpr double kHeavyPooling = 20;

struct GeneratedTasks {
  std::string platform;
  std::string calibration;
  int32_t gpus = 4;
  Bytes memory;  // of one GPU
  int64_t batch = 4096;
  int32_t per_part = 10;  // the first half of them heavy: all tables are
  uint64_t seed = 1;
};

// For each part of the dataset `per_part` tasks of (0.7 to 1.3) x GPUs x 13 tables that fit in 80 %
// of the memory when size_lookup_greedy places them. A draw that does not fit is drawn anew; the
// more GPUs, the rarer that all of them fit at once, so that after some hundred draws the tables of
// the fullest GPU alone are. Infeasible where that does not lead there either.
absl::StatusOr<std::vector<ShardingTask>> GenerateTasks(const std::vector<TableStatistics>& parts,
                                                        const GeneratedTasks& options);

// Mean overheads of the public 8-rank DLRM trace.
CpuOverheads DlrmOverheads();

// A random table as the tasks have them.
EmbeddingTable DrawTable(const TableStatistics& part, bool heavy, int64_t dim, int64_t batch,
                         SplitMixSequence& random);

}  // namespace foretrace
