#include "simulator/serve/operator_predictor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/base/statistics.h"

namespace foretrace::serve {
namespace {

// How much lines relative to the model count beside lines of times, which err apart.
constexpr double kRelative = 0.6;

}  // namespace

OperatorBase::OperatorBase(std::span<const OperatorRow> rows, OperatorModel model)
    : model_(std::move(model)) {
  absl::flat_hash_map<std::string, std::vector<MeasuredWork>> work;
  for (const OperatorRow& row : rows) work[row.kernels].push_back({row.work, row.time});
  for (const auto& [kernels, measured] : work) rates_[kernels] = RatesOf(measured);
}

OperatorBase::Time OperatorBase::Of(const OperatorRow& row) {
  if (const auto times = model_.TimesOf(row)) return {times->time.ms(), true, times->work.ms()};
  const auto at = rates_.find(row.kernels);
  return {at == rates_.end() ? 0 : at->second.InSequence(row.work).ms()};
}

double OperatorBase::Factor(const OperatorRow& row, const OperatorScale& scale) const {
  const auto at = rates_.find(row.kernels);
  if (at == rates_.end()) return 1;
  OperatorRates rates = at->second;
  rates.bytes_per_ms *= scale.bandwidth;
  rates.flop_per_ms *= scale.compute(row.precision);
  return rates.InSequence(row.work) / at->second.InSequence(row.work);
}

bool OperatorBase::BoundByMemory(const OperatorRow& row, const OperatorScale& scale) const {
  const auto at = rates_.find(row.kernels);
  if (at == rates_.end()) return false;
  const double memory = row.work.bytes.count() / (at->second.bytes_per_ms * scale.bandwidth);
  return memory >= row.work.flop.count() / (at->second.flop_per_ms * scale.compute(row.precision));
}

OperatorPredictor::OperatorPredictor(const std::vector<OperatorRow>& known, bool exact,
                                     const OperatorScale& scale, OperatorModel model)
    : exact_(exact),
      scale_(scale),
      lines_(LinesOf(known)),
      siblings_(known, lines_),
      base_(exact ? std::span(known) : std::span<const OperatorRow>(), std::move(model)) {
  if (!exact) return;
  for (const OperatorRow& row : known) {
    const OperatorBase::Time base = base_.Of(row);
    if (base.ms <= 0) continue;
    const double relative = row.time.ms() / base.ms;
    for (const OperatorLine& line : row.across) across_[line.key][line.x] = relative;
    if (!base.by_model) continue;
    if (!row.bends) {
      for (const OperatorLine& line : row.across) {
        work_[line.key][line.x] = row.time.ms() / base.work_ms;
      }
    }
    for (const OperatorLine& line : row.lines) relative_[line.key][line.x] = relative;
  }
}

bool OperatorPredictor::Correct(const std::vector<OperatorRow>& few) {
  std::map<std::string, Misses> misses;
  for (const OperatorRow& row : few) {
    const auto predicted = Predict(row);
    if (!predicted) continue;
    Misses& same = misses[row.precision];
    const double log = std::log(row.time.ms() / predicted->ms);
    same.all.push_back(log);
    same.bound[base_.BoundByMemory(row, scale_) ? 1 : 0].push_back(log);
  }
  misses_ = std::move(misses);
  return !misses_.empty();
}

std::optional<PredictedOperator> OperatorPredictor::Predict(const OperatorRow& row) {
  auto here = HereMs(row);
  if (here) here->ms *= base_.Factor(row, scale_) * Correction(row);
  return here;
}

// On the rows' own device.
std::optional<PredictedOperator> OperatorPredictor::HereMs(const OperatorRow& row) {
  if (exact_) {
    if (const auto measured = Measured(row, lines_)) return PredictedOperator{*measured};
  }
  const OperatorBase::Time base = exact_ ? base_.Of(row) : OperatorBase::Time();
  if (const auto ms = Between(row, lines_)) {
    const double corrected = *ms * siblings_.Correction(row);
    if (!base.by_model || !row.bends) return PredictedOperator{corrected};
    const double relative = *Between(row, relative_) * base.ms;
    return PredictedOperator{std::pow(corrected, 1 - kRelative) * std::pow(relative, kRelative)};
  }
  if (base.ms <= 0) return std::nullopt;
  if (const auto ms = AcrossMs(row, base.ms)) return PredictedOperator{*ms};
  if (!base.by_model) return std::nullopt;
  const auto beyond = row.bends ? std::nullopt : BeyondMs(row, base.work_ms);
  return PredictedOperator{beyond.value_or(base.ms), true};
}

// Where lines end before the row, their ends go on with the work.
std::optional<double> OperatorPredictor::BeyondMs(const OperatorRow& row, double work_ms) const {
  double sum = 0;
  int count = 0;
  for (const OperatorLine& line : row.across) {
    const auto points = work_.find(line.key);
    if (points == work_.end() || line.x < points->second.rbegin()->first) continue;
    sum += std::log(points->second.rbegin()->second);
    ++count;
  }
  return count > 0 ? std::optional(std::exp(sum / count) * work_ms) : std::nullopt;
}

// Where lines differ much, the fastest: tuning that fails on one of them makes all of it slow.
std::optional<double> OperatorPredictor::AcrossMs(const OperatorRow& row, double base_ms) const {
  constexpr double kAlike = 1.5;
  std::vector<double> logs;
  for (const OperatorLine& line : row.across) {
    const auto points = across_.find(line.key);
    if (points == across_.end()) continue;
    if (const auto ratio = FromOthers(points->second, line)) logs.push_back(std::log(*ratio));
  }
  if (logs.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(logs);
  double sum = 0;
  for (const double log : logs) sum += log;
  const double log =
      most - least > std::log(kAlike) ? least : sum / static_cast<double>(logs.size());
  return std::exp(log) * base_ms;
}

double OperatorPredictor::Correction(const OperatorRow& row) const {
  constexpr size_t kFewest = 5;
  const auto at = misses_.find(row.precision);
  if (at == misses_.end()) return 1;
  const auto& own = at->second.bound[base_.BoundByMemory(row, scale_) ? 1 : 0];
  return std::exp(Quantile(own.size() < kFewest ? at->second.all : own, 0.5));
}

}  // namespace foretrace::serve
