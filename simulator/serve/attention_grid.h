#pragma once
// Measured attention of one layer: a prefill chunk over what is cached, together with decodes.

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "simulator/serve/interpolation.h"
#include "simulator/serve/measured_grid.h"
#include "simulator/serve/step_model.h"

namespace foretrace::serve {

// How much more a decode batch of unequal lengths takes than one of equal lengths with the same sum
// (0) and how far that is towards all having the longest (1).
struct SkewRow {
  double prefill = 0;  // tokens of the chunk in the same step
  double decodes = 0;
  double alpha = 0;
};

class AttentionGrid {
 public:
  // A chunk of `chunk` tokens over `cached` ones, and `decodes` sequences with `each` cached; zeros
  // where there is no chunk or no decode.
  void Add(double chunk, double cached, double decodes, double each, double us);
  // Of unequal lengths; rows without a chunk are of steps without one.
  void SetSkew(const std::vector<SkewRow>& rows);
  // After the last Add. Errors say what is wrong, not where.
  absl::Status Finish();

  // Several chunks count as one of as many tokens over a cache for which queries times keys are the
  // same; with less to do than even an empty cache gives one chunk, along the line of the cache's
  // length, since the kernel's blocks walk over keys.
  Interpolated At(const StepBatch& batch) const;

 private:
  Interpolated Of(double chunk, double cached, double decodes, double each) const;
  double SkewOf(const StepBatch& batch) const;

  MeasuredGrid prefill_;  // chunk, cached
  MeasuredGrid decode_;   // decodes, cached of each
  MeasuredGrid mixed_;    // all four
  // Median alpha by tokens of the chunk and number of decodes, as measured.
  using ByDecodes = std::map<double, double>;
  std::map<double, ByDecodes> alpha_;
  ByDecodes pure_alpha_;  // without a chunk
};

}  // namespace foretrace::serve
