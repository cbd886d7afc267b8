#include "simulator/calibrate/boosting.h"

#include <rapidjson/document.h>

#include <limits>
#include <string>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/xgboost_module.h"

namespace foretrace {
namespace {

// Copies the tree below `node` into a complete tree; where it is shallower than the complete one,
// every path leads left to copies of its leaf.
class TreeCopier {
 public:
  TreeCopier(const rapidjson::Value& tree, int depth, uint8_t* features, float* thresholds,
             float* leaves)
      : left_(tree["left_children"]),
        right_(tree["right_children"]),
        split_(tree["split_indices"]),
        value_(tree["split_conditions"]),
        depth_(depth),
        features_(features),
        thresholds_(thresholds),
        leaves_(leaves) {}

  void Copy(unsigned node, size_t at, int level) {
    const bool leaf = left_[node].GetInt() < 0;
    if (level == depth_) {
      leaves_[at - ((size_t{1} << depth_) - 1)] = value_[node].GetFloat();
      return;
    }
    features_[at] = leaf ? 0 : static_cast<uint8_t>(split_[node].GetInt());
    thresholds_[at] = leaf ? std::numeric_limits<float>::infinity() : value_[node].GetFloat();
    Copy(leaf ? node : left_[node].GetUint(), 2 * at + 1, level + 1);
    Copy(leaf ? node : right_[node].GetUint(), 2 * at + 2, level + 1);
  }

 private:
  const rapidjson::Value &left_, &right_, &split_, &value_;
  int depth_;
  uint8_t* features_;
  float *thresholds_, *leaves_;
};

absl::StatusOr<TreeEnsemble> TreesOf(const std::string& json, int feature_count, int depth) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  if (document.HasParseError()) return absl::InternalError("xgboost: its model is not JSON");
  const auto& trees = document["learner"]["gradient_booster"]["model"]["trees"];
  const size_t inner = (size_t{1} << depth) - 1, count = trees.Size();
  std::vector<uint8_t> features(count * inner);
  std::vector<float> thresholds(count * inner), leaves(count * (inner + 1));
  for (size_t t = 0; t < count; ++t) {
    TreeCopier(trees[static_cast<rapidjson::SizeType>(t)], depth, features.data() + t * inner,
               thresholds.data() + t * inner, leaves.data() + t * (inner + 1))
        .Copy(0, 0, 0);
  }
  return TreeEnsemble::Create(depth, feature_count, std::move(features), std::move(thresholds),
                              std::move(leaves));
}

}  // namespace

absl::StatusOr<TreeEnsemble> TrainBoostedTrees(std::span<const float> features, int feature_count,
                                               std::span<const float> targets,
                                               std::span<const float> weights,
                                               const BoostingOptions& options) {
  const size_t rows = targets.size();
  if (rows == 0 || features.size() != rows * static_cast<size_t>(feature_count) ||
      weights.size() != rows) {
    return InvalidInput("boosted trees: {} targets, {} weights and {} values do not agree", rows,
                        weights.size(), features.size());
  }
  FORETRACE_ASSIGN_OR_RETURN(void* const symbol, LoadModule("xgboost", kTrainWithXgboost));
  XgboostResult trained;
  reinterpret_cast<TrainWithXgboost*>(symbol)(
      {features,
       targets,
       weights,
       static_cast<size_t>(feature_count),
       options.trees,
       {{"objective", options.huber > 0 ? "reg:pseudohubererror" : "reg:squarederror"},
        {"huber_slope", fmt::format("{}", options.huber > 0 ? options.huber : 1.0)},
        {"colsample_bynode", fmt::format("{}", options.features_per_node)},
        {"subsample", fmt::format("{}", options.rows_per_tree)},
        {"seed", fmt::format("{}", options.seed)},
        {"tree_method", "hist"},
        {"nthread", "1"},
        {"verbosity", "0"},
        {"base_score", "0"},
        {"max_depth", fmt::format("{}", options.depth)},
        {"eta", fmt::format("{}", options.learning_rate)},
        {"min_child_weight", fmt::format("{}", options.min_child_weight)},
        {"lambda", fmt::format("{}", options.l2)}},
       options.progress},
      trained);
  if (!trained.error.empty()) return absl::InternalError("xgboost: " + trained.error);
  return TreesOf(trained.json, feature_count, options.depth);
}

}  // namespace foretrace
