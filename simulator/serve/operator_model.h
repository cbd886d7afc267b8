#pragma once
// Times of a table of operators as what their work takes at the table's own rates, and what sizes
// say beside that: for rows of models that it lacks, and for what lies between its rows.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/expert_load.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace::serve {

// From features of one row to what is to be added to the logarithm of its time.
using LearntResidual = std::function<float(std::span<const float>)>;
// Learns it: `features` has `count` values a row, `targets` one. Deterministic. `rough`: quickly,
// and whatever a few targets are that are far off.
using ResidualTrainer = std::function<absl::StatusOr<LearntResidual>(
    std::span<const float> features, int count, std::span<const float> targets, bool rough)>;

class OperatorModel {
 public:
  // Of each family with rows enough. Where tuning failed, all rows of a line are two to four times
  // as slow as others like them (aiconfigurator's experts): such lines, found by a model of the
  // others, are not learnt from. Errors: the trainer's.
  static absl::StatusOr<OperatorModel> Fit(const std::vector<OperatorRow>& rows,
                                           const ResidualTrainer& trainer);

  struct Times {
    RealMs time;
    RealMs work;  // what the work alone takes, without what sizes say beside it
  };
  // Nothing for families without a model. Remembers loads of experts, which are drawn.
  std::optional<Times> TimesOf(const OperatorRow& row);

 private:
  struct Family {
    OperatorRates rates;
    LearntResidual residual;
  };
  std::map<std::string, Family> families_;
  ExpertLoads loads_;
};

}  // namespace foretrace::serve
