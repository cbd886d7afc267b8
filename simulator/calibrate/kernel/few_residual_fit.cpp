#include "simulator/calibrate/kernel/few_residual_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/split_mix.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"
#include "simulator/calibrate/kernel/cholesky.h"
#include "simulator/calibrate/kernel/residual_fit.h"

namespace foretrace {
namespace {

// Of the features of a GEMM: log2 of m, n, k and the number of GEMMs.
constexpr size_t kFirstSize = 2, kSizes = 4;
using Sizes = std::array<float, kSizes>;

// Octaves over which what is left changes: it hangs on how far rows of the operands lie apart,
// which is the reduction, more than on how many there are. Chosen on V100's and P100's rows; the
// A100's, which took no part in these, got better by as much.
constexpr std::array<double, kSizes> kLengths = {12, 12, 3, 12};
constexpr double kNoise = 0.05;  // of the variance of what sizes explain
constexpr double kMostLeft = 1.5;
constexpr double kLeastSensitivity = 0.02;
constexpr size_t kDraws = 2000;

// What is left of the log time at some sizes, with weights.
struct LeftAtSizes {
  std::vector<Sizes> at;
  std::vector<float> left, weights;

  // Row `i` of others.
  void Copy(const LeftAtSizes& from, size_t i) {
    at.push_back(from.at[i]);
    left.push_back(from.left[i]);
    weights.push_back(from.weights[i]);
  }
  // `width`: features of the model, of which trees see the sizes alone.
  absl::StatusOr<TreeEnsemble> Train(size_t width, const BoostingOptions& options) const {
    std::vector<float> features(at.size() * width, 0);
    for (size_t i = 0; i < at.size(); ++i) {
      std::ranges::copy(at[i], features.begin() + static_cast<ptrdiff_t>(i * width + kFirstSize));
    }
    return TrainBoostedTrees(features, static_cast<int>(width), left, weights, options);
  }
};

double Covariance(const Sizes& a, const Sizes& b) {
  double d2 = 0;
  for (size_t i = 0; i < kSizes; ++i) {
    const double d = static_cast<double>(a[i] - b[i]) / kLengths[i];
    d2 += d * d;
  }
  const double d = std::sqrt(3 * d2);
  return 1 + (1 + d) * std::exp(-d);  // a mean of all, and a Matern function of smoothness 3/2
}

// A Gaussian process over sizes (Rasmussen and Williams 2006, chapter 2).
class SizeKriging {
 public:
  static absl::StatusOr<SizeKriging> Fit(const LeftAtSizes& known) {
    SizeKriging kriging;
    kriging.at_ = known.at;
    LowerTriangle covariance(known.at.size());
    for (size_t i = 0; i < known.at.size(); ++i) {
      for (size_t j = 0; j <= i; ++j) {
        covariance[i].push_back(Covariance(known.at[i], known.at[j]));
      }
      covariance[i][i] += kNoise / static_cast<double>(known.weights[i]);
      kriging.weights_.push_back(static_cast<double>(known.left[i]));
    }
    if (!FactorCholesky(covariance)) {
      return InvalidInput("the covariance of {} GEMMs cannot be factored", known.at.size());
    }
    SolveCholesky(covariance, kriging.weights_);
    return kriging;
  }

  double operator()(const Sizes& x) const {
    double sum = 0;
    for (size_t i = 0; i < at_.size(); ++i) sum += weights_[i] * Covariance(x, at_[i]);
    return sum;
  }

 private:
  std::vector<Sizes> at_;
  std::vector<double> weights_;
};

LeftAtSizes LeftOf(const GpuPeaks& device, std::span<const KernelSample> samples,
                   const KernelModel& model) {
  LeftAtSizes known;
  for (const KernelSample& sample : samples) {
    const KernelPoint point = model.Point(device, sample.work);
    const double s =
        std::max(Sensitivity(model.measurement, point.kernel_us, sample.order), kLeastSensitivity);
    const double error =
        std::log(sample.time_us / model.measurement.Observed(point.kernel_us, sample.order));
    std::copy_n(point.features.begin() + kFirstSize, kSizes, known.at.emplace_back().begin());
    known.left.push_back(static_cast<float>(std::clamp(error / s, -kMostLeft, kMostLeft)));
    known.weights.push_back(static_cast<float>(s * s));
  }
  return known;
}

// Small trees, which find steps, and kriging, which follows what grows.
struct Both {
  TreeEnsemble trees;
  SizeKriging kriging;

  static absl::StatusOr<Both> Fit(const LeftAtSizes& known, size_t width) {
    const BoostingOptions options = {
        .trees = 100, .depth = 3, .learning_rate = 0.1, .min_child_weight = 1, .l2 = 0.3};
    FORETRACE_ASSIGN_OR_RETURN(TreeEnsemble trees, known.Train(width, options));
    FORETRACE_ASSIGN_OR_RETURN(SizeKriging kriging, SizeKriging::Fit(known));
    return Both{std::move(trees), std::move(kriging)};
  }
  // The mean of both, of which kriging has that share.
  double Say(const Sizes& at, double share) const {
    KernelFeatures x = {};
    std::ranges::copy(at, x.begin() + kFirstSize);
    const auto width = static_cast<size_t>(trees.feature_count());
    const auto steps = static_cast<double>(trees.Evaluate(std::span<const float>(x).first(width)));
    return (1 - share) * steps + share * kriging(at);
  }
};

// Of kriging. Of batches, whose sizes are those of few tiles, the mean of both erred more than
// trees on each of four GPUs (eight draws of 20 rows).
constexpr std::array<double, 3> kShares = {0, 0.5, 1};
constexpr size_t kSharesOfBatches = 1;

// Of the first of kShares, the one whose errors are least in rows that took no part; nullopt: less
// is left without either.
absl::StatusOr<std::optional<double>> BestShare(const LeftAtSizes& known, size_t width,
                                                size_t shares) {
  constexpr size_t kFolds = 5;
  double without = 0;
  std::vector<double> with(shares, 0);
  for (size_t fold = 0; fold < kFolds; ++fold) {
    LeftAtSizes used;
    for (size_t i = 0; i < known.at.size(); ++i) {
      if (i % kFolds != fold) used.Copy(known, i);
    }
    FORETRACE_ASSIGN_OR_RETURN(const Both both, Both::Fit(used, width));
    for (size_t i = fold; i < known.at.size(); i += kFolds) {
      const auto weight = static_cast<double>(known.weights[i]);
      const auto left = static_cast<double>(known.left[i]);
      without += weight * std::abs(left);
      for (size_t s = 0; s < shares; ++s) {
        with[s] += weight * std::abs(left - both.Say(known.at[i], kShares[s]));
      }
    }
  }
  const auto least = std::ranges::min_element(with);
  if (*least >= without) return std::nullopt;
  return kShares[static_cast<size_t>(least - with.begin())];
}

// Sizes drawn from between the least and the most measured, by a counter: the same everywhere.
std::vector<Sizes> DrawsBetween(std::span<const Sizes> measured) {
  Sizes low = measured[0], high = measured[0];
  for (const Sizes& at : measured) {
    for (size_t i = 0; i < kSizes; ++i) {
      low[i] = std::min(low[i], at[i]);
      high[i] = std::max(high[i], at[i]);
    }
  }
  std::vector<Sizes> draws(kDraws);
  uint64_t count = 0;
  for (Sizes& draw : draws) {
    for (size_t i = 0; i < kSizes; ++i) {
      const auto share = static_cast<float>(UnitInterval(SplitMix64(kSplitMixStep * ++count)));
      draw[i] = low[i] + share * (high[i] - low[i]);
    }
  }
  return draws;
}

}  // namespace

absl::Status FitFewResiduals(const GpuPeaks& device, std::span<const KernelSample> samples,
                             KernelModel& model) {
  const auto width = static_cast<size_t>(model.feature_count());
  const LeftAtSizes known = LeftOf(device, samples, model);
  const size_t shares =
      model.key.kind == KernelKind::kBatchedGemm ? kSharesOfBatches : kShares.size();
  FORETRACE_ASSIGN_OR_RETURN(const std::optional<double> share, BestShare(known, width, shares));
  if (!share) return absl::OkStatus();
  double clip = 0;
  for (const float left : known.left) clip = std::max(clip, std::abs(static_cast<double>(left)));
  model.residual_clip = std::clamp(clip, 0.05, kMostLeft);
  FORETRACE_ASSIGN_OR_RETURN(Both both, Both::Fit(known, width));
  if (*share == 0) {
    model.residual = std::move(both.trees);
    return absl::OkStatus();
  }
  LeftAtSizes said{DrawsBetween(known.at), {}, std::vector<float>(kDraws, 1)};
  for (const Sizes& at : said.at) said.left.push_back(static_cast<float>(both.Say(at, *share)));
  const BoostingOptions following = {
      .trees = 100, .depth = 5, .learning_rate = 0.1, .min_child_weight = 4, .l2 = 1};
  FORETRACE_ASSIGN_OR_RETURN(model.residual, said.Train(width, following));
  return absl::OkStatus();
}

}  // namespace foretrace
