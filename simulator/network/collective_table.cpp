#include "simulator/network/collective_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
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
  row.bytes = spec.bytes.count();
  row.ranks = static_cast<int32_t>(spec.members.size());
  row.tier = query.tier;
  double seconds = 0;
  if (query.tier == NetworkTier::kSimgrid) {
    FORETRACE_RETURN_IF_ERROR(CheckSimgridSize(topology));
  }
  if (query.tier == NetworkTier::kFitted) {
    FORETRACE_ASSIGN_OR_RETURN(const Choice choice, planner.Choose(spec));
    row.algorithm = choice.algorithm;
    row.protocol = choice.protocol;
    seconds = choice.seconds;
  } else {
    FORETRACE_ASSIGN_OR_RETURN(const PlannedRun alone, planner.PlanAndRun(spec));
    row.algorithm = alone.plan.algorithm;
    row.protocol = alone.plan.protocol;
    row.flows = alone.run.flows;
    seconds = alone.run.seconds;
    if (query.tier == NetworkTier::kSimgrid) {
      FORETRACE_ASSIGN_OR_RETURN(const auto network,
                                 SimgridNetwork::Create(topology, query.options));
      FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, network->IsolatedDuration(spec));
      seconds = estimate.time.seconds();
    }
  }
  FORETRACE_RETURN_IF_ERROR(TransferTime(seconds, spec).status());
  row.time_us = seconds * 1e6;
  if (seconds > 0) row.algbw_GBps = static_cast<double>(row.bytes) / seconds * 1e-9;
  row.busbw_GBps = row.algbw_GBps * BusFactor(query.op, row.ranks);
  return row;
}

// "64 MiB"; what is no whole number of units in bytes.
std::string SizeText(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string Verdict(CollectiveOp op, const std::vector<CollectiveRow>& rows) {
  if (rows.empty()) return "Verdict: no size was simulated\n";
  const CollectiveRow& first = rows.front();
  const CollectiveRow& last = rows.back();
  std::string text = fmt::format("Verdict: {} on {} rank{} takes {:.1f} us", Name(op), first.ranks,
                                 first.ranks == 1 ? "" : "s", first.time_us);
  if (op == CollectiveOp::kBarrier) return text + fmt::format(", by {}\n", Name(first.algorithm));
  text += " for " + SizeText(first.bytes);
  if (rows.size() == 1) {
    return text + fmt::format(", {:.1f} GB/s of bus bandwidth, by {}\n", first.busbw_GBps,
                              Name(first.algorithm));
  }
  double most = 0;
  for (const CollectiveRow& row : rows) most = std::max(most, row.busbw_GBps);
  return text + fmt::format(", {:.1f} us for {}; bus bandwidth up to {:.1f} GB/s\n", last.time_us,
                            SizeText(last.bytes), most);
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

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit = LowerCase(
      std::string_view(result.ptr, static_cast<size_t>(text.data() + text.size() - result.ptr)));
  if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
  if (unit.ends_with("b")) unit.resize(unit.size() - 1);
  const std::string_view units = "kmgt";
  int64_t factor = unit.empty() ? 1 : 0;
  if (unit.size() == 1 && units.find(unit[0]) != std::string_view::npos) {
    factor = int64_t{1} << (10 * (units.find(unit[0]) + 1));
  }
  if (result.ec != std::errc() || factor == 0 || value < 0 ||
      value > std::numeric_limits<int64_t>::max() / factor) {
    return InvalidInput("'{}' is not a size; write for example 4096, 32M or 1G", text);
  }
  return value * factor;
}

absl::StatusOr<std::vector<CollectiveRow>> CollectiveTable(const Topology& topology,
                                                           const CollectiveQuery& query) {
  if (query.last_bytes < query.first_bytes) {
    return InvalidInput("sizes run from {} to {} bytes: the first must not be larger",
                        query.first_bytes, query.last_bytes);
  }
  TransferPlanner planner(topology, query.options);
  TransferSpec spec;
  spec.op = query.op;
  spec.members = query.members;
  int64_t sizes = 1;
  for (int64_t b = query.first_bytes; b < query.last_bytes && b <= query.last_bytes / 2; ++sizes) {
    b = b == 0 ? 1 : 2 * b;
  }
  std::vector<CollectiveRow> rows;
  for (int64_t bytes = query.first_bytes;;) {
    if (query.progress && !query.progress(static_cast<int64_t>(rows.size()), sizes)) break;
    spec.bytes = Bytes(bytes);
    const absl::StatusOr<CollectiveRow> row = Row(topology, query, planner, spec);
    if (absl::IsCancelled(row.status())) break;
    FORETRACE_RETURN_IF_ERROR(row.status());
    rows.push_back(*row);
    if (bytes > query.last_bytes / 2 || bytes == query.last_bytes ||
        static_cast<int64_t>(rows.size()) == kMaxRows) {
      break;
    }
    bytes = bytes == 0 ? 1 : 2 * bytes;
  }
  return rows;
}

std::string FormatCollectiveTable(CollectiveOp op, const std::vector<CollectiveRow>& rows) {
  std::string out = Verdict(op, rows);
  auto to = std::back_inserter(out);
  fmt::format_to(to, "#{:>13} {:>6} {:>18} {:>8} {:>7} {:>12} {:>10} {:>10} {:>7}\n", "size (B)",
                 "ranks", "algorithm", "protocol", "network", "time (us)", "algbw GB/s",
                 "busbw GB/s", "flows");
  for (const CollectiveRow& row : rows) {
    fmt::format_to(to, "{:>14} {:>6} {:>18} {:>8} {:>7} {:>12.2f} {:>10.2f} {:>10.2f} {:>7}\n",
                   row.bytes, row.ranks, Name(row.algorithm), Name(row.protocol), Name(row.tier),
                   row.time_us, row.algbw_GBps, row.busbw_GBps, row.flows);
  }
  return out;
}

std::string FormatLinkLoads(const CollectiveRow& row, const std::vector<LinkKindLoad>& links) {
  std::string out = fmt::format(
      "\nLinks at {}, the busiest kind first (* any number; busy: its fullest link, of the time)\n",
      SizeText(row.bytes));
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{:<30} {:>9} {:>8} {:>12} {:>12} {:>7}\n", "link", "GB/s", "links", "most MB",
                 "mean MB", "busy %");
  for (const LinkKindLoad& link : links) {
    fmt::format_to(to, "{:<30} {:>9.2f} {:>8} {:>12.3f} {:>12.3f} {:>7.1f}\n", link.kind,
                   link.rate.gbps(), link.links, link.most * 1e-6, link.mean() * 1e-6,
                   100 * link.busy(row.time_us * 1e-6));
  }
  return out;
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
  spec.bytes = Bytes(row.bytes);
  FORETRACE_ASSIGN_OR_RETURN(const TransferPlan plan, planner.Plan(spec));
  return LoadsByKind(topology, plan);
}

std::string CollectiveTableJson(const std::vector<CollectiveRow>& rows,
                                const std::vector<LinkKindLoad>& links) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("rows");
  json.StartArray();
  for (const CollectiveRow& row : rows) {
    json.StartObject();
    json.Field("bytes", row.bytes);
    json.Field("ranks", row.ranks);
    json.Field("algorithm", Name(row.algorithm));
    json.Field("protocol", Name(row.protocol));
    json.Field("network", Name(row.tier));
    json.Field("time_us", row.time_us);
    json.Field("algbw_GBps", row.algbw_GBps);
    json.Field("busbw_GBps", row.busbw_GBps);
    json.Field("flows", row.flows);
    json.EndObject();
  }
  json.EndArray();
  if (!links.empty()) {
    json.Key("link_loads");
    json.StartArray();
    for (const LinkKindLoad& link : links) {
      json.StartObject();
      json.Field("kind", link.kind);
      json.Field("bandwidth_GBps", link.rate.gbps());
      json.Field("links", link.links);
      json.Field("most_bytes", link.most);
      json.Field("mean_bytes", link.mean());
      json.Field("busy_share", link.busy(rows.back().time_us * 1e-6));
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
