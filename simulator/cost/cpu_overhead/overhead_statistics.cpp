#include "simulator/cost/cpu_overhead/overhead_statistics.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/reconstruct/reconstruction.h"

namespace foretrace {
namespace {

constexpr int kSchema = 1;
// Ops that come once a step can hold much of its time (a data loader), so that even one sample of
// an op says more than the mean over all ops.
constexpr int64_t kEnough = 1;

}  // namespace

double OverheadMoments::std_us() const {
  if (count == 0) return 0;
  const double mean = mean_us();
  return std::sqrt(std::max(0.0, sum_squares_us2 / static_cast<double>(count) - mean * mean));
}

void OverheadStatistics::Add(OverheadKind kind, std::string_view op, SimTime time) {
  const auto k = static_cast<size_t>(kind);
  global_[k].Add(time.us());
  auto it = by_op_[k].find(op);
  if (it == by_op_[k].end()) it = by_op_[k].emplace(std::string(op), OverheadMoments()).first;
  it->second.Add(time.us());
}

bool OverheadStatistics::empty() const {
  return std::all_of(std::begin(global_), std::end(global_),
                     [](const OverheadMoments& m) { return m.count == 0; });
}

OverheadStatistics OverheadStatistics::Extract(const TraceStore& store,
                                               const AcceleratorCatalog& accelerators,
                                               const SyncCosts& costs,
                                               const OverheadFilter& filter) {
  OverheadStatistics statistics;
  for (const RankTrace& rank : store.ranks()) {
    if (!rank.info().has_times) continue;
    const RankReconstruction recording(store, rank, accelerators.DriverOf(rank.info().device_name));
    for (const CpuTimelinePoints& timeline : recording.Timelines(costs)) {
      bool first = true;
      for (const CpuPoint& point : timeline.points) {
        const int64_t step = rank.iteration_at(point.recorded_start);
        const bool wanted = filter == nullptr || filter(rank.info().rank, step);
        if (wanted && !first) {
          for (const OverheadSegment& s : timeline.segments_of(point)) {
            statistics.Add(s.kind, store.strings().Get(s.op), s.time);
          }
        }
        if (wanted && !point.is_mark && !point.blocking && !point.queue_full) {
          statistics.Add(OverheadKind::kT4, store.name(rank, point.node), point.duration);
        }
        first = false;
      }
    }
  }
  return statistics;
}

SimTime OverheadStatistics::Mean(OverheadKind kind, std::string_view op) const {
  const auto k = static_cast<size_t>(kind);
  const auto it = by_op_[k].find(op);
  const OverheadMoments& moments =
      it != by_op_[k].end() && it->second.count >= kEnough ? it->second : global_[k];
  return SimTime::FromUs(moments.mean_us());
}

std::string OverheadStatistics::ToYaml(
    const std::vector<std::pair<std::string, std::string>>& provenance) const {
  YAML::Emitter out;
  const auto moments = [&out](const OverheadMoments& m) {
    out << YAML::Flow << YAML::BeginSeq << fmt::format("{}", m.mean_us())
        << fmt::format("{}", m.std_us()) << m.count << YAML::EndSeq;
  };
  out << YAML::BeginMap;
  out << YAML::Key << "schema" << YAML::Value << kSchema;
  out << YAML::Key << "kind" << YAML::Value << "cpu_overheads";
  for (const auto& [key, value] : provenance) out << YAML::Key << key << YAML::Value << value;
  out << YAML::Key << "unit" << YAML::Value << "us";
  out << YAML::Key << "columns" << YAML::Value << "mean, standard deviation, count";
  for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
    out << YAML::Key << std::string(Name(static_cast<OverheadKind>(k))) << YAML::Value
        << YAML::BeginMap;
    out << YAML::Key << "all" << YAML::Value;
    moments(global_[k]);
    out << YAML::Key << "ops" << YAML::Value << YAML::BeginMap;
    for (const auto& [op, m] : by_op_[k]) {
      out << YAML::Key << op << YAML::Value;
      moments(m);
    }
    out << YAML::EndMap << YAML::EndMap;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

absl::StatusOr<OverheadStatistics> OverheadStatistics::Load(const std::string& path) {
  OverheadStatistics statistics;
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  try {
    if (!root.IsMap() || !root["kind"] || root["kind"].as<std::string>() != "cpu_overheads") {
      return InvalidInput("{}: not a file of CPU overheads (kind: cpu_overheads is missing)", path);
    }
    if (!root["schema"] || root["schema"].as<int>() != kSchema) {
      return InvalidInput("{}: schema {} is not known; this version reads {}", path,
                          root["schema"] ? root["schema"].as<std::string>() : "(none)", kSchema);
    }
    if (root["unit"] && root["unit"].as<std::string>() != "us") {
      return InvalidInput("{}: unit is {}; only us is read", path, root["unit"].as<std::string>());
    }
    for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
      const std::string name(Name(static_cast<OverheadKind>(k)));
      const auto read = [&](const YAML::Node& node) {
        const double mean = node[0].as<double>();
        const double std = node[1].as<double>();
        const auto count = node[2].as<int64_t>();
        // An hour is no overhead of a call. T1 of an op may come out slightly negative where
        // recorded calls overlap by a clock tick.
        constexpr double kLongest = 3.6e9;
        if (!(std::abs(mean) <= kLongest) || !(std >= 0 && std <= kLongest) || count < 0 ||
            count > (int64_t{1} << 40)) {
          throw YAML::Exception(node.Mark(),
                                "expected [mean us, standard deviation us, count], none negative");
        }
        OverheadMoments m;
        m.count = count;
        m.sum_us = mean * static_cast<double>(count);
        m.sum_squares_us2 = (mean * mean + std * std) * static_cast<double>(count);
        return m;
      };
      const YAML::Node section = root[name];
      if (!section || !section["all"]) {
        return InvalidInput("{}: section {} is missing", path, name);
      }
      statistics.global_[k] = read(section["all"]);
      // T1 may come out slightly negative where recorded calls overlap by a clock tick; a mean
      // below zero or none at all is an error.
      if (!(statistics.global_[k].sum_us >= 0)) {
        return InvalidInput("{}: {}: negative mean", path, name);
      }
      for (const auto& entry : section["ops"]) {
        statistics.by_op_[k].emplace(entry.first.as<std::string>(), read(entry.second));
      }
    }
  } catch (const YAML::Exception& e) {
    return InvalidInput("{}:{}: {}", path, e.mark.line + 1, e.msg);
  }
  return statistics;
}

}  // namespace foretrace
