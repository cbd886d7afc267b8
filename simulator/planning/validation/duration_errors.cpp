#include "simulator/planning/validation/duration_errors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "simulator/base/atomic_file.h"
#include "simulator/base/check.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/console/output.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/traced/kernel_cost_model.h"

namespace foretrace {
namespace {

std::string ClassOf(const RankTrace& rank, NodeIndex node, const Item& item,
                    const KernelCostModel& kernels) {
  if (item.source == EstimateSource::kMissing) return "(no model)";
  if (!kernels.CallOf(rank, node).valid()) {
    if (rank.kind(node) == NodeKind::kMemset) return "fill";
    if (rank.kind(node) == NodeKind::kMemcpy) {
      return fmt::format("memcpy {}", Name(rank.memcpy_kind(node)));
    }
  }
  return std::string(Name(kernels.KindOf(rank, node)));
}

std::string ShapeOf(const RankTrace& rank, NodeIndex call) {
  std::string text;
  bool outputs = false;
  for (const Tensor& tensor : rank.tensors(call)) {
    if (text.empty())
      text = tensor.is_output ? "out" : "in";
    else if (tensor.is_output && !outputs)
      text += " out";
    outputs |= tensor.is_output;
    text += fmt::format(" {}", fmt::join(rank.dims(tensor), "x"));
  }
  return text;
}

// As SummarizeErrors, each error by the time of its work instead of all alike.
double TimeGmaePercent(const std::vector<double>& errors, const std::vector<double>& recorded_us) {
  constexpr double kFloor = 4e-4;
  double logs = 0, total_us = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    logs += recorded_us[i] * std::log(std::max(std::abs(errors[i]), kFloor));
    total_us += recorded_us[i];
  }
  return total_us > 0 ? 100 * std::exp(logs / total_us) : 0;
}

constexpr double kAlone = 0.05;  // share of its time up to which work counts as alone

// The recorded device work of a rank. Copies use engines of their own and are left out.
class DeviceWork {
 public:
  explicit DeviceWork(const RankTrace& rank) : rank_(rank), lanes_(rank.lanes().size()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      const bool on_device = rank.lane_at(rank.lane(node)).kind == Lane::Kind::kStream;
      if (on_device && rank.has_duration(node) && rank.kind(node) != NodeKind::kMemcpy) {
        lanes_[rank.lane(node).value].push_back(node);
      }
    }
    for (auto& lane : lanes_)
      std::ranges::stable_sort(lane, {}, [&](NodeIndex n) { return rank.start(n); });
  }

  // How long work of other streams ran during `node`; that of several streams counts once each.
  SimTime Beside(NodeIndex node) const {
    const SimTime begin = rank_.start(node), end = rank_.end(node);
    SimTime shared;
    for (size_t l = 0; l < lanes_.size(); ++l) {
      if (l == rank_.lane(node).value) continue;
      const auto& lane = lanes_[l];
      // Work of one stream runs in turn, so that ends are ordered like starts.
      auto other =
          std::ranges::partition_point(lane, [&](NodeIndex n) { return rank_.end(n) <= begin; });
      for (; other != lane.end() && rank_.start(*other) < end; ++other) {
        shared += std::min(end, rank_.end(*other)) - std::max(begin, rank_.start(*other));
      }
    }
    return shared;
  }

 private:
  const RankTrace& rank_;
  std::vector<std::vector<NodeIndex>> lanes_;
};

void AddWork(const TraceStore& store, const Prediction& modelled, const KernelCostModel& kernels,
             std::vector<DurationPair>& pairs) {
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    const DeviceWork device(rank);
    std::map<std::pair<bool, uint32_t>, DurationPair> calls;  // by call, else by node
    std::map<std::pair<bool, uint32_t>, SimTime> longest_of;
    for (const Item& item : modelled.job.program.ranks[r].items) {
      if (item.kind != ItemKind::kDevice || item.source == EstimateSource::kRecorded) continue;
      if (!rank.has_duration(item.node)) continue;
      const bool missing = item.source == EstimateSource::kMissing;
      const NodeIndex call = missing ? NodeIndex() : kernels.CallOf(rank, item.node);
      const std::pair key(call.valid(), call.valid() ? call.value : item.node.value);
      DurationPair& pair = calls[key];
      // A call is what its longest kernel is.
      SimTime& longest = longest_of[key];
      const bool first = pair.operator_class.empty();
      if (first || item.duration > longest) {
        longest = item.duration;
        pair.operator_class = ClassOf(rank, item.node, item, kernels);
        pair.kernel = store.name(rank, item.node);
      }
      if (first) {
        pair.rank = rank.info().rank;
        pair.call = store.name(rank, call.valid() ? call : item.node);
        if (call.valid()) pair.shape = ShapeOf(rank, call);
      }
      ++pair.kernels;
      pair.recorded += rank.duration(item.node);
      pair.modelled += item.duration;
      pair.beyond |= item.extrapolated || item.source != EstimateSource::kCalibrated;
      pair.beside += device.Beside(item.node).us();
    }
    for (auto& [key, pair] : calls) {
      pair.beside = pair.recorded > SimTime() ? pair.beside / pair.recorded.us() : 0;
      pairs.push_back(std::move(pair));
    }
  }
}

void AddTransfers(const TraceStore& store, const Prediction& recorded, const Prediction& modelled,
                  std::vector<DurationPair>& pairs) {
  const Program& program = modelled.job.program;
  FORETRACE_CHECK(program.rendezvous.size() == recorded.job.program.rendezvous.size());
  for (size_t m = 0; m < program.rendezvous.size(); ++m) {
    const RendezvousProgram& rendezvous = program.rendezvous[m];
    const RendezvousProgram& replayed = recorded.job.program.rendezvous[m];
    if (rendezvous.fixed || !replayed.fixed) continue;
    DurationPair pair;
    for (const auto& member : replayed.members) {
      pair.recorded = std::max(pair.recorded,
                               recorded.job.program.ranks[member.rank].items[member.item].duration);
    }
    const auto& one = rendezvous.members.front();
    pair.modelled =
        modelled.schedule.ranks[one.rank].end[one.item] - modelled.schedule.rendezvous_active[m];
    const NodeIndex node = program.ranks[one.rank].items[one.item].node;
    const RankTrace& rank = store.ranks()[one.rank];
    pair.operator_class = rank.kind(node) == NodeKind::kCollective
                              ? std::string(Name(rank.collective_op(node)))
                              : "send_recv";
    pair.rank = rank.info().rank;
    pair.call = pair.kernel = store.name(rank, node);
    pair.kernels = 1;
    pair.beyond = modelled.schedule.rendezvous_extrapolated[m] != 0 ||
                  modelled.schedule.rendezvous_source[m] != EstimateSource::kCalibrated;
    pairs.push_back(std::move(pair));
  }
}

}  // namespace

std::vector<DurationPair> CompareDurations(const TraceStore& store, const Prediction& recorded,
                                           const Prediction& modelled,
                                           const KernelCostModel& kernels) {
  std::vector<DurationPair> pairs;
  AddWork(store, modelled, kernels, pairs);
  AddTransfers(store, recorded, modelled, pairs);
  return pairs;
}

std::vector<DurationErrorRow> ErrorsByClass(const std::vector<DurationPair>& pairs) {
  struct Class {
    std::vector<double> errors, recorded_us, alone_errors;
    SimTime recorded, modelled, alone_recorded, alone_modelled;
    int64_t beyond = 0;
  };
  std::map<std::string, Class> classes;
  SimTime total;
  for (const DurationPair& pair : pairs) {
    total += pair.recorded;
    if (pair.recorded <= SimTime()) continue;
    Class& c = classes[pair.operator_class];
    c.errors.push_back(pair.modelled.us() / pair.recorded.us() - 1.0);
    c.recorded_us.push_back(pair.recorded.us());
    c.recorded += pair.recorded;
    c.modelled += pair.modelled;
    c.beyond += pair.beyond ? 1 : 0;
    if (pair.beside > kAlone) continue;
    c.alone_errors.push_back(c.errors.back());
    c.alone_recorded += pair.recorded;
    c.alone_modelled += pair.modelled;
  }
  std::vector<DurationErrorRow> rows;
  for (const auto& [name, c] : classes) {
    DurationErrorRow row;
    row.operator_class = name;
    row.errors = SummarizeErrors(c.errors);
    row.time_gmae_percent = TimeGmaePercent(c.errors, c.recorded_us);
    row.bias_percent = 100 * (c.modelled.us() / c.recorded.us() - 1.0);
    row.share = c.recorded.us() / total.us();
    row.extrapolated = c.beyond;
    if (!c.alone_errors.empty()) {
      row.alone = SummarizeErrors(c.alone_errors);
      row.alone_bias_percent = 100 * (c.alone_modelled.us() / c.alone_recorded.us() - 1.0);
    }
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return rows;
}

absl::Status WriteDurationRows(const std::vector<DurationPair>& pairs, const std::string& path) {
  std::string text =
      "case,rank,operator,call,shape,kernel,kernels,recorded_us,modelled_us,beyond,beside\n";
  for (const DurationPair& pair : pairs) {
    text += CsvLineOf(pair.case_name, pair.rank, pair.operator_class, pair.call, pair.shape,
                      pair.kernel, pair.kernels, pair.recorded.us(), pair.modelled.us(),
                      pair.beyond ? 1 : 0, fmt::format("{:.3f}", pair.beside));
  }
  return WriteFile(path, text);
}

}  // namespace foretrace
