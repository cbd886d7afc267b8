#pragma once
// CPU overheads T1..T5 as statistics: extracted from traces, kept as calibration files, and used in
// place of recorded overheads. Long tails are kept: cutting them made predictions of other ranks
// several times worse. Blocking calls give no T4.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "simulator/cost/cost_model.h"
#include "simulator/hardware/catalog.h"
#include "simulator/reconstruct/cpu_timeline.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct OverheadMoments {
  int64_t count = 0;
  double sum_us = 0;
  double sum_squares_us2 = 0;

  void Add(double us) {
    ++count;
    sum_us += us;
    sum_squares_us2 += us * us;
  }
  double mean_us() const { return count > 0 ? sum_us / static_cast<double>(count) : 0; }
  double std_us() const;  // of the population
};

// Which parts of a trace give samples: (rank number, step number or -1 outside of steps).
using OverheadFilter = std::function<bool(int32_t rank, int64_t step)>;

class OverheadStatistics : public OverheadModel {
 public:
  // Extracts from every recorded rank that passes the filter (null: all). `costs`: of the run that
  // they are for, since what a blocking call costs is no overhead.
  static OverheadStatistics Extract(const TraceStore& store, const AcceleratorCatalog& accelerators,
                                    const SyncCosts& costs, const OverheadFilter& filter);
  // Errors: unreadable file, wrong schema version, unknown keys, negative times.
  static absl::StatusOr<OverheadStatistics> Load(const std::string& path);
  // YAML; `provenance` lines (key, value) come first.
  std::string ToYaml(const std::vector<std::pair<std::string, std::string>>& provenance) const;

  // Of the op where it was seen often enough, else of all ops.
  SimTime Mean(OverheadKind kind, std::string_view op) const override;

  const OverheadMoments& global(OverheadKind kind) const {
    return global_[static_cast<size_t>(kind)];
  }
  const std::map<std::string, OverheadMoments, std::less<>>& by_op(OverheadKind kind) const {
    return by_op_[static_cast<size_t>(kind)];
  }
  bool empty() const;

 private:
  void Add(OverheadKind kind, std::string_view op, SimTime time);

  OverheadMoments global_[static_cast<size_t>(OverheadKind::kCount)];
  std::map<std::string, OverheadMoments, std::less<>>
      by_op_[static_cast<size_t>(OverheadKind::kCount)];
};

}  // namespace foretrace
