#include "simulator/planning/dataflow/exploration_text.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

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

Group GroupOf(const Explored& e, uint32_t workload, uint32_t variant) {
  Group group;
  for (size_t i = 0; i < e.points.size(); ++i) {
    if (e.points[i].workload != workload || e.points[i].variant != variant) continue;
    ++group.points;
    if (!e.results[i].feasible) continue;
    const dataflow::System system = SystemOf(e.space, e.points[i]);
    group.fit.push_back({i, SpeedOf(e.space, e.points[i], e.results[i]), PriceUsd(system).total(),
                         PowerWatt(system).total()});
  }
  return group;
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
    return std::isnan(value) ? std::string("-") : fmt::format("{:.4g}", value * unit);
  };
  const auto add = [&](std::string_view most, const Merit* m) {
    if (m == nullptr) return;
    const dataflow::PointResult& r = e.results[m->at];
    table.AddRow({workload, variant, std::string(most), NameOf(e.space, e.points[m->at]),
                  TimeText(r.iteration_ns, 4), fmt::format("{:.2f}", 100 * r.utilisation),
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
std::string Verdict(const Explored& e) {
  std::string text;
  for (uint32_t w = 0; w < e.space.workloads.size(); ++w) {
    Group all;
    for (uint32_t v = 0; v < e.space.variants.size(); ++v) {
      for (const Merit& m : GroupOf(e, w, v).fit) all.fit.push_back(m);
    }
    const Merit* best = Best(all, Speed);
    if (best == nullptr) continue;
    text += fmt::format(
        "{}{} is fastest on {} ({}): {} an iteration, {:.2f} % of peak",
        text.empty() ? "Verdict: " : "; ", e.space.workloads[w].workload.name,
        NameOf(e.space, e.points[best->at]), e.space.variants[e.points[best->at].variant].name,
        TimeText(e.results[best->at].iteration_ns, 4), 100 * e.results[best->at].utilisation);
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
  for (uint32_t w = 0; w < e.space.workloads.size(); ++w) {
    for (uint32_t v = 0; v < e.space.variants.size(); ++v) {
      const Group group = GroupOf(e, w, v);
      if (group.points == 0) continue;
      AddGroup(e, group, e.space.workloads[w].workload.name, e.space.variants[v].name, table);
    }
  }
  std::string text = Verdict(e);
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
