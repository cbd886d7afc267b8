#pragma once
// Fits the lookup model to measured times.

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/calibrate/embedding/embedding_rows.h"

namespace foretrace {

struct TimedLookup {
  LookupSample sample;
  double time_us = 0;
};

struct EmbeddingFitOptions {
  uint64_t seed = 1;
  bool with_residual = true;
};

// Lookups of one kind of kernels and one pass. Parameters are those that are most likely given the
// times and what is known without them: `prior`, with the spreads of EmbeddingPriorSpread. So a few
// kernels move what they say something about and leave the rest where it was, and many determine
// all; `informed` of the result says how much of each is theirs. Times count with a spread of 10 %,
// outliers less. From kResidualPoints lookups on, boosted trees learn what is left of log time, and
// are kept when a third of the lookups that took no part gets better by them.
// Errors: no lookups.
absl::StatusOr<EmbeddingModel> FitEmbeddingModel(const GpuPeaks& device, LookupPass pass,
                                                 std::span<const TimedLookup> lookups,
                                                 const EmbeddingParameters& prior,
                                                 const EmbeddingFitOptions& options);
inline constexpr size_t kResidualPoints = 200;

// Spread, in log, of what is known of a parameter without measurements on the platform. Efficiency
// of DRAM for scattered rows lies between 0.5 and 0.9 on published GPUs; a warp's step is a load
// from memory, 0.3 to 0.8 us with misses of the TLB; rates of L2 and the costs of launching kernels
// and sorting differ more. 0: the parameter has no part in the pass.
double EmbeddingPriorSpread(size_t parameter, LookupPass pass);

// What a model says of a sample.
double PredictUs(const EmbeddingModel& model, const GpuPeaks& device, const LookupSample& sample,
                 const EmbeddingTraffic& traffic);

}  // namespace foretrace
