#include "simulator/cost/kernel/tree_ensemble.h"

#include <cmath>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"

namespace foretrace {

absl::StatusOr<TreeEnsemble> TreeEnsemble::Create(int depth, int feature_count,
                                                  std::vector<uint8_t> features,
                                                  std::vector<float> thresholds,
                                                  std::vector<float> leaves) {
  if (depth < 1 || depth > kMaxDepth || feature_count < 1 || feature_count > kMaxFeatures) {
    return InvalidInput("tree ensemble of depth {} over {} features; at most {} and {}", depth,
                        feature_count, kMaxDepth, kMaxFeatures);
  }
  const size_t leaf_count = size_t{1} << depth;
  const size_t trees = leaves.size() / leaf_count;
  if (leaves.size() != trees * leaf_count || features.size() != trees * (leaf_count - 1) ||
      thresholds.size() != features.size()) {
    return InvalidInput(
        "tree ensemble has {} leaves, {} features and {} thresholds, which do not "
        "make complete trees of depth {}",
        leaves.size(), features.size(), thresholds.size(), depth);
  }
  for (uint8_t f : features) {
    if (f >= feature_count) return InvalidInput("tree ensemble refers to feature {}", f);
  }
  for (float t : thresholds) {
    if (std::isnan(t)) return InvalidInput("tree ensemble has a threshold that is not a number");
  }
  for (float v : leaves) {
    if (!std::isfinite(v)) return InvalidInput("tree ensemble has a leaf that is not finite");
  }
  TreeEnsemble ensemble;
  ensemble.depth_ = depth;
  ensemble.feature_count_ = feature_count;
  ensemble.features_ = std::move(features);
  ensemble.thresholds_ = std::move(thresholds);
  ensemble.leaves_ = std::move(leaves);
  return ensemble;
}

TreeEnsemble TreeEnsemble::MeanOf(const TreeEnsemble& a, const TreeEnsemble& b) {
  FORETRACE_CHECK(a.depth_ == b.depth_ && a.feature_count_ == b.feature_count_);
  TreeEnsemble mean = a;
  mean.features_.insert(mean.features_.end(), b.features_.begin(), b.features_.end());
  mean.thresholds_.insert(mean.thresholds_.end(), b.thresholds_.begin(), b.thresholds_.end());
  mean.leaves_.insert(mean.leaves_.end(), b.leaves_.begin(), b.leaves_.end());
  for (float& leaf : mean.leaves_) leaf *= 0.5f;
  return mean;
}

float TreeEnsemble::Evaluate(std::span<const float> x) const {
  if (empty()) return 0;
  FORETRACE_CHECK(x.size() == static_cast<size_t>(feature_count_));
  const size_t inner = (size_t{1} << depth_) - 1;
  const size_t trees = tree_count();
  // Four trees at a time: their walks are independent, so that their loads overlap.
  constexpr size_t kLanes = 4;
  float sum = 0;
  size_t tree = 0;
  for (; tree + kLanes <= trees; tree += kLanes) {
    const uint8_t* feature = features_.data() + tree * inner;
    const float* threshold = thresholds_.data() + tree * inner;
    size_t node[kLanes] = {};
    for (int level = 0; level < depth_; ++level) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const size_t at = lane * inner + node[lane];
        node[lane] = 2 * node[lane] + 1 + static_cast<size_t>(!(x[feature[at]] < threshold[at]));
      }
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum += leaves_[(tree + lane) * (inner + 1) + node[lane] - inner];
    }
  }
  for (; tree < trees; ++tree) {
    size_t node = 0;
    for (int level = 0; level < depth_; ++level) {
      const size_t at = tree * inner + node;
      node = 2 * node + 1 + static_cast<size_t>(!(x[features_[at]] < thresholds_[at]));
    }
    sum += leaves_[tree * (inner + 1) + node - inner];
  }
  return sum;
}

}  // namespace foretrace
