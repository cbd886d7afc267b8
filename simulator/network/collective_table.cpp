#include "simulator/network/collective_table.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/real_quantities.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/fitted_network.h"
#include "simulator/network/fluid/fluid_network.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/network/simgrid/simgrid_network.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, 3> kTierNames = {"fitted", "fluid", "simgrid"};
constexpr int64_t kMaxRows = 64;

absl::StatusOr<CollectiveRow> Row(const Topology& topology, const CollectiveQuery& query,
                                  TransferPlanner& planner, const TransferSpec& spec) {
  CollectiveRow row;
  row.bytes = spec.bytes;
  row.ranks = static_cast<int32_t>(spec.members.size());
  row.tier = query.tier;
  RealSeconds time;
  if (query.tier == NetworkTier::kSimgrid) {
    FORETRACE_RETURN_IF_ERROR(CheckSimgridSize(topology));
  }
  if (query.tier == NetworkTier::kFitted) {
    FORETRACE_ASSIGN_OR_RETURN(const Choice choice, planner.Choose(spec));
    row.algorithm = choice.algorithm;
    row.protocol = choice.protocol;
    time = choice.time;
  } else {
    FORETRACE_ASSIGN_OR_RETURN(const PlannedRun alone, planner.PlanAndRun(spec));
    row.algorithm = alone.plan.algorithm;
    row.protocol = alone.plan.protocol;
    row.flows = alone.run.flows;
    time = alone.run.time;
    if (query.tier == NetworkTier::kSimgrid) {
      FORETRACE_ASSIGN_OR_RETURN(const auto network,
                                 SimgridNetwork::Create(topology, query.options));
      FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, network->IsolatedDuration(spec));
      time = RealSeconds(estimate.time);
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(row.time, TransferTime(time, spec));
  if (time > RealSeconds()) {
    row.algorithm_bandwidth = RealBytes(row.bytes) / time;
    row.bus_bandwidth = row.algorithm_bandwidth * BusFactor(query.op, row.ranks);
  }
  return row;
}

}  // namespace

std::string_view Name(NetworkTier tier) { return EnumName(kTierNames, tier); }

NetworkTier ParseNetworkTier(std::string_view text) {
  for (size_t i = 0; i < kTierNames.size(); ++i) {
    if (kTierNames[i] == text) return static_cast<NetworkTier>(i);
  }
  return NetworkTier::kCount;
}

absl::StatusOr<std::unique_ptr<NetworkModel>> MakeNetwork(NetworkTier tier,
                                                          const Topology& topology,
                                                          NetworkOptions options) {
  switch (tier) {
    case NetworkTier::kFitted:
      return std::make_unique<FittedNetwork>(topology, options, nullptr);
    case NetworkTier::kFluid:
      return std::make_unique<FluidNetwork>(topology, options);
    default:
      return SimgridNetwork::Create(topology, options);
  }
}

double BusFactor(CollectiveOp op, int32_t ranks) {
  const double n = ranks;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

absl::StatusOr<Bytes> ParseSize(std::string_view text) {
  long double value = 0;  // holds every int64_t
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  std::string unit = LowerCase(
      std::string_view(result.ptr, static_cast<size_t>(text.data() + text.size() - result.ptr)));
  if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
  if (unit.ends_with("b")) unit.resize(unit.size() - 1);
  const std::string_view units = "kmgt";
  int64_t factor = unit.empty() ? 1 : 0;
  if (unit.size() == 1 && units.find(unit[0]) != std::string_view::npos) {
    factor = int64_t{1} << (10 * (units.find(unit[0]) + 1));
  }
  constexpr long double kMost = std::numeric_limits<int64_t>::max();
  const long double bytes = value * static_cast<long double>(factor);
  if (result.ec != std::errc() || factor == 0 || !(bytes >= 0 && bytes <= kMost) ||
      bytes != std::floor(bytes)) {
    return InvalidInput("'{}' is not a size in whole bytes; write for example 4096, 1.5M or 1G",
                        text);
  }
  return WholeBytes(bytes);
}

absl::StatusOr<std::vector<CollectiveRow>> CollectiveTable(const Topology& topology,
                                                           const CollectiveQuery& query) {
  if (query.last_bytes < query.first_bytes) {
    return InvalidInput("sizes run from {} to {} bytes: the first must not be larger",
                        query.first_bytes.count(), query.last_bytes.count());
  }
  TransferPlanner planner(topology, query.options);
  TransferSpec spec;
  spec.op = query.op;
  spec.members = query.members;
  const int64_t first = query.first_bytes.count(), last = query.last_bytes.count();
  int64_t sizes = 1;
  for (int64_t b = first; b < last && b <= last / 2; ++sizes) {
    b = b == 0 ? 1 : 2 * b;
  }
  std::vector<CollectiveRow> rows;
  for (int64_t bytes = first;;) {
    if (query.progress && !query.progress(static_cast<int64_t>(rows.size()), sizes)) break;
    spec.bytes = Bytes(bytes);
    const absl::StatusOr<CollectiveRow> row = Row(topology, query, planner, spec);
    if (absl::IsCancelled(row.status())) break;
    FORETRACE_RETURN_IF_ERROR(row.status());
    rows.push_back(*row);
    if (bytes > last / 2 || bytes == last || static_cast<int64_t>(rows.size()) == kMaxRows) break;
    bytes = bytes == 0 ? 1 : 2 * bytes;
  }
  return rows;
}

absl::StatusOr<std::vector<LinkKindLoad>> LinkLoadsOf(const Topology& topology,
                                                      const CollectiveQuery& query,
                                                      const CollectiveRow& row) {
  NetworkOptions options = query.options;
  options.algorithm = row.algorithm;
  options.protocol = row.protocol;
  TransferPlanner planner(topology, options);
  TransferSpec spec;
  spec.op = query.op;
  spec.members = query.members;
  spec.bytes = row.bytes;
  FORETRACE_ASSIGN_OR_RETURN(const TransferPlan plan, planner.Plan(spec));
  return LoadsByKind(topology, plan);
}

}  // namespace foretrace
