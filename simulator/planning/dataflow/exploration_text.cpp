#include "simulator/planning/dataflow/exploration_text.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "simulator/planning/dataflow/time_text.h"

namespace foretrace {
namespace {

std::string NameOf(const dataflow::Space& space, const dataflow::Point& point) {
  const dataflow::System s = SystemOf(space, point);
  return fmt::format("{} {} {} {}", s.chip.name, s.topology, s.memory.name,
                     space.links[point.link].name);
}

// A point with what it is compared by; price and power are NaN where they are not stated.
struct Merit {
  size_t at = 0;
  double speed = 0, price = 0, power = 0;
};

struct Group {
  size_t points = 0;
  std::vector<Merit> fit;
};

// By workload and variant.
using Groups = std::map<std::pair<uint32_t, uint32_t>, Group>;

Groups GroupsOf(const Explored& e) {
  Groups groups;
  for (size_t i = 0; i < e.points.size(); ++i) {
    Group& group = groups[{e.points[i].workload, e.points[i].variant}];
    ++group.points;
    if (!e.results[i].feasible) continue;
    const dataflow::System system = SystemOf(e.space, e.points[i]);
    group.fit.push_back({i, SpeedOf(e.space, e.points[i], e.results[i]), PriceUsd(system).total(),
                         PowerWatt(system).total()});
  }
  return groups;
}

// The point with most of `merit`; none where it is not known of every point.
const Merit* Best(const Group& group, const std::function<double(const Merit&)>& merit) {
  const Merit* best = nullptr;
  for (const Merit& m : group.fit) {
    if (!std::isfinite(merit(m))) return nullptr;
    if (best == nullptr || merit(m) > merit(*best)) best = &m;
  }
  return best;
}

double Speed(const Merit& m) { return m.speed; }

void AddGroup(const Explored& e, const Group& group, const std::string& workload,
              const std::string& variant, TextTable& table) {
  const auto known = [](double value, double unit) {
    if (std::isnan(value)) return std::string("-");
    return value * unit >= 9999.5 ? fmt::format("{:.0f}", value * unit)
                                  : fmt::format("{:.4g}", value * unit);
  };
  const auto add = [&](std::string_view most, const Merit* m) {
    if (m == nullptr) return;
    const dataflow::PointResult& r = e.results[m->at];
    table.AddRow({workload, variant, std::string(most), NameOf(e.space, e.points[m->at]),
                  TimeText(r.iteration.ns(), 4), fmt::format("{:.2f}", 100 * r.utilisation),
                  known(m->price, 1e-6), known(m->power, 1e-3)});
  };
  if (group.fit.empty()) {
    table.AddRow(
        {workload, variant, "", fmt::format("none of {} fits", group.points), "-", "-", "-", "-"});
    return;
  }
  add("speed", Best(group, Speed));
  add("speed / $", Best(group, [](const Merit& m) { return m.speed / m.price; }));
  add("speed / W", Best(group, [](const Merit& m) { return m.speed / m.power; }));
  add("of peak", Best(group, [&](const Merit& m) { return e.results[m.at].utilisation; }));
}

// The fastest system of each workload.
std::string Verdict(const Explored& e, const Groups& groups) {
  std::map<uint32_t, Group> of_workload;
  for (const auto& [key, group] : groups) {
    std::vector<Merit>& fit = of_workload[key.first].fit;
    fit.insert(fit.end(), group.fit.begin(), group.fit.end());
  }
  std::string text;
  for (const auto& [workload, group] : of_workload) {
    const Merit* best = Best(group, Speed);
    if (best == nullptr) continue;
    const dataflow::PointResult& r = e.results[best->at];
    text += fmt::format(
        "{}{} is fastest on {} ({}): {} an iteration, {:.2f} % of peak",
        text.empty() ? "Verdict: " : "; ", e.space.workloads[workload].workload.name,
        NameOf(e.space, e.points[best->at]), e.space.variants[e.points[best->at].variant].name,
        TimeText(r.iteration.ns(), 4), 100 * r.utilisation);
  }
  return text + "\n";
}

}  // namespace

std::string ExploredText(const Explored& e, const std::string& folder, TextStyle style) {
  using Align = TextTable::Align;
  TextTable table({{"workload", Align::kLeft},
                   {"variant", Align::kLeft},
                   {"most", Align::kLeft},
                   {"on", Align::kLeft, true},
                   {"iteration"},
                   {"peak %"},
                   {"M$"},
                   {"kW"}});
  const Groups groups = GroupsOf(e);
  for (const auto& [key, group] : groups) {
    AddGroup(e, group, e.space.workloads[key.first].workload.name,
             e.space.variants[key.second].name, table);
  }
  std::string text = Verdict(e, groups);
  if (const auto missing = NotStatedIn(e.space, e.points); !missing.empty()) {
    text += fmt::format(
        "Note: prices or powers are not known where these have none in their files: {}\n",
        fmt::join(missing, ", "));
  }
  return fmt::format(
      "{}{}\n{}{} of {} points fit; points.csv, points.json and index.html are in {}\n", text,
      e.space.name, table.Format(style), e.feasible, e.points.size(), folder);
}

}  // namespace foretrace
