#include "simulator/calibrate/fitter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "simulator/base/error.h"

namespace foretrace {

absl::Status CheckHoldOutRule(const Fitter& fitter, std::string_view rule) {
  const std::vector<std::string_view> rules = fitter.HoldOutRules();
  if (std::ranges::find(rules, rule) != rules.end()) return absl::OkStatus();
  return InvalidInput("unknown hold-out rule '{}'; calibrate {} has {}", rule, fitter.kind(),
                      fmt::join(rules, ", "));
}

absl::Status CheckForm(const Fitter& fitter, std::string_view form) {
  const std::vector<std::string_view> forms = fitter.Forms();
  if (form.empty() || std::ranges::find(forms, form) != forms.end()) return absl::OkStatus();
  return InvalidInput("unknown form '{}'; calibrate {} has {}", form, fitter.kind(),
                      fmt::join(forms, ", "));
}

std::vector<ModelErrors> SummarizeByModel(std::span<const EvaluatedRow> rows) {
  struct Errors {
    std::vector<double> values;
    size_t extrapolated = 0;
    void Add(const EvaluatedRow& row) {
      values.push_back(row.predicted_us / row.row->time_us - 1);
      extrapolated += row.extrapolated ? 1 : 0;
    }
    ModelErrors Summary(const std::string& name) const {
      std::vector<double> percent;
      for (double value : values) percent.push_back(100 * std::abs(value));
      return {name, SummarizeErrors(values), Quantile(percent, 0.5), Quantile(percent, 0.9),
              extrapolated};
    }
  };
  std::map<std::string, Errors> by_model;
  Errors all;
  for (const EvaluatedRow& row : rows) {
    by_model[row.model].Add(row);
    all.Add(row);
  }
  std::vector<ModelErrors> summaries;
  for (const auto& [name, errors] : by_model) {
    summaries.push_back(errors.Summary(name));
  }
  summaries.push_back(all.Summary("all"));
  return summaries;
}

}  // namespace foretrace
