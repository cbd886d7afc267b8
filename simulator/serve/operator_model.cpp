#include "simulator/serve/operator_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

constexpr size_t kFewestRows = 200, kFewestGroups = 4;
constexpr int kTrees = 300, kRoughTrees = 100;

// What trees read of a row: its sizes, what bounds each kernel, and their time.
std::vector<float> FeaturesOf(const OperatorFeatures& of, const OperatorRates& rates) {
  std::vector<float> values = of.sizes;
  for (const OperatorWork& work : of.kernels) {
    for (const auto& [amount, per_ms] : {std::pair(work.bytes.count(), rates.bytes_per_ms),
                                         std::pair(work.flop.count(), rates.flop_per_ms),
                                         std::pair(work.steps, rates.steps_per_ms)}) {
      values.push_back(
          static_cast<float>(std::log2(std::max(amount / std::max(per_ms, 1e-30), 1e-9))));
    }
  }
  values.push_back(static_cast<float>(std::log2(TimeOf(of, rates).ms())));
  return values;
}

// Rows of one family, what is to be learnt of each, and which of them count.
class Lesson {
 public:
  Lesson(std::span<const OperatorRow* const> rows, const OperatorRates& rates) {
    for (const OperatorRow* row : rows) {
      const std::vector<float> values = FeaturesOf(row->features, rates);
      count_ = values.size();
      features_.insert(features_.end(), values.begin(), values.end());
      targets_.push_back(
          static_cast<float>(std::log(row->time.ms() / TimeOf(row->features, rates).ms())));
    }
  }
  size_t size() const { return targets_.size(); }
  float target(size_t i) const { return targets_[i]; }
  std::span<const float> features(size_t i) const {
    return std::span(features_).subspan(i * count_, count_);
  }

  // From the rows that `counts` says; what is to be added to the logarithm of the work's time.
  absl::StatusOr<LearntResidual> Learn(const ResidualTrainer& trainer,
                                       const std::vector<bool>& counts, int trees) const {
    std::vector<float> features, targets;
    std::vector<double> values;
    for (size_t i = 0; i < size(); ++i) {
      if (!counts[i]) continue;
      features.insert(features.end(), this->features(i).begin(), this->features(i).end());
      targets.push_back(targets_[i]);
      values.push_back(targets_[i]);
    }
    // Trees start at 0.
    const auto middle = static_cast<float>(Quantile(std::move(values), 0.5));
    for (float& target : targets) target -= middle;
    FORETRACE_ASSIGN_OR_RETURN(LearntResidual learnt,
                               trainer(features, static_cast<int>(count_), targets, trees));
    return LearntResidual([learnt = std::move(learnt), middle](std::span<const float> x) {
      return middle + learnt(x);
    });
  }

 private:
  size_t count_ = 0;
  std::vector<float> features_, targets_;
};

// Which rows are as others of their sizes are: neither they nor, of experts, whose kernels are
// tuned for each line, most of their line are far slower than other models' rows say.
absl::StatusOr<std::vector<bool>> Ordinary(std::span<const OperatorRow* const> rows,
                                           const Lesson& lesson, const ResidualTrainer& trainer) {
  constexpr size_t kParts = 4;
  constexpr double kSlowLine = 0.25, kSlowRow = 0.5;  // logarithms; a line's median
  std::vector<bool> ordinary(rows.size(), true);
  const bool tuned = !rows.front()->siblings.empty();
  std::map<std::string, size_t> groups;
  for (const OperatorRow* row : rows) {
    if (tuned) groups.emplace(row->siblings, groups.size());
  }
  if (tuned && groups.size() < kFewestGroups) return ordinary;
  std::vector<double> slower(rows.size());
  for (size_t part = 0; part < kParts; ++part) {
    std::vector<bool> others(rows.size());
    const auto is_of_part = [&](size_t i) {
      return (tuned ? groups[rows[i]->siblings] : i) % kParts == part;
    };
    for (size_t i = 0; i < rows.size(); ++i) others[i] = !is_of_part(i);
    FORETRACE_ASSIGN_OR_RETURN(const LearntResidual rough,
                               lesson.Learn(trainer, others, kRoughTrees));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (is_of_part(i)) slower[i] = lesson.target(i) - rough(lesson.features(i));
    }
  }
  std::map<std::string, std::vector<double>> lines;
  for (size_t i = 0; i < rows.size(); ++i) {
    lines[rows[i]->lines.front().key].push_back(slower[i]);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool slow_line = tuned && Quantile(lines[rows[i]->lines.front().key], 0.5) > kSlowLine;
    ordinary[i] = !slow_line && slower[i] < kSlowRow;
  }
  return ordinary;
}

}  // namespace

absl::StatusOr<OperatorModel> OperatorModel::Fit(const std::vector<OperatorRow>& rows,
                                                 const ResidualTrainer& trainer) {
  std::map<std::string, std::vector<const OperatorRow*>> families;
  for (const OperatorRow& row : rows) {
    if (!row.features.kernels.empty()) families[row.family].push_back(&row);
  }
  OperatorModel model;
  for (const auto& [name, of] : families) {
    if (of.size() < kFewestRows) continue;
    std::vector<MeasuredWork> measured;
    for (const OperatorRow* row : of) measured.push_back({row->work, row->time});
    const OperatorRates rates = RatesOf(measured);
    const Lesson lesson(of, rates);
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<bool> ordinary, Ordinary(of, lesson, trainer));
    FORETRACE_ASSIGN_OR_RETURN(LearntResidual learnt, lesson.Learn(trainer, ordinary, kTrees));
    model.families_.emplace(name, Family{rates, std::move(learnt)});
  }
  return model;
}

std::optional<RealMs> OperatorModel::TimeOf(const OperatorRow& row) const {
  const auto at = families_.find(row.family);
  if (at == families_.end() || row.features.kernels.empty()) return std::nullopt;
  const auto& [rates, residual] = at->second;
  return serve::TimeOf(row.features, rates) * std::exp(residual(FeaturesOf(row.features, rates)));
}

}  // namespace foretrace::serve
