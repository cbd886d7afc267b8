#include "simulator/network/link_study.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/collective_table.h"

namespace foretrace {
namespace {

TransferSpec SpecOf(const StudyTable& table, const PlatformSpec& platform,
                    const MeasuredCollective& row) {
  TransferSpec spec;
  spec.op = table.op;
  spec.point_to_point = row.one_way;
  spec.dtype = row.dtype;
  spec.bytes = row.bytes;
  const int32_t per_node = table.ranks / table.nodes;
  for (int32_t r = 0; r < table.ranks; ++r) {
    spec.members.push_back(r / per_node * platform.node.devices + r % per_node);
  }
  return spec;
}

absl::Status Interrupted() { return absl::CancelledError("interrupted before the tables' end"); }

// Mean squared log error over the tables for fitting; infinite where prediction fails.
double Loss(const PlatformSpec& platform, const NetworkOptions& options,
            std::vector<StudyTable>& tables) {
  if (!PredictTables(platform, NetworkTier::kFitted, options, tables).ok()) return INFINITY;
  double sum = 0;
  double count = 0;
  for (const StudyTable& table : tables) {
    for (size_t i = 0; i < table.rows.size(); ++i) {
      const double e = std::log(table.predicted[i] / table.rows[i].time);
      sum += e * e;
      ++count;
    }
  }
  return count > 0 ? sum / count : 0;
}

// The rows of the smallest size, the third and so on; and the others.
std::array<std::vector<MeasuredCollective>, 2> EverySecondSize(
    const std::vector<MeasuredCollective>& rows) {
  std::map<Bytes, size_t> place;
  for (const MeasuredCollective& row : rows) place[row.bytes] = 0;
  size_t next = 0;
  for (auto& [bytes, index] : place) index = next++;
  std::array<std::vector<MeasuredCollective>, 2> halves;
  for (const MeasuredCollective& row : rows) halves[place[row.bytes] % 2].push_back(row);
  return halves;
}

}  // namespace

std::vector<StudyTable> MakeTables(const std::vector<MeasuredCollective>& rows, Bytes min_bytes,
                                   HoldOut hold_out) {
  std::map<std::tuple<CollectiveOp, int32_t, int32_t>, std::vector<MeasuredCollective>> groups;
  for (const MeasuredCollective& row : rows) {
    if (row.bytes >= min_bytes) groups[{row.op, row.nodes, row.ranks}].push_back(row);
  }
  std::vector<StudyTable> ordered;
  const auto add = [&ordered](std::vector<MeasuredCollective> members, bool held_out) {
    if (members.empty()) return;
    const MeasuredCollective& first = members.front();
    ordered.push_back({.op = first.op,
                       .ranks = first.ranks,
                       .nodes = first.nodes,
                       .held_out = held_out,
                       .rows = std::move(members)});
  };
  for (auto& [key, members] : groups) {
    if (hold_out == HoldOut::kTables) {
      add(std::move(members), ordered.size() % 2 == 1);
      continue;
    }
    auto [fitted, others] = EverySecondSize(members);
    add(std::move(fitted), false);
    add(std::move(others), true);
  }
  return ordered;
}

absl::Status PredictTables(const PlatformSpec& platform, NetworkTier tier,
                           const NetworkOptions& options, std::vector<StudyTable>& tables,
                           const StudyProgress& progress) {
  int64_t total = 0, done = 0;
  for (const StudyTable& table : tables) total += static_cast<int64_t>(table.rows.size());
  FORETRACE_ASSIGN_OR_RETURN(const Topology topology, Topology::Create(platform));
  FORETRACE_ASSIGN_OR_RETURN(const auto network, MakeNetwork(tier, topology, options));
  for (StudyTable& table : tables) {
    if (table.nodes > platform.nodes || table.ranks / table.nodes > platform.node.devices) {
      return InvalidInput(
          "a table has {} ranks on {} nodes; platform '{}' has {} nodes of {} devices", table.ranks,
          table.nodes, platform.name, platform.nodes, platform.node.devices);
    }
    table.predicted.clear();
    std::vector<double> errors;
    for (const MeasuredCollective& row : table.rows) {
      if (progress && !progress("rows", done++, total)) return Interrupted();
      FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate,
                                 network->IsolatedDuration(SpecOf(table, platform, row)));
      table.predicted.emplace_back(estimate.time);
      errors.push_back(table.predicted.back() / row.time - 1);
    }
    table.errors = SummarizeErrors(errors);
  }
  return absl::OkStatus();
}

namespace {

// A value of a platform that is fitted: the platform with it scaled.
using Parameter = std::function<void(PlatformSpec& platform, double factor)>;

// Where the channels' rate is known, what NVLinks lose besides is NCCL's own constant.
std::vector<Parameter> ParametersOf(const PlatformSpec& platform, FitWhat what, bool sends,
                                    bool between_nodes) {
  const CollectiveLibrary& library = platform.library;
  std::vector<Parameter> parameters;
  if (what.launch) {
    parameters.push_back([](PlatformSpec& p, double factor) {
      p.library.launch = p.library.launch.ScaledBy(factor);
    });
  }
  if (!what.links) return parameters;
  const bool channel = library.channel > Bandwidth();
  if (channel) {
    parameters.push_back(
        [](PlatformSpec& p, double factor) { p.library.channel = p.library.channel * factor; });
  }
  if (channel && !sends) {
    parameters.push_back([](PlatformSpec& p, double factor) {
      p.library.exchange = std::min(1.0, p.library.exchange * factor);
    });
  }
  const bool network_channel = library.network_channel > Bandwidth();
  if (sends && network_channel) {
    parameters.push_back([](PlatformSpec& p, double factor) {
      p.library.network_channel = p.library.network_channel * factor;
    });
  }
  for (size_t l = 0; l < platform.links.size(); ++l) {
    const LinkClass kind = platform.links[l].link_class;
    if (kind == LinkClass::kPcie) continue;
    if (sends && (kind != LinkClass::kNetwork || network_channel || !between_nodes)) continue;
    parameters.push_back([l](PlatformSpec& p, double factor) {
      p.links[l].latency = p.links[l].latency.ScaledBy(factor);
    });
    if (channel && kind == LinkClass::kNvlink) continue;
    parameters.push_back([l](PlatformSpec& p, double factor) {
      p.links[l].efficiency = std::min(1.0, p.links[l].efficiency * factor);
    });
  }
  return parameters;
}

}  // namespace

absl::StatusOr<PlatformSpec> FitLinks(PlatformSpec platform, const NetworkOptions& options,
                                      std::vector<StudyTable> tables, FitWhat what,
                                      const StudyProgress& progress) {
  if (what.launch && platform.library.launch == SimTime()) {
    platform.library.launch = SimTime::FromUs(10);  // a start for the search, which only scales
  }
  std::erase_if(tables, [](const StudyTable& table) { return table.held_out; });
  FORETRACE_RETURN_IF_ERROR(PredictTables(platform, NetworkTier::kFitted, options, tables));
  double best = Loss(platform, options, tables);
  const auto keep_if_better = [&](PlatformSpec trial) {
    const double loss = Loss(trial, options, tables);
    if (loss >= best) return;
    best = loss;
    platform = std::move(trial);
  };
  const bool sends = std::ranges::all_of(
      tables, [](const StudyTable& table) { return table.op == CollectiveOp::kSendRecv; });
  const bool between_nodes =
      std::ranges::any_of(tables, [](const StudyTable& table) { return table.nodes > 1; });
  const std::vector<Parameter> parameters = ParametersOf(platform, what, sends, between_nodes);
  double before = INFINITY;
  constexpr double kFirst = 0.4, kLast = 0.004, kFiner = 0.6;
  const auto sizes = static_cast<int64_t>(std::ceil(std::log(kLast / kFirst) / std::log(kFiner)));
  int64_t size = 0;
  // Sweeps at one step size until they no longer help, then finer.
  for (double step = kFirst; step > kLast; step *= best < 0.999 * before ? 1.0 : kFiner) {
    size = std::max(size, static_cast<int64_t>(std::log(step / kFirst) / std::log(kFiner) + 0.5));
    before = best;
    for (const Parameter& scale : parameters) {
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        if (progress && !progress("step sizes of the fit", size, sizes)) return Interrupted();
        PlatformSpec trial = platform;
        scale(trial, factor);
        keep_if_better(std::move(trial));
      }
    }
  }
  return platform;
}

ErrorSummary Summarize(const std::vector<StudyTable>& tables, bool held_out) {
  std::vector<double> errors;
  for (const StudyTable& table : tables) {
    if (table.held_out != held_out) continue;
    for (size_t i = 0; i < table.predicted.size(); ++i) {
      errors.push_back(table.predicted[i] / table.rows[i].time - 1);
    }
  }
  return SummarizeErrors(errors);
}

}  // namespace foretrace
