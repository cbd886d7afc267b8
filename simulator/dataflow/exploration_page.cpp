#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "simulator/base/xml.h"
#include "simulator/dataflow/exploration.h"

namespace foretrace::dataflow {
namespace {

// Points of one workload and variant, with what the pictures show of them.
struct Cell {
  size_t at;
  std::string row, column;  // chip and topology; memory and link
  const PointResult* result;
  double speed = 0, price = 0, power = 0;  // FLOP/s, $, W; NaN: not known
};
using Group = std::vector<Cell>;

std::vector<std::string> Distinct(const Group& group, std::string Cell::*name) {
  std::vector<std::string> out;
  for (const Cell& c : group) {
    if (std::find(out.begin(), out.end(), c.*name) == out.end()) out.push_back(c.*name);
  }
  return out;
}

// White to dark blue.
std::string Shade(double share) {
  const auto mix = [&](int from, int to) {
    return static_cast<int>(std::lround(from + (to - from) * share));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(247, 8), mix(251, 69), mix(255, 148));
}

constexpr double kLeft = 190, kCellWidth = 92, kCellHeight = 22, kTop = 26;

std::string HeatMap(const Group& group, std::string_view title, double (*value)(const Cell&)) {
  const std::vector<std::string> rows = Distinct(group, &Cell::row),
                                 columns = Distinct(group, &Cell::column);
  double most = 0;
  for (const Cell& c : group) {
    if (c.result->feasible && value(c) > most) most = value(c);
  }
  std::string body;
  for (size_t x = 0; x < columns.size(); ++x) {
    body += fmt::format("<text x=\"{:.0f}\" y=\"18\" text-anchor=\"middle\">{}</text>",
                        kLeft + kCellWidth * (static_cast<double>(x) + 0.5), XmlText(columns[x]));
  }
  for (size_t y = 0; y < rows.size(); ++y) {
    body += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>", kLeft - 6,
                        kTop + kCellHeight * static_cast<double>(y) + 15, XmlText(rows[y]));
  }
  for (const Cell& c : group) {
    const auto x =
        static_cast<double>(std::find(columns.begin(), columns.end(), c.column) - columns.begin());
    const auto y = static_cast<double>(std::find(rows.begin(), rows.end(), c.row) - rows.begin());
    const bool known = c.result->feasible && !std::isnan(value(c));
    const double share = known && most > 0 ? value(c) / most : 0;
    const std::string text = !c.result->feasible ? "no fit"
                             : known             ? fmt::format("{:.3g}", value(c))
                                                 : "not known";
    body += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{3:.0f}\" fill=\"{4}\"/>"
        "<text x=\"{5:.0f}\" y=\"{6:.0f}\" text-anchor=\"middle\" fill=\"{7}\">{8}</text>",
        kLeft + kCellWidth * x, kTop + kCellHeight * y, kCellWidth - 1, kCellHeight - 1,
        known ? Shade(share) : "#eeeeee", kLeft + kCellWidth * (x + 0.5),
        kTop + kCellHeight * y + 15, share > 0.55 ? "#ffffff" : "#222222", text);
  }
  return fmt::format("<h3>{}</h3><svg width=\"{:.0f}\" height=\"{:.0f}\">{}</svg>\n", title,
                     kLeft + kCellWidth * static_cast<double>(columns.size()) + 4,
                     kTop + kCellHeight * static_cast<double>(rows.size()) + 4, body);
}

// Shares of compute, memory and network, a bar a point.
std::string Breakdown(const Group& group) {
  constexpr double kWidth = 420, kBar = 15;
  std::string body;
  double y = 0;
  for (const Cell& c : group) {
    if (!c.result->feasible) continue;
    const std::array<double, 3> parts = {c.result->compute.ns(), c.result->memory.ns(),
                                         c.result->network.ns()};
    const double all = parts[0] + parts[1] + parts[2];
    constexpr std::array<std::string_view, 3> kColours = {"#3a9a4b", "#d1495b", "#2e6fbb"};
    double x = 330;
    body += fmt::format("<text x=\"{}\" y=\"{:.0f}\" text-anchor=\"end\">{}, {}</text>", x - 6,
                        y + 11, XmlText(c.row), XmlText(c.column));
    for (size_t i = 0; i < parts.size(); ++i) {
      const double width = all > 0 ? kWidth * parts[i] / all : 0;
      body += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>", x, y,
          width, kBar - 2, kColours[i]);
      x += width;
    }
    body += fmt::format("<text x=\"756\" y=\"{:.0f}\">{:.4g} ms</text>", y + 11,
                        c.result->iteration.ns() * 1e-6);
    y += kBar;
  }
  return fmt::format(
      "<h3>Time of a pass: <b style=\"color:#3a9a4b\">compute</b>, <b "
      "style=\"color:#d1495b\">memory</b>, "
      "<b style=\"color:#2e6fbb\">network</b>; iteration</h3><svg width=\"860\" "
      "height=\"{:.0f}\">{}</svg>\n",
      y + 4, body);
}

// Speed over price, both on logarithmic axes; filled: on the front.
std::string Pareto(const Group& group, const std::vector<size_t>& front) {
  constexpr double kWidth = 620, kHeight = 300, kMargin = 50;
  double low_x = HUGE_VAL, high_x = 0, low_y = HUGE_VAL, high_y = 0;
  for (const Cell& c : group) {
    if (!c.result->feasible || !(c.price > 0)) continue;
    low_x = std::min(low_x, c.price), high_x = std::max(high_x, c.price);
    low_y = std::min(low_y, c.speed), high_y = std::max(high_y, c.speed);
  }
  if (!(high_x > 0)) return "";
  const auto place = [](double v, double low, double high) {
    return high > low ? std::log(v / low) / std::log(high / low) : 0.5;
  };
  std::string body = fmt::format(
      "<rect x=\"{0}\" y=\"{0}\" width=\"{1}\" height=\"{2}\" fill=\"none\" stroke=\"#999\"/>",
      kMargin, kWidth, kHeight);
  std::string names;
  for (const Cell& c : group) {
    if (!c.result->feasible || !(c.price > 0)) continue;
    const bool best = std::binary_search(front.begin(), front.end(), c.at);
    body += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"#2e6fbb\"><title>{}, {}: "
        "{:.4g} TFLOPS, {:.4g} $, {}</title></circle>",
        kMargin + kWidth * place(c.price, low_x, high_x),
        kMargin + kHeight * (1 - place(c.speed, low_y, high_y)), best ? "#2e6fbb" : "none",
        XmlText(c.row), XmlText(c.column), c.speed * 1e-12, c.price,
        std::isnan(c.power) ? "power not known" : fmt::format("{:.4g} W", c.power));
    if (best)
      names += fmt::format("<li>{}, {}: {:.4g} PFLOPS, {:.4g} M${}</li>", XmlText(c.row),
                           XmlText(c.column), c.speed * 1e-15, c.price * 1e-6,
                           std::isnan(c.power) ? "" : fmt::format(", {:.4g} kW", c.power * 1e-3));
  }
  body += fmt::format(
      "<text x=\"{}\" y=\"{}\">{:.3g} to {:.3g} $</text><text x=\"{}\" y=\"40\">{:.3g} to {:.3g} "
      "TFLOPS</text>",
      kMargin, kHeight + kMargin + 18, low_x, high_x, kMargin, low_y * 1e-12, high_y * 1e-12);
  return fmt::format(
      "<h3>Speed over price; filled where nothing is faster, cheaper and thriftier</h3><svg "
      "width=\"{}\" height=\"{}\">{}</svg><ul>{}</ul>\n",
      kWidth + 2 * kMargin, kHeight + 2 * kMargin, body, names);
}

}  // namespace

std::string ExplorationPage(const Space& space, std::span<const Point> points,
                            std::span<const PointResult> results) {
  std::map<std::pair<uint32_t, uint32_t>, Group> groups;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    const System system = SystemOf(space, p);
    Cell c{i, fmt::format("{} {}", system.chip.name, system.topology),
           fmt::format("{} {}", system.memory.name, space.links[p.link].name), &results[i]};
    c.speed = SpeedOf(space, p, results[i]);
    c.price = PriceUsd(system).total();
    c.power = PowerWatt(system).total();
    groups[{p.workload, p.variant}].push_back(std::move(c));
  }
  // Pictures of more points than that help nobody; tables have them all.
  constexpr size_t kMostDrawn = 2000;
  const std::vector<size_t> front = ParetoFront(space, points, results);
  std::string body;
  for (const auto& [key, group] : groups) {
    body += fmt::format("<h2>{}, {}</h2>\n", XmlText(space.workloads[key.first].workload.name),
                        XmlText(space.variants[key.second].name));
    const Group drawn(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(
                                                         std::min(group.size(), kMostDrawn)));
    if (drawn.size() < group.size())
      body += fmt::format("<p>The first {} of {} points.</p>", drawn.size(), group.size());
    body += HeatMap(drawn, "Utilisation", [](const Cell& c) { return c.result->utilisation; });
    body += HeatMap(drawn, "Cost efficiency, GFLOPS a dollar",
                    [](const Cell& c) { return c.price == 0 ? 0 : c.speed * 1e-9 / c.price; });
    body += HeatMap(drawn, "Power efficiency, GFLOPS a watt",
                    [](const Cell& c) { return c.power == 0 ? 0 : c.speed * 1e-9 / c.power; });
    body += Breakdown(drawn) + Pareto(drawn, front);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html><head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>body{{font:14px sans-serif;margin:24px}}"
      "svg text{{font-size:11px}}</style></head><body><h1>{0}</h1>\n{1}</body></html>\n",
      XmlText(space.name), body);
}

}  // namespace foretrace::dataflow
