#pragma once
// Predictions of a network tier against measured collectives, and the fit of latencies,
// efficiencies and the rates of channels. Tables are (operation, ranks, nodes); every other table,
// or every other size of each, is for fitting, the rest are held out.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/base/statistics.h"
#include "simulator/base/units.h"
#include "simulator/network/collective_table.h"
#include "simulator/network/measured_table.h"

namespace foretrace {

struct StudyTable {
  CollectiveOp op = CollectiveOp::kUnknown;
  int32_t ranks = 0;
  int32_t nodes = 1;
  bool held_out = false;
  std::vector<MeasuredCollective> rows;
  std::vector<RealUs> predicted;
  ErrorSummary errors;
};

// What is held out: every second table (judges other operations and counts of ranks), or every
// second size of each table (judges one cluster's links between the sizes that were measured).
enum class HoldOut : uint8_t { kTables, kSizes };

// Groups rows of `min_bytes` and more into tables, ordered by operation, nodes, ranks, the first
// for fitting, the second held out, and so on; by sizes, each is two: of the smallest size, the
// third and so on for fitting, then of the others.
std::vector<StudyTable> MakeTables(const std::vector<MeasuredCollective>& rows, Bytes min_bytes,
                                   HoldOut hold_out = HoldOut::kTables);

// Told how many rows, or step sizes of a fit, are done; false: end with Cancelled.
using StudyProgress = std::function<bool(std::string_view what, int64_t done, int64_t total)>;

// Fills predictions and errors. Ranks are placed in order on the first `nodes` nodes.
absl::Status PredictTables(const PlatformSpec& platform, NetworkTier tier,
                           const NetworkOptions& options, std::vector<StudyTable>& tables,
                           const StudyProgress& progress = {});

// `links`: latency and efficiency of the link types of class nvlink and network; where the platform
// states what the library's channels copy, that and the efficiency of exchanges instead of the
// NVLinks' efficiency, and for tables of send_recv alone only what channels copy and send, and,
// where the platform does not say what they send to other nodes, the links of class network.
// `launch`: the library's start-up cost, for tables whose harness adds one of its own (timing
// through a framework).
struct FitWhat {
  bool links = false;
  bool launch = false;
};
// Adjusts these to the tables that are not held out, by coordinate search on the mean squared log
// error of the closed forms.
absl::StatusOr<PlatformSpec> FitLinks(PlatformSpec platform, const NetworkOptions& options,
                                      std::vector<StudyTable> tables, FitWhat what,
                                      const StudyProgress& progress = {});

// Over all rows of the tables whose held_out is as given.
ErrorSummary Summarize(const std::vector<StudyTable>& tables, bool held_out);

}  // namespace foretrace
