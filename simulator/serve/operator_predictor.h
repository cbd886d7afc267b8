#pragma once
// Predicts rows of a table of operators from those of another: as measured, between their
// neighbours, along other sizes relative to the work, and beyond all by a model, where there is
// one.

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/serve/operator_lines.h"
#include "simulator/serve/operator_model.h"
#include "simulator/serve/operator_table.h"

namespace foretrace::serve {

// What times are relative to where lines do not say them: what a model says of a row, else what its
// work takes at the rates that its kernels reach.
class OperatorBase {
 public:
  OperatorBase(std::span<const OperatorRow> rows, OperatorModel model);

  // In ms; 0: neither is known.
  struct Time {
    double ms = 0;
    bool by_model = false;
    double work_ms = 0;  // of the work alone, where by a model
  };
  Time Of(const OperatorRow& row);
  // Of a row's time on a device with `scale` of what the rows' device has.
  double Factor(const OperatorRow& row, const OperatorScale& scale) const;
  bool BoundByMemory(const OperatorRow& row, const OperatorScale& scale) const;

 private:
  OperatorModel model_;
  absl::flat_hash_map<std::string, OperatorRates> rates_;
};

struct PredictedOperator {
  double ms = 0;
  bool beyond = false;  // by the model alone: between no others
};

class OperatorPredictor {
 public:
  // `exact`: what was measured counts for its very shape, and what lies between none on its own
  // lines is predicted; else every row from those of other groups alone.
  OperatorPredictor(const std::vector<OperatorRow>& known, bool exact, const OperatorScale& scale,
                    OperatorModel model = {});

  // What few measurements of the device leave of the predictions, in the median: of what is bound
  // by memory, of what is bound by arithmetic, and of all where either are too few. False: none of
  // them is predicted.
  bool Correct(const std::vector<OperatorRow>& few);
  std::optional<PredictedOperator> Predict(const OperatorRow& row);

 private:
  struct Misses {
    std::vector<double> all;
    std::array<std::vector<double>, 2> bound;  // by arithmetic, by memory
  };

  std::optional<PredictedOperator> HereMs(const OperatorRow& row);
  // `base_ms`: what it is relative to.
  std::optional<double> AcrossMs(const OperatorRow& row, double base_ms) const;
  std::optional<double> BeyondMs(const OperatorRow& row, double work_ms) const;
  double Correction(const OperatorRow& row) const;

  bool exact_;
  OperatorScale scale_;
  Lines lines_;
  Siblings siblings_;
  OperatorBase base_;
  Lines relative_;                        // along a row's own lines, to the model
  Lines across_;                          // along its other sizes, to the base
  Lines work_;                            // the same to the work, of rows whose lines do not bend
  std::map<std::string, Misses> misses_;  // by precision
};

}  // namespace foretrace::serve
