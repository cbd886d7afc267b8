#include "simulator/calibrate/power/power_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/local_search.h"

namespace foretrace {
namespace {

constexpr double kMostError = 0.4;  // of a logarithm; more counts as this
constexpr int kFolds = 5;

// Idle, gap in us, busy, pJ a FLOP, a byte of memory, a byte of the cache.
constexpr size_t kParameters = 6;
using Parameters = std::array<double, kParameters>;
constexpr Parameters kStart = {100, 20, 20, 0.5, 80, 50};
constexpr Parameters kStep = {20, 15, 20, 0.25, 50, 40};

PowerRates RatesOf(const Parameters& p) { return {p[2], p[3], p[4], p[5]}; }

struct Width {
  std::vector<const PowerRow*> rows;
  double limit = 0;
  std::set<int64_t> gaps;

  double Watts(const Parameters& p, const PowerRow& row, bool gaps_between) const {
    const double running = std::min(limit, p[0] + RatesOf(p).Watts(row.activity));
    const double share = gaps_between ? row.time.us() / (row.time.us() + p[1]) : 1.0;
    return p[0] + (running - p[0]) * share;
  }
  double Error(const Parameters& p, const PowerRow& row, bool gaps_between) const {
    return std::min(kMostError, std::abs(std::log(Watts(p, row, gaps_between) / row.watts)));
  }
};

// The objective is neither smooth nor convex, and has six parameters.
template <typename Cost>
Parameters Descend(const Parameters& start, bool fixed_idle, const Cost& cost) {
  const auto move = [&](Parameters p, size_t i, double by) {
    const size_t which = fixed_idle ? i + 1 : i;
    p[which] = std::max(which == 0 ? 1.0 : 0.0, p[which] + by * kStep[which]);
    return p;
  };
  return DescendByCoordinate(start, fixed_idle ? kParameters - 1 : kParameters, {.shrink = 0.7},
                             move, cost);
}

// First each row in the way that fits it better, then each series in the way of most of its rows.
Parameters Fit(Width& width, Parameters start, bool fixed_idle) {
  const auto free = [&](const Parameters& p) {
    double sum = 0;
    for (const PowerRow* row : width.rows) {
      sum += std::min(width.Error(p, *row, false), width.Error(p, *row, true));
    }
    return sum;
  };
  const Parameters first = Descend(start, fixed_idle, free);
  std::map<int64_t, double> better;  // by how much gaps fit better, of a series
  for (const PowerRow* row : width.rows) {
    better[row->series] += width.Error(first, *row, false) - width.Error(first, *row, true);
  }
  for (const auto& [series, by] : better) {
    if (by > 0) width.gaps.insert(series);
  }
  return Descend(first, fixed_idle, [&](const Parameters& p) {
    double sum = 0;
    for (const PowerRow* row : width.rows) {
      sum += width.Error(p, *row, width.gaps.contains(row->series));
    }
    return sum;
  });
}

}  // namespace

bool PowerFit::HasGaps(const PowerRow& row) const {
  return (row.narrow ? gaps_narrow : gaps_wide).contains(row.series);
}

double PowerFit::Predict(const PowerRow& row) const {
  const double running = model.Watts(row.narrow ? model.narrow : model.wide, row.activity);
  if (!HasGaps(row)) return running;
  const double gap = (row.narrow ? gap_narrow : gap_wide).us();
  return model.idle_w + (running - model.idle_w) * row.time.us() / (row.time.us() + gap);
}

absl::StatusOr<PowerFit> FitPower(std::span<const PowerRow> rows, double limit_w) {
  Width wide, narrow;
  wide.limit = narrow.limit = limit_w;
  for (const PowerRow& row : rows) {
    if (!(row.watts > 0) || row.time <= SimTime()) {
      return InvalidInput("a row has no power or no time");
    }
    (row.narrow ? narrow : wide).rows.push_back(&row);
  }
  if (wide.rows.size() < kParameters) {
    return InvalidInput("{} rows of operands of 16 bits are too few for {} parameters",
                        wide.rows.size(), kParameters);
  }
  PowerFit fit;
  const Parameters w = Fit(wide, kStart, false);
  fit.model.idle_w = w[0];
  fit.model.limit_w = limit_w;
  fit.model.wide = RatesOf(w);
  fit.gap_wide = SimTime::FromUs(w[1]);
  fit.gaps_wide = std::move(wide.gaps);
  fit.model.narrow = fit.model.wide;
  if (narrow.rows.size() < kParameters) return fit;
  const Parameters n = Fit(narrow, w, true);
  fit.model.narrow = RatesOf(n);
  fit.gap_narrow = SimTime::FromUs(n[1]);
  fit.gaps_narrow = std::move(narrow.gaps);
  return fit;
}

void PowerErrors::Add(const PowerFit& fit, const PowerRow& row) {
  const double error = fit.Predict(row) / row.watts - 1;
  (fit.HasGaps(row) ? with_gaps : continuous).push_back(error);
  (row.narrow ? narrow : wide).push_back(error);
}

absl::StatusOr<PowerErrors> HoldOutPower(std::span<const PowerRow> rows, double limit_w) {
  std::set<int64_t> groups;
  for (const PowerRow& row : rows) groups.insert(row.group);
  if (groups.size() < kFolds) return InvalidInput("{} groups are too few", groups.size());
  std::map<int64_t, int> fold_of;
  int next = 0;
  for (const int64_t group : groups) fold_of[group] = next++ % kFolds;
  PowerErrors errors;
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<PowerRow> others;
    for (const PowerRow& row : rows) {
      if (fold_of[row.group] != fold) others.push_back(row);
    }
    FORETRACE_ASSIGN_OR_RETURN(const PowerFit fit, FitPower(others, limit_w));
    for (const PowerRow& row : rows) {
      if (fold_of[row.group] != fold) continue;
      errors.Add(fit, row);
    }
  }
  return errors;
}

}  // namespace foretrace
