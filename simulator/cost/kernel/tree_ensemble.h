#pragma once
// Evaluates gradient-boosted trees that were trained elsewhere.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// A sum of complete binary trees of one depth, small enough to walk in a few hundred nanoseconds.
// Immutable and thread-safe.
class TreeEnsemble {
 public:
  static constexpr int kMaxDepth = 8;
  static constexpr int kMaxFeatures = 64;

  TreeEnsemble() = default;
  // Sizes as in proto/kernel_model.proto. Errors: sizes that do not agree, features out of range,
  // values that are not finite (an infinite threshold is fine).
  static absl::StatusOr<TreeEnsemble> Create(int depth, int feature_count,
                                             std::vector<uint8_t> features,
                                             std::vector<float> thresholds,
                                             std::vector<float> leaves);
  // Half of what both say. They have the same depth and features.
  static TreeEnsemble MeanOf(const TreeEnsemble& a, const TreeEnsemble& b);

  bool empty() const { return leaves_.empty(); }
  int depth() const { return depth_; }
  int feature_count() const { return feature_count_; }
  size_t tree_count() const { return depth_ == 0 ? 0 : leaves_.size() >> depth_; }
  std::span<const uint8_t> features() const { return features_; }
  std::span<const float> thresholds() const { return thresholds_; }
  std::span<const float> leaves() const { return leaves_; }

  // x has feature_count() values. 0 for an empty ensemble.
  float Evaluate(std::span<const float> x) const;

 private:
  int depth_ = 0;
  int feature_count_ = 0;
  std::vector<uint8_t> features_;
  std::vector<float> thresholds_;
  std::vector<float> leaves_;
};

}  // namespace foretrace
