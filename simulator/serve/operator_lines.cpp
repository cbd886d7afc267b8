#include "simulator/serve/operator_lines.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "simulator/base/statistics.h"

namespace foretrace::serve {
namespace {

struct Weighted {
  double value = 0, weight = 0;
};

double MedianOf(std::vector<Weighted> values) {
  std::ranges::stable_sort(values, {}, &Weighted::value);
  double half = 0;
  for (const Weighted& v : values) half += v.weight / 2;
  double below = 0;
  for (const Weighted& v : values) {
    below += v.weight;
    if (below >= half) return v.value;
  }
  return values.back().value;
}

// By the inverse square of how many doublings lie between.
double WeightOf(const Division& a, const Division& b) {
  constexpr double kOtherDistribution = 0.5;
  const double away =
      1 + std::abs(std::log2(a.devices / b.devices)) + std::abs(std::log2(a.widths / b.widths));
  return (a.distribution == b.distribution ? 1 : kOtherDistribution) / (away * away);
}

}  // namespace

Lines LinesOf(const std::vector<OperatorRow>& rows) {
  Lines lines;
  for (const OperatorRow& row : rows) {
    for (const OperatorLine& line : row.lines) lines[line.key][line.x] = row.time.ms();
  }
  return lines;
}

std::optional<double> FromOthers(const Points& points, const OperatorLine& line) {
  if (line.along == Along::kAlike) {
    std::vector<double> others;
    for (const auto& [x, ms] : points) {
      if (x != line.x) others.push_back(ms);
    }
    return others.empty() ? std::nullopt : std::optional(Quantile(std::move(others), 0.5));
  }
  const auto from = points.lower_bound(line.x), to = points.upper_bound(line.x);
  if (from == points.begin() || to == points.end()) return std::nullopt;
  const auto& [a, below] = *std::prev(from);
  const auto& [b, above] = *to;
  if (line.along == Along::kLine) return below + (above - below) * (line.x - a) / (b - a);
  const double weight = std::log(line.x / a) / std::log(b / a);
  return below * std::pow(above / below, weight);
}

std::optional<double> Measured(const OperatorRow& row, const Lines& lines) {
  for (const OperatorLine& line : row.lines) {
    const auto points = lines.find(line.key);
    if (line.along == Along::kAlike || points == lines.end()) continue;
    const auto own = points->second.find(line.x);
    if (own != points->second.end()) return own->second;
  }
  return std::nullopt;
}

std::optional<double> Between(const OperatorRow& row, const Lines& lines) {
  double sum = 0;
  int count = 0;
  for (const OperatorLine& line : row.lines) {
    const auto points = lines.find(line.key);
    if (points == lines.end()) continue;
    const auto value = FromOthers(points->second, line);
    if (!value) continue;
    if (row.first_line_counts) return value;
    sum += *value;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

Siblings::Siblings(const std::vector<OperatorRow>& rows, const Lines& lines) {
  for (const OperatorRow& row : rows) {
    if (row.siblings.empty()) continue;
    const auto ms = Between(row, lines);
    if (ms) misses_[row.siblings].push_back({&row, std::log(*ms / row.time.ms())});
  }
}

double Siblings::Correction(const OperatorRow& row) const {
  constexpr size_t kFewest = 3;
  const auto at = misses_.find(row.siblings);
  if (row.siblings.empty() || at == misses_.end()) return 1;
  std::vector<Weighted> others;
  for (const auto& [sibling, miss] : at->second) {
    if (sibling->lines.front().key == row.lines.front().key) continue;
    others.push_back({miss, WeightOf(row.division, sibling->division)});
  }
  return others.size() < kFewest ? 1 : std::exp(-MedianOf(std::move(others)));
}

}  // namespace foretrace::serve
