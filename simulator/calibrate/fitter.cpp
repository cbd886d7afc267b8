#include "simulator/calibrate/fitter.h"

#include <cmath>
#include <map>

namespace foretrace {

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
