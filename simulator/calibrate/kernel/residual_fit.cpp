#include "simulator/calibrate/kernel/residual_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulator/base/split_mix.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"

namespace foretrace {
namespace {

// Of the features of a product: log m, n, k and the number of products.
constexpr size_t kFirstSize = 2, kSizes = 4;

BoostingOptions ResidualOptions(const KernelModel& model, size_t samples) {
  BoostingOptions options;
  options.depth = 4;
  if (model.form != KernelForm::kGemm) return options;
  options = {
      .trees = 100, .depth = 6, .learning_rate = 0.1, .features_per_node = 0.5, .huber = 0.05};
  if (model.key.precision != Precision::kFloat32) {
    options.trees = 200;
    options.learning_rate = 0.05;
    options.rows_per_tree = 0.7;
  }
  if (!model.kriging.empty()) {  // tables of many shapes, with few errors left
    options = {.trees = 400,
               .depth = samples >= kManySamples ? 7 : 5,
               .learning_rate = 0.05,
               .min_child_weight = 4,
               .features_per_node = 0.4,
               .rows_per_tree = 0.7,
               .huber = 0.03};
  }
  if (model.key.kind == KernelKind::kConvolution) options.min_child_weight = 2;
  return options;
}

// What trees learn: the features of each sample, what is left of its log time, its weight.
struct ResidualRows {
  std::vector<float> features, targets, weights;
};

// Of what the roofline leaves and, where shapes are interpolated, what that share of it leaves.
ResidualRows RowsOf(const GpuPeaks& device, std::span<const KernelSample> samples,
                    std::span<const double> left_out, double share, const KernelModel& model) {
  const int count = model.feature_count();
  ResidualRows rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    const KernelSample& sample = samples[i];
    KernelPoint point = model.Point(device, sample.work);
    if (!left_out.empty()) {
      KernelModel::AddKriged(device, sample.work, share > 0 ? left_out[i] : 0, share, point);
    }
    const double s = std::max(Sensitivity(model.measurement, point.kernel_us, sample.order), 0.02);
    const double error =
        std::log(sample.time_us / model.measurement.Observed(point.kernel_us, sample.order));
    const double target = std::clamp(error / s, -1.5, 1.5);
    rows.features.insert(rows.features.end(), point.features.begin(),
                         point.features.begin() + count);
    rows.targets.push_back(static_cast<float>(target));
    rows.weights.push_back(static_cast<float>(s * s));
  }
  return rows;
}

double ClipOf(const ResidualRows& rows) {
  std::vector<double> seen;
  for (size_t i = 0; i < rows.targets.size(); ++i) {
    if (rows.weights[i] > 0.09f) seen.push_back(std::abs(static_cast<double>(rows.targets[i])));
  }
  return std::clamp(Quantile(std::move(seen), 0.995), 0.05, 1.5);
}

// What trees that were fitted to the other matrices leave of a fifth of the matrices (n, k).
absl::StatusOr<std::vector<double>> LeftOfHeldOut(std::span<const KernelSample> samples, int count,
                                                  const ResidualRows& rows,
                                                  const BoostingOptions& options) {
  constexpr uint64_t kFolds = 5;
  const auto width = static_cast<size_t>(count);
  ResidualRows used;
  std::vector<size_t> held_out;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto n = static_cast<uint64_t>(samples[i].work.n),
               k = static_cast<uint64_t>(samples[i].work.k);
    if (SplitMix64(SplitMix64(n) ^ k) % kFolds == 0) {
      held_out.push_back(i);
      continue;
    }
    const float* x = rows.features.data() + i * width;
    used.features.insert(used.features.end(), x, x + width);
    used.targets.push_back(rows.targets[i]);
    used.weights.push_back(rows.weights[i]);
  }
  std::vector<double> left;
  if (held_out.empty() || used.targets.empty()) return left;
  FORETRACE_ASSIGN_OR_RETURN(
      const TreeEnsemble trees,
      TrainBoostedTrees(used.features, count, used.targets, used.weights, options));
  for (const size_t i : held_out) {
    const std::span<const float> x(rows.features.data() + i * width, width);
    left.push_back(static_cast<double>(rows.targets[i] - trees.Evaluate(x)));
  }
  return left;
}

}  // namespace

double Sensitivity(const Measurement& measurement, double kernel_us, int64_t order) {
  const double undrifted = measurement.Observed(kernel_us);
  const double sum = measurement.overhead_us + kernel_us;
  return kernel_us / sum * std::pow(sum / undrifted, 8) * undrifted /
         measurement.Observed(kernel_us, order);
}

absl::Status FitResidual(const GpuPeaks& device, std::span<const KernelSample> samples,
                         std::span<const double> left_out, KernelModel& model) {
  const int count = model.feature_count();
  const BoostingOptions options = ResidualOptions(model, samples.size());
  const ResidualRows plain = RowsOf(device, samples, left_out, 0, model);
  const auto train = [&](const ResidualRows& rows) {
    return TrainBoostedTrees(rows.features, count, rows.targets, rows.weights, options);
  };
  if (left_out.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(model.residual, train(plain));
    model.residual_clip = ClipOf(plain);
    return absl::OkStatus();
  }
  const ResidualRows kriged = RowsOf(device, samples, left_out, 1, model);
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> a,
                             LeftOfHeldOut(samples, count, plain, options));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> b,
                             LeftOfHeldOut(samples, count, kriged, options));
  double least = HUGE_VAL;
  for (const double share : {1.0, 0.5, 0.0}) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::abs((1 - share) * a[i] + share * b[i]);
    if (sum >= least) continue;
    least = sum;
    model.kriging_share = share;
  }
  FORETRACE_ASSIGN_OR_RETURN(model.residual, train(model.kriging_share > 0 ? kriged : plain));
  if (model.kriging_share > 0 && model.kriging_share < 1) {
    FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble other, train(plain));
    model.residual = TreeEnsemble::MeanOf(model.residual, other);
  }
  model.residual_clip = ClipOf(RowsOf(device, samples, left_out, model.kriging_share, model));
  return absl::OkStatus();
}

absl::Status FitFewResiduals(const GpuPeaks& device, std::span<const KernelSample> samples,
                             KernelModel& model) {
  constexpr size_t kFolds = 5;
  const int count = model.feature_count();
  std::vector<float> features, targets, weights;
  double clip = 0;
  for (const KernelSample& sample : samples) {
    KernelFeatures sizes = {};
    const KernelPoint point = model.Point(device, sample.work);
    std::copy_n(point.features.begin() + kFirstSize, kSizes, sizes.begin() + kFirstSize);
    features.insert(features.end(), sizes.begin(), sizes.begin() + count);
    const double s = std::max(Sensitivity(model.measurement, point.kernel_us, sample.order), 0.02);
    const double error =
        std::log(sample.time_us / model.measurement.Observed(point.kernel_us, sample.order));
    targets.push_back(static_cast<float>(std::clamp(error / s, -1.5, 1.5)));
    weights.push_back(static_cast<float>(s * s));
    clip = std::max(clip, std::abs(static_cast<double>(targets.back())));
  }
  const BoostingOptions options = {
      .trees = 100, .depth = 3, .learning_rate = 0.1, .min_child_weight = 1, .l2 = 0.3};
  const auto width = static_cast<size_t>(count);
  double without = 0, with = 0;
  for (size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<float> x, y, w;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (i % kFolds == fold) continue;
      x.insert(x.end(), features.begin() + i * width, features.begin() + (i + 1) * width);
      y.push_back(targets[i]);
      w.push_back(weights[i]);
    }
    FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble trees,
                               TrainBoostedTrees(x, count, y, w, options));
    for (size_t i = fold; i < samples.size(); i += kFolds) {
      const float at = static_cast<float>(
          trees.Evaluate(std::span<const float>(features.data() + i * width, width)));
      without += weights[i] * std::abs(targets[i]);
      with += weights[i] * std::abs(targets[i] - at);
    }
  }
  if (with >= without) return absl::OkStatus();
  model.residual_clip = std::clamp(clip, 0.05, 1.5);
  FORETRACE_ASSIGN_OR_RETURN(model.residual,
                             TrainBoostedTrees(features, count, targets, weights, options));
  return absl::OkStatus();
}

}  // namespace foretrace
