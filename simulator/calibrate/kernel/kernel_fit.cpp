#include "simulator/calibrate/kernel/kernel_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"
#include "simulator/calibrate/kernel/kriging_fit.h"
#include "simulator/calibrate/least_squares.h"
#include "simulator/cost/kernel/convolution_roofline.h"

namespace foretrace {
namespace {

constexpr size_t kMinSamples = 5;
constexpr size_t kMinResidualSamples = 200;
constexpr size_t kMinChoiceSamples = 200;
constexpr size_t kMinFewSamples = 15;
constexpr size_t kDeepSamples = 2000;
// Of the features of a product: log m, n, k and the number of products.
constexpr size_t kFirstSize = 2, kSizes = 4;
constexpr size_t kMostSolverSamples = 1200;
constexpr double kSoftL1 = 0.05;
constexpr double kShortestKernelUs = 2;
constexpr double kMostRemaining = 1;
constexpr double kShownShare = 4;  // that narrow tiles and short depths do not outweigh
constexpr int64_t kLeastShown = 5;
constexpr double kMostFloorUs = 100;  // of a PyTorch call between two synchronisations

KernelForm FormOf(KernelKind kind) {
  switch (kind) {
    case KernelKind::kGemm:
    case KernelKind::kBatchedGemm:
    case KernelKind::kConvolution:
    case KernelKind::kAttention:
      return KernelForm::kGemm;
    default:
      return KernelForm::kMemory;
  }
}

// One fitted number: where it lives in the model, its bounds and where to start.
struct Parameter {
  double* value;
  ParameterBounds bounds;
  std::vector<double> starts;
};

// Whether the samples say anything of the DRAM: some would spend several times as long on it as on
// arithmetic, each at its peak.
bool ShowBandwidth(const GpuPeaks& device, Precision precision,
                   std::span<const KernelSample> samples) {
  const double bytes_per_us = device.dram_gbps * 1e3;
  const double flop_per_us = device.peak_tflops(precision) * 1e6;
  return std::ranges::count_if(samples, [&](const KernelSample& s) {
           const double memory_us = static_cast<double>(s.work.total_bytes()) / bytes_per_us;
           return memory_us >= kShownShare * s.work.flop.count() / flop_per_us;
         }) >= kLeastShown;
}

// `shown`: some samples show what the memory's bandwidth allows.
void AddProductParameters(KernelModel& model, std::span<const KernelSample> samples, bool shown,
                          std::vector<Parameter>& list) {
  const bool convolution = model.key.kind == KernelKind::kConvolution;
  const double most = convolution ? 1.5 : 1.0;
  list.push_back({&model.gemm.compute_efficiency, {0.05, most}, {0.9, 0.6}});
  list.push_back({&model.gemm.tile_intensity, {0, 80}, {5, 30}});
  if (shown) {
    list.push_back({&model.gemm.bandwidth_efficiency, {0.2, 1}, {0.8, 0.5}});
  }
  // Tensor cores hide the latency of a step but in products too small to fill the device, which
  // only large tables hold.
  if (model.key.kind == KernelKind::kGemm &&
      (model.key.precision == Precision::kFloat32 || samples.size() >= kDeepSamples)) {
    list.push_back({&model.gemm.reduction_step_us, {0, 0.6}, {0.2, 0.05}});
  }
  // Kernels of tensor cores: their large tiles leave few waves, whose details then show.
  if (model.key.precision != Precision::kFloat32 && samples.size() >= kMinChoiceSamples) {
    list.push_back({&model.gemm.overlap_power, {1.2, 8}, {4, 3}});
    list.push_back({&model.gemm.partial_wave, {0, 1}, {0.1, 0.5}});
    list.push_back({&model.gemm.wave_us, {0, 8}, {0.1, 0.3}});
    list.push_back({&model.gemm.choice_spread, {0.005, 0.5}, {0.02, 0.1}});
  }
  if (model.key.kind == KernelKind::kAttention) {
    list.push_back({&model.gemm.block_us, {0, 20}, {0.5, 2}});
  }
  if (convolution && IsWinograd(samples[0].work)) {
    // Above 1: fewer multiplications than the form they are counted in.
    if (!samples[0].work.weight_gradient) {
      list.push_back({&model.gemm.fused_efficiency, {0.01, 1.5}, {0.7, 0.4}});
    }
    list.push_back({&model.gemm.staged_efficiency, {0.01, 2}, {0.9, 0.5}});
    if (samples.size() >= kMinChoiceSamples) {
      list.push_back({&model.gemm.block_us, {0, 20}, {1, 4}});
      list.push_back({&model.gemm.algorithm_spread, {0.005, 0.5}, {0.1, 0.2}});
    }
  }
}

// `stream`: efficiency of a plain copy; 0: unknown.
void AddMemoryParameters(KernelModel& model, std::span<const KernelSample> samples, double stream,
                         std::vector<Parameter>& list) {
  const bool rows = IsRowWise(samples[0].work);
  const bool near = rows && stream > 0;
  list.push_back({&model.memory.bandwidth_efficiency,
                  {near ? 0.95 * stream : 0.2, near ? std::min(1.03 * stream, 1.0) : 1.0},
                  {near ? stream : 0.85, 0.9}});
  if (rows) {
    // Softmax keeps the nominal share: few of its rows fill the cache in training, and layer norm's
    // holds what is not known of its own occupancy.
    if (model.key.kind == KernelKind::kLayerNorm) {
      list.push_back({&model.memory.l2_share, {0.8, 1.3}, {1.1, 0.9}});
    }
    list.push_back({&model.memory.row_us, {0, 6}, {3, 1}});
    list.push_back({&model.memory.step_us, {0, 10}, {2, 1}});
    list.push_back({&model.memory.fill_rows, {0, 1}, {0.8, 0.4}});
  }
}

// The parameters that a model of this key has. A fixed one has equal bounds.
std::vector<Parameter> ParametersOf(const GpuPeaks& device, KernelModel& model,
                                    const KernelFitOptions& options,
                                    std::span<const KernelSample> samples) {
  std::vector<double> times;
  for (const KernelSample& s : samples) times.push_back(s.time_us);
  const double shortest = *std::min_element(times.begin(), times.end());
  std::vector<Parameter> list;
  if (options.has_overhead) {
    // A few long kernels say nothing of the floor: what nobody reached must not bound them.
    const double low = Quantile(times, 0.02);
    const double floor = std::min(low, kMostFloorUs);
    list.push_back({&model.measurement.floor_us, {0, 1.3 * floor}, {floor, 0.3 * floor}});
    // Convolutions run several kernels, each with its launch.
    const double most = model.key.kind == KernelKind::kConvolution ? 150.0 : 60.0;
    list.push_back(
        {&model.measurement.overhead_us, {0, std::min(low, most)}, {0.2 * low, 0.8 * low}});
    if (std::ranges::any_of(samples, [](const KernelSample& s) { return s.order > 0; })) {
      list.push_back({&model.measurement.drift_us, {0, 500}, {30, 100}});
      list.push_back({&model.measurement.drift_growth_us, {0, 100}, {10, 3}});
    }
  }
  const bool gemm = model.form == KernelForm::kGemm;
  double& base = gemm ? model.gemm.base_us : model.memory.base_us;
  base = kShortestKernelUs;
  // Else these two would take up whatever else the roofline lacks, and time decodes by that.
  const bool shown = !gemm || ShowBandwidth(device, model.key.precision, samples);
  if (!options.has_overhead && shown) {
    list.push_back({&base, {0.5, std::max(1.0, 2 * shortest)}, {0.5 * shortest, shortest}});
  }
  if (gemm) {
    AddProductParameters(model, samples, shown, list);
  } else {
    AddMemoryParameters(model, samples, options.stream_efficiency, list);
  }
  return list;
}

absl::Status FitRoofline(const GpuPeaks& device, std::span<const KernelSample> samples,
                         const KernelFitOptions& options, KernelModel& model) {
  const std::vector<Parameter> parameters = ParametersOf(device, model, options, samples);
  std::vector<const KernelSample*> used;
  const size_t stride = (samples.size() + kMostSolverSamples - 1) / kMostSolverSamples;
  for (size_t i = 0; i < samples.size(); i += stride) used.push_back(&samples[i]);
  const auto assign = [&](std::span<const double> values) {
    for (size_t i = 0; i < parameters.size(); ++i) *parameters[i].value = values[i];
  };
  LeastSquaresProblem problem;
  problem.residual_count = used.size();
  problem.starts.resize(2);
  for (const Parameter& parameter : parameters) {
    problem.bounds.push_back(parameter.bounds);
    for (size_t s = 0; s < 2; ++s) problem.starts[s].push_back(parameter.starts[s]);
  }
  problem.residuals = [&](std::span<const double> values, std::span<double> residuals) {
    assign(values);
    for (size_t i = 0; i < used.size(); ++i) {
      const KernelSample& sample = *used[i];
      const double kernel_us = model.Point(device, sample.work).kernel_us;
      residuals[i] = std::log(model.measurement.Observed(kernel_us, sample.order) / sample.time_us);
    }
  };
  LeastSquaresOptions solver;
  solver.soft_l1_scale = kSoftL1;
  solver.seed = options.seed;
  solver.max_iterations = 60;
  FORETRACE_ASSIGN_OR_RETURN(const LeastSquaresResult result, SolveLeastSquares(problem, solver));
  assign(result.parameters);
  return absl::OkStatus();
}

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

absl::StatusOr<KernelModel> FitKernelModel(const GpuPeaks& device, const KernelKey& key,
                                           std::span<const KernelSample> samples,
                                           const KernelFitOptions& options) {
  if (samples.size() < kMinSamples) {
    return InvalidInput("{}: {} rows; a kernel model needs at least {}", Name(key), samples.size(),
                        kMinSamples);
  }
  KernelModel model;
  model.key = key;
  model.form = FormOf(key.kind);
  FORETRACE_RETURN_IF_ERROR(FitRoofline(device, samples, options, model));
  if (options.with_residual && samples.size() >= kMinResidualSamples) {
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> left_out,
                               FitKriging(device, samples, model));
    FORETRACE_RETURN_IF_ERROR(FitResidual(device, samples, left_out, model));
    if (key.kind == KernelKind::kGemm || key.kind == KernelKind::kAttention) {
      model.measured = MeasuredShapes::Select(LeftOf(device, samples, model, true));
    }
  } else if (options.with_residual && samples.size() >= kMinFewSamples && IsProduct(key.kind)) {
    FORETRACE_RETURN_IF_ERROR(FitFewResiduals(device, samples, model));
  }
  model.lower = model.upper = RangeOf(model.form, samples[0].work);
  for (const KernelSample& sample : samples) {
    const auto at = RangeOf(model.form, sample.work);
    for (size_t i = 0; i < at.size(); ++i) {
      model.lower[i] = std::min(model.lower[i], at[i]);
      model.upper[i] = std::max(model.upper[i], at[i]);
    }
  }
  model.points = static_cast<int64_t>(samples.size());
  return model;
}

}  // namespace foretrace
