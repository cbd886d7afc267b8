#include "simulator/calibrate/kernel/kernel_residuals.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"
#include "simulator/calibrate/kernel/kriging_fit.h"

namespace foretrace {
namespace {

constexpr size_t kMinResidualSamples = 200;
constexpr size_t kMinFewSamples = 15;
// Of the features of a product: log m, n, k and the number of products.
constexpr size_t kFirstSize = 2, kSizes = 4;
constexpr double kMostRemaining = 1;

// d log(observed) / d log(kernel): how much a measurement says about the kernel itself.
double Sensitivity(const Measurement& measurement, double kernel_us, int64_t order) {
  const double undrifted = measurement.Observed(kernel_us);
  const double sum = measurement.overhead_us + kernel_us;
  return kernel_us / sum * std::pow(sum / undrifted, 8) * undrifted /
         measurement.Observed(kernel_us, order);
}

// What is left between measurement and the roofline or, where that is asked for, the whole model,
// by shape.
std::vector<MeasuredShape> LeftOf(const GpuPeaks& device, std::span<const KernelSample> samples,
                                  const KernelModel& model, bool whole) {
  std::vector<MeasuredShape> shapes;
  for (const KernelSample& sample : samples) {
    const KernelWork& work = sample.work;
    std::optional<MeasuredShape> shape = MeasuredAs(work);
    if (!shape) continue;
    const KernelPoint point = model.Point(device, work);
    const double us = whole ? model.InterpolatedUs(device, point, work) : point.kernel_us;
    const double s = std::max(Sensitivity(model.measurement, us, sample.order), 0.02);
    const double left = std::log(sample.time_us / model.measurement.Observed(us, sample.order)) / s;
    shape->log_residual = static_cast<float>(std::clamp(left, -kMostRemaining, kMostRemaining));
    shapes.push_back(*shape);
  }
  return shapes;
}

// What interpolation over shapes says of each sample when that is left out; nothing where it has no
// such model.
absl::StatusOr<std::vector<double>> FitKriging(const GpuPeaks& device,
                                               std::span<const KernelSample> samples,
                                               KernelModel& model) {
  if (model.key.kind != KernelKind::kGemm || model.key.precision == Precision::kFloat32) {
    return std::vector<double>();
  }
  const std::vector<MeasuredShape> shapes = LeftOf(device, samples, model, false);
  if (shapes.size() != samples.size()) return std::vector<double>();
  FORETRACE_ASSIGN_OR_RETURN(FittedKriging fitted,
                             FitShapeKriging({device.sms, device.l2_mbytes}, shapes));
  model.kriging = std::move(fitted.kriging);
  return model.kriging.empty() ? std::vector<double>() : std::move(fitted.left_out);
}

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
               .depth = samples >= kDeepSamples ? 7 : 5,
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

// Trees on what the roofline leaves. Where shapes are interpolated two ensembles: one on what that
// leaves, with the shape left out, as it will be where it was not measured; and one that knows
// nothing of it, whose errors are others, so that the mean of both is better than either.
absl::Status FitResidual(const GpuPeaks& device, std::span<const KernelSample> samples,
                         std::span<const double> left_out, KernelModel& model) {
  constexpr double kKrigingShare = 0.5;
  const int count = model.feature_count();
  const BoostingOptions options = ResidualOptions(model, samples.size());
  const auto train = [&](double share) {
    const ResidualRows rows = RowsOf(device, samples, left_out, share, model);
    return TrainBoostedTrees(rows.features, count, rows.targets, rows.weights, options);
  };
  FORETRACE_ASSIGN_OR_RETURN(model.residual, train(0));
  if (!left_out.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble kriged, train(1));
    model.residual = TreeEnsemble::MeanOf(model.residual, kriged);
    model.kriging_share = kKrigingShare;
  }
  model.residual_clip = ClipOf(RowsOf(device, samples, left_out, model.kriging_share, model));
  return absl::OkStatus();
}

// Small trees over the sizes of a product, on what the roofline leaves of a few rows: what a GPU's
// caches and its power make of sizes differs between chips by more than a factor (operands of 64 Ki
// columns take a P100 2.6 times its roofline's time). Kept where rows that took no part get better
// by it. Their depth was chosen by the V100 and the P100, adapted from the A100 (docs/accuracy.md).
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

}  // namespace

absl::Status FitResiduals(const GpuPeaks& device, std::span<const KernelSample> samples,
                          KernelModel& model) {
  const KernelKind kind = model.key.kind;
  if (samples.size() >= kMinResidualSamples) {
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> left_out,
                               FitKriging(device, samples, model));
    FORETRACE_RETURN_IF_ERROR(FitResidual(device, samples, left_out, model));
    if (kind == KernelKind::kGemm || kind == KernelKind::kAttention) {
      model.measured = MeasuredShapes::Select(LeftOf(device, samples, model, true));
    }
    return absl::OkStatus();
  }
  if (samples.size() < kMinFewSamples || !IsProduct(kind)) return absl::OkStatus();
  return FitFewResiduals(device, samples, model);
}

}  // namespace foretrace
