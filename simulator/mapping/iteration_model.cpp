#include "simulator/mapping/iteration_model.h"

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// Passes over the attention matrix: scores written, read by the mask and softmax, written, read by
// dropout, written, read by the second product; backward as in the layer graph.
constexpr double kMatrixPassesForward = 6;
constexpr double kMatrixPassesBackward = 10;
// Elementwise traffic of a layer in units of the hidden activation: norms, residuals and dropout are
// replicated without sequence parallelism; the activation function and biases are divided.
constexpr double kReplicatedPasses = 10;
constexpr double kDividedPasses = 12;
constexpr double kBackwardElementwise = 1.5;
// Reads and writes of weights, gradients and moments in mixed precision.
constexpr double kOptimizerBytes = 20;

class Coster {
 public:
  Coster(const TransformerConfig& model, const ParallelMapping& mapping,
         const ClusterParameters& cluster)
      : c_(model), m_(mapping), p_(cluster) {}

  PassTimes Run() const {
    const double h = Num(c_.hidden), tokens = Tokens();
    const double width = Num(c_.head_size > 0 ? c_.heads * c_.head_size : c_.hidden);
    const double kv = width * Num(c_.kv_heads > 0 ? c_.kv_heads : c_.heads) / Num(c_.heads);
    const double ffn = Num(c_.ffn > 0 ? c_.ffn : 4 * c_.hidden);
    const bool gated = c_.family == TransformerFamily::kLlama;
    const double t = m_.tensor;
    const double products = Matrix(tokens, (width + 2 * kv) / t, h) + Matrix(tokens, h, width / t) +
                            Matrix(tokens, (gated ? 2 : 1) * ffn / t, h) + Matrix(tokens, h, ffn / t);
    const double scores = 4 * tokens * Num(c_.sequence) * width / t / Rate();
    const double matrix = c_.fused_attention ? 0
                                             : Num(c_.heads) / t * Num(c_.sequence) *
                                                   Num(c_.sequence) * m_.micro_batch * 2;
    const double core = scores + kMatrixPassesForward * matrix / Memory();
    const double core_backward = 2 * scores + kMatrixPassesBackward * matrix / Memory();
    const double replicated = kReplicatedPasses / (m_.sequence_parallel ? t : 1);
    const double elementwise = tokens * h * 2 * (replicated + kDividedPasses / t) / Memory();

    const double reduction = AllReduce(tokens * h * 2);
    const double floor = p_.launch_floor.seconds();
    double forward = std::max(products + core + elementwise, floor);
    double backward = std::max(
        2 * products + core_backward + kBackwardElementwise * elementwise, floor);
    PassTimes times;
    // Under sequence parallelism the all-gather is repeated instead of its output kept.
    if (m_.sequence_parallel) ++times.backward_reductions;
    if (m_.recompute == Recompute::kFull) {
      backward += forward;
      times.backward_reductions += 2;
    }
    if (m_.recompute == Recompute::kSelective) backward += core;

    times.tensor_reduction = SimTime::FromSeconds(reduction);
    times.tensor_bytes = Bytes(static_cast<int64_t>(tokens * h * 2));
    times.layer_forward =
        SimTime::FromSeconds(forward) + SimTime::FromPs(2 * times.tensor_reduction.ps());
    times.layer_backward =
        SimTime::FromSeconds(backward) +
        SimTime::FromPs(times.backward_reductions * times.tensor_reduction.ps());
    const double head = Matrix(tokens, Num(c_.vocabulary) / t, h);
    const double loss = 8 * tokens * Num(c_.vocabulary) / t / Memory();
    times.head_forward = SimTime::FromSeconds(head + loss);
    times.head_backward = SimTime::FromSeconds(2 * head + loss);
    if (m_.pipeline > 1) times.transfer = SimTime::FromSeconds(Transfer(tokens * h * 2));
    const double parameters =
        (Num(c_.layers) / m_.pipeline *
             (h * (width + 2 * kv) + width * h + (gated ? 3 : 2) * h * ffn) +
         Num(c_.vocabulary) * h) / t;
    times.gradient_reduction = SimTime::FromSeconds(GradientReduction(parameters * 2));
    times.gradient_bytes = Bytes(static_cast<int64_t>(parameters * 2));
    times.optimizer = SimTime::FromSeconds(
        parameters * kOptimizerBytes / (m_.distributed_optimizer ? m_.data : 1) / Memory());
    return times;
  }

 private:
  static double Num(int64_t n) { return static_cast<double>(n); }
  double Tokens() const { return Num(c_.sequence) * m_.micro_batch; }
  double Rate() const { return p_.peak.per_second() * p_.matrix_efficiency; }
  double Memory() const { return p_.peak_memory.bytes_per_second() * p_.memory_efficiency; }

  double Matrix(double m, double n, double k) const {
    return 2 * m * n * k / Rate() * (1 + p_.matrix_half_size / std::min({m, n, k}));
  }
  static double RingShare(double n) { return 2 * (n - 1) / n; }
  // Over the tensor-parallel group, whose ranks are neighbours. Beyond a node half of the node's
  // adapters carry the ring in each direction.
  double AllReduce(double bytes) const {
    if (m_.tensor == 1) return 0;
    if (m_.tensor <= p_.devices_per_node) {
      return RingShare(m_.tensor) * bytes / p_.intra_node.bytes_per_second() +
             p_.collective_latency.seconds();
    }
    const double node = p_.adapter.bytes_per_second() * p_.devices_per_node / 2;
    return RingShare(m_.tensor) * bytes / node + 2 * p_.collective_latency.seconds();
  }
  // Every tensor-parallel rank sends its share; the receivers gather it within the node.
  double Transfer(double bytes) const {
    double time = bytes / m_.tensor / p_.adapter.bytes_per_second();
    if (m_.tensor > 1 && !m_.sequence_parallel) {
      time += bytes * (m_.tensor - 1) / m_.tensor / p_.intra_node.bytes_per_second();
    }
    return time;
  }
  double GradientReduction(double bytes) const {
    if (m_.data == 1) return 0;
    if (m_.tensor * m_.data <= p_.devices_per_node) {
      return RingShare(m_.data) * bytes / p_.intra_node.bytes_per_second();
    }
    // As many groups leave each node as tensor-parallel ranks lie in it, and share its adapters.
    const double groups = std::min(p_.devices_per_node, m_.tensor);
    return RingShare(m_.data) * bytes * groups /
           (p_.adapter.bytes_per_second() * p_.devices_per_node);
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
};

}  // namespace

absl::StatusOr<PassTimes> TimePasses(const TransformerConfig& model, const ParallelMapping& mapping,
                                     const ClusterParameters& cluster) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, mapping, 0));
  if (model.experts > 0 || model.decoder_layers > 0) {
    return InvalidInput("iteration model: only dense models of one stack are covered");
  }
  return Coster(model, mapping, cluster).Run();
}

absl::StatusOr<TimedPipeline> PipelineOf(const TransformerConfig& model,
                                         const ParallelMapping& m, const PassTimes& passes) {
  TimedPipeline pipeline;
  const int32_t count = m.microbatches();
  pipeline.mini_batch = count;  // in micro-batches
  const auto layers = model.layers / (int64_t{m.pipeline} * m.chunks);
  const SimTime forward = SimTime::FromPs(passes.layer_forward.ps() * layers);
  const SimTime backward = SimTime::FromPs(passes.layer_backward.ps() * layers);
  for (int32_t s = 0; s < m.pipeline; ++s) {
    TimedStage stage;
    if (m.chunks > 1) {
      FORETRACE_ASSIGN_OR_RETURN(stage.passes, InterleavedSchedule(count, m.pipeline, s, m.chunks));
    } else if (m.schedule == ScheduleKind::kGPipe) {
      stage.passes = GPipeSchedule(count);
    } else {
      stage.passes = KFKBSchedule(count, 1, std::min(count, m.pipeline - s));
    }
    stage.forward.assign(static_cast<size_t>(m.chunks), forward);
    stage.backward.assign(static_cast<size_t>(m.chunks), backward);
    for (int32_t c = 0; c < m.chunks; ++c) {
      if (s > 0) pipeline.edges.push_back({s - 1, c, s, c, passes.transfer, passes.transfer});
      if (s == 0 && c > 0) {
        pipeline.edges.push_back({m.pipeline - 1, c - 1, 0, c, passes.transfer, passes.transfer});
      }
    }
    pipeline.stages.push_back(std::move(stage));
  }
  pipeline.stages.back().forward.back() += passes.head_forward;
  pipeline.stages.back().backward.back() += passes.head_backward;
  return pipeline;
}

absl::StatusOr<IterationEstimate> EstimateIteration(const TransformerConfig& model,
                                                    const ParallelMapping& mapping,
                                                    const ClusterParameters& cluster) {
  IterationEstimate out;
  FORETRACE_ASSIGN_OR_RETURN(out.passes, TimePasses(model, mapping, cluster));
  FORETRACE_ASSIGN_OR_RETURN(const TimedPipeline pipeline, PipelineOf(model, mapping, out.passes));
  FORETRACE_ASSIGN_OR_RETURN(const PipelineTiming timing, TimePipeline(pipeline));
  out.pipeline = timing.end;
  out.time = timing.end + out.passes.gradient_reduction + out.passes.optimizer;
  double busy = 0;
  for (const SimTime t : timing.stage_busy) busy += t.seconds();
  out.bubble = 1 - busy / (timing.end.seconds() * mapping.pipeline);
  // Korthikanti et al. (2022), appendix A: 72 B l s h^2 (1 + s / 6h + V / 12 l h).
  const auto h = static_cast<double>(model.hidden), l = static_cast<double>(model.layers);
  const auto s = static_cast<double>(model.sequence), v = static_cast<double>(model.vocabulary);
  const double flop =
      72.0 * mapping.global_batch * l * s * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  out.model_flop_utilisation = flop / (out.time.seconds() * cluster.peak.per_second() *
                                       static_cast<double>(mapping.devices()));
  return out;
}

}  // namespace foretrace
