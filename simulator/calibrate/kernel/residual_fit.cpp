#include "simulator/calibrate/kernel/residual_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "simulator/base/split_mix.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"

namespace foretrace {
namespace {

// Of GEMMs turned round (TurnedRows). Those of fewer rows or columns run by kernels that stream
// the other operand, which libraries choose by rules of their own.
constexpr int64_t kLeastTurned = 64;
constexpr double kTurnedWeight = 0.3;  // beside a row that was measured as it stands
constexpr double kMostSided = 0.01;    // of the mean log of y[m,n] over y[n,m]
constexpr size_t kLeastPairs = 50;

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

  void Add(std::span<const float> x, const KernelModel& model, const KernelPoint& point,
           const KernelSample& sample, double weight = 1) {
    const double s = std::max(Sensitivity(model.measurement, point.kernel_us, sample.order), 0.02);
    const double error =
        std::log(sample.time_us / model.measurement.Observed(point.kernel_us, sample.order));
    features.insert(features.end(), x.begin(), x.end());
    targets.push_back(static_cast<float>(std::clamp(error / s, -1.5, 1.5)));
    weights.push_back(static_cast<float>(weight * s * s));
  }
  void Append(const ResidualRows& more) {
    features.insert(features.end(), more.features.begin(), more.features.end());
    targets.insert(targets.end(), more.targets.begin(), more.targets.end());
    weights.insert(weights.end(), more.weights.begin(), more.weights.end());
  }
  // Row `i` of others, which have `width` features.
  void Copy(const ResidualRows& from, size_t i, size_t width) {
    const float* x = from.features.data() + i * width;
    features.insert(features.end(), x, x + width);
    targets.push_back(from.targets[i]);
    weights.push_back(from.weights[i]);
  }
  absl::StatusOr<TreeEnsemble> Train(int count, const BoostingOptions& options) const {
    return TrainBoostedTrees(features, count, targets, weights, options);
  }
  // The mean of two draws of rows and features, which err apart.
  absl::StatusOr<TreeEnsemble> TrainTwice(int count, BoostingOptions options) const {
    FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble a, Train(count, options));
    ++options.seed;
    FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble b, Train(count, options));
    return TreeEnsemble::MeanOf(a, b);
  }
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
    rows.Add(std::span(point.features).first(static_cast<size_t>(count)), model, point, sample);
  }
  return rows;
}

// Rows and columns of a GEMM are the same to a library but for how it chooses and how the result
// lies: what y[m,n] took says what y[n,m] takes, of another matrix than the one that was measured.
struct TurnedRows {
  ResidualRows rows;
  std::vector<size_t> of;  // sample of each
};

// Of samples that have rows and columns enough, and no more columns than interpolation has rows.
TurnedRows TurnedRowsOf(const GpuPeaks& device, std::span<const KernelSample> samples, double share,
                        const KernelModel& model) {
  TurnedRows turned;
  const auto count = static_cast<size_t>(model.feature_count());
  const int64_t most = model.kriging.slices().back().m;
  for (size_t i = 0; i < samples.size(); ++i) {
    KernelSample sample = samples[i];
    std::swap(sample.work.m, sample.work.n);
    const int64_t m = sample.work.m, n = sample.work.n, k = sample.work.k;
    if (m == n || std::min(m, n) < kLeastTurned || m > most) continue;
    KernelPoint point = model.Point(device, sample.work);
    const double kriged = share > 0 ? model.kriging.LogResidual(m, n, k) : 0;
    KernelModel::AddKriged(device, sample.work, kriged, share, point);
    turned.rows.Add(std::span(point.features).first(count), model, point, sample, kTurnedWeight);
    turned.of.push_back(i);
  }
  return turned;
}

double ClipOf(const ResidualRows& rows) {
  std::vector<double> seen;
  for (size_t i = 0; i < rows.targets.size(); ++i) {
    if (rows.weights[i] > 0.09f) seen.push_back(std::abs(static_cast<double>(rows.targets[i])));
  }
  return std::clamp(Quantile(std::move(seen), 0.995), 0.05, 1.5);
}

// The rows of one share of what interpolation says, as measured and turned round.
struct TrainingRows {
  ResidualRows measured;
  TurnedRows turned;

  ResidualRows All() const {
    ResidualRows all = measured;
    all.Append(turned.rows);
    return all;
  }
};

bool IsHeldOut(const KernelSample& sample) {
  constexpr uint64_t kFolds = 5;
  const auto n = static_cast<uint64_t>(sample.work.n), k = static_cast<uint64_t>(sample.work.k);
  return SplitMix64(SplitMix64(n) ^ k) % kFolds == 0;
}

// What trees that were fitted to the other matrices leave of a fifth of the matrices (n, k).
absl::StatusOr<std::vector<double>> LeftOfHeldOut(std::span<const KernelSample> samples, int count,
                                                  const TrainingRows& rows,
                                                  const BoostingOptions& options) {
  const auto width = static_cast<size_t>(count);
  ResidualRows used;
  std::vector<size_t> held_out;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (IsHeldOut(samples[i])) {
      held_out.push_back(i);
    } else {
      used.Copy(rows.measured, i, width);
    }
  }
  for (size_t i = 0; i < rows.turned.of.size(); ++i) {
    if (!IsHeldOut(samples[rows.turned.of[i]])) used.Copy(rows.turned.rows, i, width);
  }
  std::vector<double> left;
  if (held_out.empty() || used.targets.empty()) return left;
  FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble trees, used.Train(count, options));
  for (const size_t i : held_out) {
    const std::span<const float> x(rows.measured.features.data() + i * width, width);
    left.push_back(static_cast<double>(rows.measured.targets[i] - trees.Evaluate(x)));
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

bool TurnsAlike(std::span<const KernelSample> samples) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, double> times;
  for (const KernelSample& sample : samples) {
    const KernelWork& work = sample.work;
    if (work.batch == 1) times[{work.m, work.n, work.k}] = sample.time_us;
  }
  double sum = 0;
  size_t pairs = 0;
  for (const auto& [shape, us] : times) {
    const auto& [m, n, k] = shape;
    if (m < kLeastTurned || m >= n) continue;
    const auto turned = times.find({n, m, k});
    if (turned == times.end()) continue;
    sum += std::log(us / turned->second);
    ++pairs;
  }
  return pairs >= kLeastPairs && std::abs(sum) <= kMostSided * static_cast<double>(pairs);
}

absl::Status FitResidual(const GpuPeaks& device, std::span<const KernelSample> samples,
                         std::span<const double> left_out, const ProgressSink& progress,
                         KernelModel& model) {
  const int count = model.feature_count();
  BoostingOptions options = ResidualOptions(model, samples.size());
  options.progress = progress;
  TrainingRows plain{RowsOf(device, samples, left_out, 0, model), {}};
  if (left_out.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(model.residual, plain.measured.Train(count, options));
    model.residual_clip = ClipOf(plain.measured);
    return absl::OkStatus();
  }
  TrainingRows kriged{RowsOf(device, samples, left_out, 1, model), {}};
  if (samples.size() >= kManySamples && TurnsAlike(samples)) {
    plain.turned = TurnedRowsOf(device, samples, 0, model);
    kriged.turned = TurnedRowsOf(device, samples, 1, model);
  }
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
  const auto train = [&](const TrainingRows& rows) {
    return rows.All().TrainTwice(count, options);
  };
  FORETRACE_ASSIGN_OR_RETURN(model.residual, train(model.kriging_share > 0 ? kriged : plain));
  if (model.kriging_share > 0 && model.kriging_share < 1) {
    FORETRACE_ASSIGN_OR_RETURN(const TreeEnsemble other, train(plain));
    model.residual = TreeEnsemble::MeanOf(model.residual, other);
  }
  model.residual_clip = ClipOf(RowsOf(device, samples, left_out, model.kriging_share, model));
  return absl::OkStatus();
}

}  // namespace foretrace
