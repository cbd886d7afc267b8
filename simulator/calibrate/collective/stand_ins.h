#pragma once
// Which measured sweeps answer where a sweep was not measured: of another release, or beyond its
// sizes.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/cost/collective/collective_calibration.h"

namespace foretrace {

// What answers for a sweep that was not fitted: the models of its own library and type, between
// numbers of ranks; else those of the nearest version of the library, else all. A release says
// more of the next one than another framework does, or another type of the same size.
class NearestStack {
 public:
  // `all` null: nothing is asked.
  NearestStack(const CollectiveCalibration* all, const CollectiveModel& key);
  const CollectiveEstimator& estimator() const { return estimator_; }
  // Whose times they are; empty: the library's own.
  const std::string& library() const { return library_; }

 private:
  bool Answer(const CalibrationHeader& header, std::vector<CollectiveModel> models,
              const CollectiveModel& key);

  std::unique_ptr<CollectiveCalibration> subset_;
  CollectiveEstimator estimator_;
  std::string library_;
};

// The time of `own` at a size; beyond its sizes as the sweep that goes on there and is most like
// it, scaled to meet it.
RealUs TimeOf(const std::vector<CollectiveModel>& models, const CollectiveModel& own, Bytes bytes);

}  // namespace foretrace
