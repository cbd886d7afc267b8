#include "simulator/calibrate/fitter.h"

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
  };
  std::map<std::string, Errors> by_model;
  Errors all;
  for (const EvaluatedRow& row : rows) {
    by_model[row.model].Add(row);
    all.Add(row);
  }
  std::vector<ModelErrors> summaries;
  for (const auto& [name, errors] : by_model) {
    summaries.push_back({name, SummarizeErrors(errors.values), errors.extrapolated});
  }
  summaries.push_back({"all", SummarizeErrors(all.values), all.extrapolated});
  return summaries;
}

}  // namespace foretrace
