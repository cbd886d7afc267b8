#include "simulator/calibrate/embedding/embedding_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"
#include "simulator/calibrate/least_squares.h"

namespace foretrace {
namespace {

constexpr double kTimeSpread = 0.1;  // of a measured time about the physics, in log
constexpr double kWidest = 4;        // parameters stay within so many spreads of the prior
constexpr double kSoftL1 = 2;        // in units of the spread

struct Sample {
  const TimedLookup* lookup = nullptr;
  EmbeddingTraffic traffic;
};

// log(modelled / measured).
double LogError(const EmbeddingModel& model, const GpuPeaks& device, const Sample& s) {
  return std::log(PredictUs(model, device, s.lookup->sample, s.traffic) / s.lookup->time_us);
}

class ParameterFit {
 public:
  ParameterFit(const GpuPeaks& device, LookupPass pass, const std::vector<Sample>& samples,
               const EmbeddingParameters& prior)
      : device_(device), samples_(samples), prior_(ToArray(prior)) {
    for (size_t i = 0; i < kEmbeddingParameters; ++i) {
      if (EmbeddingPriorSpread(i, pass) > 0 && prior_[i] > 0) free_.push_back(i);
    }
    pass_ = pass;
  }

  absl::StatusOr<EmbeddingModel> Run(uint64_t seed) const {
    LeastSquaresProblem problem;
    problem.residual_count = samples_.size() + free_.size();
    // Parameters in units of their spreads about the prior, in log.
    problem.bounds.assign(free_.size(), {-kWidest, kWidest});
    problem.starts = {std::vector<double>(free_.size(), 0.0)};
    problem.residuals = [this](std::span<const double> at, std::span<double> out) {
      const EmbeddingModel model = ModelAt(at);
      for (size_t i = 0; i < samples_.size(); ++i) {
        out[i] = LogError(model, device_, samples_[i]) / kTimeSpread;
      }
      std::copy(at.begin(), at.end(), out.begin() + static_cast<std::ptrdiff_t>(samples_.size()));
    };
    LeastSquaresOptions options;
    options.soft_l1_scale = kSoftL1;
    options.random_starts = 4;
    options.seed = seed;
    FORETRACE_ASSIGN_OR_RETURN(const LeastSquaresResult result,
                               SolveLeastSquares(problem, options));
    EmbeddingModel model = ModelAt(result.parameters);
    // The longest over the mean: rounding may leave less than 1.
    model.parameters.length_skew = std::max(model.parameters.length_skew, 1.0);
    SetInformed(result.parameters, model);
    return model;
  }

 private:
  EmbeddingModel ModelAt(std::span<const double> at) const {
    EmbeddingParameterArray values = prior_;
    for (size_t i = 0; i < free_.size(); ++i) {
      values[free_[i]] *= std::exp(at[i] * EmbeddingPriorSpread(free_[i], pass_));
    }
    values[1] = std::min(values[1], 1.0);  // an efficiency
    EmbeddingModel model;
    model.parameters = FromArray(values);
    model.points = static_cast<int64_t>(samples_.size());
    return model;
  }

  // The part of the precision of each parameter, taken alone, that the times have: with slopes g of
  // the residuals and a prior of spread 1, g.g / (g.g + 1).
  void SetInformed(std::span<const double> at, EmbeddingModel& model) const {
    constexpr double kStep = 1e-3;
    for (size_t i = 0; i < free_.size(); ++i) {
      std::vector<double> low(at.begin(), at.end()), high = low;
      low[i] -= kStep;
      high[i] += kStep;
      const EmbeddingModel below = ModelAt(low), above = ModelAt(high);
      double precision = 0;
      for (const Sample& s : samples_) {
        const double slope =
            (LogError(above, device_, s) - LogError(below, device_, s)) / (2 * kStep * kTimeSpread);
        precision += slope * slope;
      }
      model.informed[free_[i]] = std::round(1000 * precision / (1 + precision)) / 1000;
    }
  }

  const GpuPeaks& device_;
  const std::vector<Sample>& samples_;
  EmbeddingParameterArray prior_;
  LookupPass pass_ = LookupPass::kForward;
  std::vector<size_t> free_;
};

// Trees on the samples that `use` takes; their spread, for the clip.
absl::Status LearnResidual(const GpuPeaks& device, const std::vector<Sample>& samples,
                           bool (*use)(size_t), EmbeddingModel& model) {
  std::vector<float> features, targets;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!use(i)) continue;
    const LookupSample& s = samples[i].lookup->sample;
    const EmbeddingTime time = model.Time(device, s.query, samples[i].traffic, s.pass);
    const auto x = EmbeddingFeatures(samples[i].traffic, time);
    features.insert(features.end(), x.begin(), x.end());
    targets.push_back(static_cast<float>(-LogError(model, device, samples[i])));
  }
  BoostingOptions options;
  options.depth = 4;
  options.trees = 60;
  options.learning_rate = 0.15;
  const std::vector<float> weights(targets.size(), 1.0F);
  FORETRACE_ASSIGN_OR_RETURN(
      TreeEnsemble trees,
      TrainBoostedTrees(features, static_cast<int>(kEmbeddingFeatures), targets, weights, options));
  std::vector<double> sizes;
  for (const float t : targets) sizes.push_back(std::abs(t));
  model.residual = std::move(trees);
  model.residual_clip = Quantile(std::move(sizes), 0.98);
  return absl::OkStatus();
}

double MeanError(const EmbeddingModel& model, const GpuPeaks& device,
                 const std::vector<Sample>& samples, bool (*use)(size_t)) {
  double sum = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (use(i)) sum += std::abs(std::expm1(LogError(model, device, samples[i])));
  }
  return sum;
}

absl::Status AddResidual(const GpuPeaks& device, const std::vector<Sample>& samples,
                         EmbeddingModel& model) {
  const auto train = [](size_t i) { return i % 3 != 2; };
  const auto test = [](size_t i) { return i % 3 == 2; };
  EmbeddingModel tried = model;
  FORETRACE_RETURN_IF_ERROR(LearnResidual(device, samples, train, tried));
  if (MeanError(tried, device, samples, test) >= MeanError(model, device, samples, test)) {
    return absl::OkStatus();
  }
  return LearnResidual(
      device, samples, [](size_t) { return true; }, model);
}

}  // namespace

double EmbeddingPriorSpread(size_t parameter, LookupPass pass) {
  //                                     base, DRAM, L2, step, skew, sort base, sort bytes
  static constexpr EmbeddingParameterArray kSpreads = {1, 0.2, 0.35, 0.35, 0.7, 1, 0.5};
  const bool forward = pass == LookupPass::kForward;
  if (parameter == 4) return forward ? kSpreads[parameter] : 0;
  if (parameter >= 5) return forward ? 0 : kSpreads[parameter];
  return kSpreads[parameter];
}

double PredictUs(const EmbeddingModel& model, const GpuPeaks& device, const LookupSample& sample,
                 const EmbeddingTraffic& traffic) {
  const EmbeddingTime time = model.Time(device, sample.query, traffic, sample.pass);
  const RealUs part = sample.part == TimedPart::kAll       ? time.total()
                      : sample.part == TimedPart::kKernels ? time.kernel
                                                           : time.sort;
  return sample.calls * std::max(part.us(), 1e-3);
}

absl::StatusOr<EmbeddingModel> FitEmbeddingModel(const GpuPeaks& device, LookupPass pass,
                                                 std::span<const TimedLookup> lookups,
                                                 const EmbeddingParameters& prior,
                                                 const EmbeddingFitOptions& options) {
  if (lookups.empty()) return InvalidInput("no lookups to fit");
  std::vector<Sample> samples;
  for (const TimedLookup& lookup : lookups) {
    samples.push_back({&lookup, TrafficOf(device, lookup.sample.query)});
  }
  FORETRACE_ASSIGN_OR_RETURN(EmbeddingModel model,
                             ParameterFit(device, pass, samples, prior).Run(options.seed));
  model.lower.fill(std::numeric_limits<double>::max());
  for (const Sample& s : samples) {
    const auto at = EmbeddingRangeOf(s.traffic);
    for (size_t i = 0; i < at.size(); ++i) {
      model.lower[i] = std::min(model.lower[i], at[i]);
      model.upper[i] = std::max(model.upper[i], at[i]);
    }
  }
  if (options.with_residual && samples.size() >= kResidualPoints) {
    FORETRACE_RETURN_IF_ERROR(AddResidual(device, samples, model));
  }
  return model;
}

}  // namespace foretrace
