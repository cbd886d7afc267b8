#include "simulator/mapping/measured_mappings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/local_search.h"

namespace foretrace {

namespace {

double& ValueOf(ClusterParameter which, ClusterParameters& p, double& scratch) {
  switch (which) {
    case ClusterParameter::kMatrixEfficiency:
      return p.matrix_efficiency;
    case ClusterParameter::kMatrixHalfSize:
      return p.matrix_half_size;
    case ClusterParameter::kMemoryEfficiency:
      return p.memory_efficiency;
    case ClusterParameter::kGemmSlowdown:
      return p.gemm_slowdown;
    case ClusterParameter::kNodeShare:
      return p.node_share;
    case ClusterParameter::kNicShare:
      return p.nic_share;
    default:
      return scratch;
  }
}

double Get(ClusterParameter which, ClusterParameters p) {
  double scratch = 0;
  switch (which) {
    case ClusterParameter::kLaunchFloor:
      return p.launch_floor.seconds();
    default:
      return ValueOf(which, p, scratch);
  }
}

void Set(ClusterParameter which, double value, ClusterParameters& p) {
  double scratch = 0;
  switch (which) {
    // What links attain in training lies around what the platform's data say: beyond it by as much
    // as an efficiency of 0.7 in them leaves, below it by as much.
    case ClusterParameter::kNodeShare:
    case ClusterParameter::kNicShare:
      ValueOf(which, p, scratch) = std::clamp(value, 1 / 1.4, 1.4);
      return;
    case ClusterParameter::kLaunchFloor:
      p.launch_floor = SimTime::FromSeconds(std::min(value, 0.1));
      return;
    case ClusterParameter::kMatrixHalfSize:
      p.matrix_half_size = std::min(value, 1e4);
      return;
    case ClusterParameter::kGemmSlowdown:
      p.gemm_slowdown = std::clamp(value, 0.8, 1.5);
      return;
    default:
      ValueOf(which, p, scratch) = std::clamp(value, 0.3, 0.95);
  }
}

}  // namespace

std::string_view Name(ClusterParameter parameter) {
  static constexpr std::array<std::string_view, 7> kParameterNames = {
      "matrix_efficiency", "matrix_half_size", "memory_efficiency", "node_share",
      "nic_share",         "launch_floor",     "gemm_slowdown"};
  return EnumName(kParameterNames, parameter);
}

absl::StatusOr<ClusterParameters> FitCluster(const std::vector<MeasuredMapping>& rows,
                                             const ClusterParameters& start,
                                             const std::vector<ClusterParameter>& free) {
  if (rows.empty()) return InvalidInput("nothing to fit to");
  absl::Status status;
  const auto cost = [&](const ClusterParameters& p) {
    double sum = 0;
    for (const MeasuredMapping& row : rows) {
      const auto estimate = EstimateIteration(row.model, row.mapping, p);
      if (!estimate.ok()) {
        status = estimate.status();
        return 0.0;
      }
      sum += std::abs(estimate->time.seconds() / row.measured.seconds() - 1);
    }
    return sum / static_cast<double>(rows.size());
  };
  const auto move = [&](ClusterParameters p, size_t i, double by) {
    Set(free[i], Get(free[i], p) * (by > 0 ? 1 + by : 1 / (1 - by)), p);
    return p;
  };
  const ClusterParameters best =
      DescendByCoordinate(start, free.size(), {.first = 0.2, .least = 1e-6}, move, cost);
  FORETRACE_RETURN_IF_ERROR(status);
  return best;
}

}  // namespace foretrace
