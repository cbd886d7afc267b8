#include "simulator/calibrate/kernel/kernel_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/kernel/few_residual_fit.h"
#include "simulator/calibrate/kernel/kriging_fit.h"
#include "simulator/calibrate/kernel/residual_fit.h"
#include "simulator/calibrate/least_squares.h"
#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/convolution_roofline.h"

namespace foretrace {
namespace {

constexpr size_t kMinSamples = 5;
constexpr size_t kMinResidualSamples = 200;
constexpr size_t kMinChoiceSamples = 200;
constexpr size_t kMinFewSamples = 15;
// What rows of GEMMs stray from the best roofline (calibration/README.md, "From the machine file
// alone"), beside which counts what is known of its parameters.
constexpr double kRowSpread = 0.1;
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

// Whether rows of plain GEMMs are so few that what other devices showed counts beside them. Of
// batches, whose tiles are few and alike, it made float32 worse on the V100 and the P100.
bool CountsKnown(const KernelKey& key, size_t samples) {
  return key.kind == KernelKind::kGemm && samples < kMinChoiceSamples;
}

// One fitted number: where it lives in the model, its bounds and where to start.
struct Parameter {
  double* value;
  ParameterBounds bounds;
  std::vector<double> starts;
  // By which share devices' values stray from what *value is before the fit; 0: it says nothing.
  double spread = 0;
};

// Whether the samples say anything of the DRAM: some would spend several times as long on it as on
// arithmetic, each at its peak.
bool ShowBandwidth(const GpuPeaks& device, Precision precision,
                   std::span<const KernelSample> samples) {
  const double bytes_per_us = device.dram_gbps * 1e3;
  const double flop_per_us = device.boost_tflops(precision) * 1e6;
  return std::ranges::count_if(samples, [&](const KernelSample& s) {
           const double memory_us = static_cast<double>(s.work.total_bytes()) / bytes_per_us;
           return memory_us >= kShownShare * s.work.flop.count() / flop_per_us;
         }) >= kLeastShown;
}

// Few rows beside what is known of GEMMs on other devices: by which share that strays.
void AddKnownParameters(KernelModel& model, bool shown, std::vector<Parameter>& list) {
  list.push_back({&model.gemm.compute_efficiency, {0.05, 1.0}, {0.9, 0.6}, 0.1});
  list.push_back({&model.gemm.tile_intensity, {0, 80}, {5, 30}, 0.5});
  if (shown) list.push_back({&model.gemm.bandwidth_efficiency, {0.2, 1}, {0.8, 0.5}, 0.15});
  if (model.gemm.reduction_step_us > 0) {
    list.push_back({&model.gemm.reduction_step_us, {0, 0.6}, {0.2, 0.05}, 0.5});
  }
}

// `shown`: some samples show what the memory's bandwidth allows.
void AddGemmParameters(const GpuPeaks& device, KernelModel& model,
                       std::span<const KernelSample> samples, bool shown,
                       std::vector<Parameter>& list) {
  const bool convolution = model.key.kind == KernelKind::kConvolution;
  const Precision precision = model.key.precision;
  const double most =
      convolution ? 1.5 * device.boost_tflops(precision) / device.peak_tflops(precision) : 1.0;
  list.push_back({&model.gemm.compute_efficiency, {0.05, most}, {0.9, 0.6}});
  list.push_back({&model.gemm.tile_intensity, {0, 80}, {5, 30}});
  if (shown) {
    list.push_back({&model.gemm.bandwidth_efficiency, {0.2, 1}, {0.8, 0.5}});
  }
  // Tensor cores hide the latency of a step but in GEMMs too small to fill the device, which
  // only large tables hold.
  if (model.key.kind == KernelKind::kGemm &&
      (model.key.precision == Precision::kFloat32 || samples.size() >= kManySamples)) {
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
  if (CountsKnown(model.key, samples.size())) {
    AddKnownParameters(model, shown, list);
  } else if (gemm) {
    AddGemmParameters(device, model, samples, shown, list);
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
  std::vector<std::pair<size_t, double>> known;  // parameters with what is known of them
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].spread > 0) known.emplace_back(i, *parameters[i].value);
  }
  LeastSquaresProblem problem;
  problem.residual_count = used.size() + known.size();
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
    for (size_t i = 0; i < known.size(); ++i) {
      const auto [at, value] = known[i];
      residuals[used.size() + i] = kRowSpread * (values[at] / value - 1) / parameters[at].spread;
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
                                               const ProgressSink& progress, KernelModel& model) {
  if (model.key.kind != KernelKind::kGemm || model.key.precision == Precision::kFloat32) {
    return std::vector<double>();
  }
  const std::vector<MeasuredShape> shapes = LeftOf(device, samples, model, false);
  if (shapes.size() != samples.size()) return std::vector<double>();
  FORETRACE_ASSIGN_OR_RETURN(FittedKriging fitted,
                             FitShapeKriging({device.sms, device.l2_mbytes}, shapes, progress));
  model.kriging = std::move(fitted.kriging);
  return model.kriging.empty() ? std::vector<double>() : std::move(fitted.left_out);
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
  if (CountsKnown(key, samples.size())) model.gemm = AnalyticGemm(device, key.precision);
  FORETRACE_RETURN_IF_ERROR(FitRoofline(device, samples, options, model));
  if (options.with_residual && samples.size() >= kMinResidualSamples) {
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> left_out,
                               FitKriging(device, samples, options.progress, model));
    FORETRACE_RETURN_IF_ERROR(FitResidual(device, samples, left_out, options.progress, model));
    if (key.kind == KernelKind::kGemm || key.kind == KernelKind::kAttention) {
      model.measured = MeasuredShapes::Select(LeftOf(device, samples, model, true));
    }
  } else if (options.with_residual && samples.size() >= kMinFewSamples && IsGemm(key.kind)) {
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
