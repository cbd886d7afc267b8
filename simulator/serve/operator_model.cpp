#include "simulator/serve/operator_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/operator_features.h"

namespace foretrace::serve {
namespace {

constexpr size_t kFewestRows = 200, kFewestGroups = 4;

// What trees read of a row: its sizes, what bounds each kernel, and their time.
std::vector<float> InputsOf(const OperatorFeatures& of, const OperatorRates& rates) {
  std::vector<float> values = of.sizes;
  for (const OperatorWork& work : of.kernels) {
    for (const auto& [amount, per_ms] :
         {std::pair(work.bytes.count(), rates.bytes_per_ms),
          std::pair(work.flop.count(), rates.flop_per_ms),
          std::pair(work.steps, rates.steps_per_ms), std::pair(work.blocks, rates.blocks_per_ms)}) {
      values.push_back(
          static_cast<float>(std::log2(std::max(amount / std::max(per_ms, 1e-30), 1e-9))));
    }
  }
  values.push_back(static_cast<float>(std::log2(rates.Overlapped(of.kernels).ms())));
  return values;
}

// Rows of one family, what is to be learnt of each, and which of them count.
class Lesson {
 public:
  Lesson(std::span<const OperatorRow* const> rows, const OperatorRates& rates, ExpertLoads& loads) {
    for (const OperatorRow* row : rows) {
      const OperatorFeatures features = FeaturesOf(row->sizes, row->work, loads);
      const std::vector<float> values = InputsOf(features, rates);
      count_ = values.size();
      features_.insert(features_.end(), values.begin(), values.end());
      targets_.push_back(
          static_cast<float>(std::log(row->time / rates.Overlapped(features.kernels))));
    }
  }
  size_t size() const { return targets_.size(); }
  float target(size_t i) const { return targets_[i]; }
  std::span<const float> features(size_t i) const {
    return std::span(features_).subspan(i * count_, count_);
  }

  // From the rows that `counts` says; what is to be added to the logarithm of the work's time.
  absl::StatusOr<LearntResidual> Learn(const ResidualTrainer& trainer,
                                       const std::vector<bool>& counts, bool rough) const {
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
                               trainer(features, static_cast<int>(count_), targets, rough));
    return LearntResidual([learnt = std::move(learnt), middle](std::span<const float> x) {
      return middle + learnt(x);
    });
  }

 private:
  size_t count_ = 0;
  std::vector<float> features_, targets_;
};

// Rows of a family in parts, each of which is judged by a model of the others.
class Parts {
 public:
  static constexpr size_t kCount = 4;

  // Of experts, whose kernels are tuned for each line, by models, so that each is judged by others.
  explicit Parts(std::span<const OperatorRow* const> rows)
      : rows_(rows), tuned_(!rows.front()->siblings.empty()) {
    std::map<std::string, size_t> groups;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t group =
          tuned_ ? groups.emplace(rows[i]->siblings, groups.size()).first->second : i;
      of_.push_back(group % kCount);
    }
    count_ = tuned_ ? groups.size() : rows.size();
  }
  bool enough() const { return count_ >= kFewestGroups; }
  size_t of(size_t row) const { return of_[row]; }

  // Rows that are not far slower than expected, nor of a line most of which is. `slower`:
  // logarithms.
  std::vector<bool> Ordinary(const std::vector<double>& slower) const {
    constexpr double kSlowLine = 0.25, kSlowRow = 0.5;
    std::map<std::string, std::vector<double>> lines;
    for (size_t i = 0; tuned_ && i < rows_.size(); ++i) lines[LineOf(i)].push_back(slower[i]);
    std::map<std::string, bool> slow;
    for (auto& [line, values] : lines) slow[line] = Quantile(std::move(values), 0.5) > kSlowLine;
    std::vector<bool> ordinary(rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) {
      ordinary[i] = slower[i] < kSlowRow && !(tuned_ && slow[LineOf(i)]);
    }
    return ordinary;
  }

 private:
  const std::string& LineOf(size_t i) const { return rows_[i]->lines.front().key; }

  std::span<const OperatorRow* const> rows_;
  bool tuned_;
  size_t count_ = 0;
  std::vector<size_t> of_;
};

// Which rows are as others of their sizes are. What is slow would hide behind others that are, so
// that those found first are left out when the rest are judged again.
absl::StatusOr<std::vector<bool>> Ordinary(std::span<const OperatorRow* const> rows,
                                           const Lesson& lesson, const ResidualTrainer& trainer) {
  constexpr int kRounds = 2;
  const Parts parts(rows);
  std::vector<bool> ordinary(rows.size(), true);
  for (int round = 0; parts.enough() && round < kRounds; ++round) {
    std::vector<double> slower(rows.size());
    for (size_t part = 0; part < Parts::kCount; ++part) {
      std::vector<bool> others = ordinary;
      for (size_t i = 0; i < rows.size(); ++i) others[i] = others[i] && parts.of(i) != part;
      FORETRACE_ASSIGN_OR_RETURN(const LearntResidual rough, lesson.Learn(trainer, others, true));
      for (size_t i = 0; i < rows.size(); ++i) {
        if (parts.of(i) == part) slower[i] = lesson.target(i) - rough(lesson.features(i));
      }
    }
    ordinary = parts.Ordinary(slower);
  }
  return ordinary;
}

}  // namespace

absl::StatusOr<OperatorModel> OperatorModel::Fit(const std::vector<OperatorRow>& rows,
                                                 const ResidualTrainer& trainer) {
  std::map<std::string, std::vector<const OperatorRow*>> families;
  for (const OperatorRow& row : rows) families[row.family].push_back(&row);
  OperatorModel model;
  for (const auto& [name, of] : families) {
    if (of.size() < kFewestRows) continue;
    std::vector<MeasuredWork> measured;
    for (const OperatorRow* row : of) measured.push_back({row->work, row->time});
    const OperatorRates rates = RatesOf(measured);
    const Lesson lesson(of, rates, model.loads_);
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<bool> ordinary, Ordinary(of, lesson, trainer));
    FORETRACE_ASSIGN_OR_RETURN(LearntResidual learnt, lesson.Learn(trainer, ordinary, false));
    model.families_.emplace(name, Family{rates, std::move(learnt)});
  }
  return model;
}

std::optional<OperatorModel::Times> OperatorModel::TimesOf(const OperatorRow& row) {
  const auto at = families_.find(row.family);
  if (at == families_.end()) return std::nullopt;
  const auto& [rates, residual] = at->second;
  const OperatorFeatures features = FeaturesOf(row.sizes, row.work, loads_);
  const RealMs work = rates.Overlapped(features.kernels);
  return Times{work * std::exp(residual(InputsOf(features, rates))), work};
}

}  // namespace foretrace::serve
