// Durations of a layer's passes and messages.

#include <algorithm>
#include <cmath>
#include <optional>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/layer_costs.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {
namespace {

double Num(int64_t n) { return static_cast<double>(n); }

class Coster {
 public:
  Coster(const TransformerConfig& model, const ParallelMapping& mapping,
         const ClusterParameters& cluster)
      : c_(model),
        m_(mapping),
        p_(cluster),
        layer_(model, mapping),
        kernels_(cluster),
        e_(Num(ElementSize(model.dtype))),
        gradient_(Num(GradientBytes(model, mapping))),
        h_(Num(model.hidden)),
        t_(mapping.tensor),
        width_(Num(model.head_size > 0 ? model.heads * model.head_size : model.hidden)),
        kv_(width_ * Num(model.kv_heads > 0 ? model.kv_heads : model.heads) / Num(model.heads)),
        tokens_(Num(model.sequence) * mapping.micro_batch / mapping.context) {}

  PassTimes Run() const {
    PassTimes times;
    const OpCosts costs = CostOps(layer_, m_, p_, times.sources);
    SetExchanges(times, costs.layer);
    SetPasses(times, costs);
    SetIteration(times);
    return times;
  }

 private:
  // The CPU issues kernels one after another; a layer takes no less. `passes`: of a layer's forward
  // or backward pass, how many; a recomputed layer's is two.
  double Issued(double seconds, double passes, int64_t kernels) const {
    return std::max(
        {seconds, passes * p_.launch_floor.seconds(), p_.issue.seconds() * Num(kernels)});
  }

  // Of a layer's forward pass, what its backward pass runs again.
  double Repeated(const PassCost& layer) const {
    switch (m_.recompute) {
      case Recompute::kSelective:
        return layer.attention_core;
      case Recompute::kOperators:
        return layer.forward - layer.attention - layer.products / 2;
      case Recompute::kAlternate:
        return layer.forward / 2;
      case Recompute::kFull:
        return layer.forward;
      default:
        return 0;
    }
  }

  void SetPasses(PassTimes& times, const OpCosts& costs) const {
    const PassCost &before = costs.before, &layer = costs.layer, &after = costs.after;
    const double again = m_.recompute == Recompute::kFull        ? 1
                         : m_.recompute == Recompute::kOperators ? 1
                         : m_.recompute == Recompute::kAlternate ? 0.5
                                                                 : 0;
    const auto kernels =
        layer.backward_kernels + static_cast<int64_t>(again * Num(layer.forward_kernels));
    const double backward = Issued(layer.backward + Repeated(layer), 1 + again, kernels);
    times.layer_forward = SimTime::FromSeconds(Issued(layer.forward, 1, layer.forward_kernels)) +
                          times.Exchanges(true);
    times.layer_backward = SimTime::FromSeconds(backward) + times.Exchanges(false);
    times.layer_weight = SimTime::FromSeconds(layer.weight);
    times.head_forward = SimTime::FromSeconds(after.forward);
    times.head_backward = SimTime::FromSeconds(after.backward);
    times.embedding_forward = SimTime::FromSeconds(before.forward);
    times.embedding_backward = SimTime::FromSeconds(before.backward);
  }

  // Of the tensor-parallel group. Backward one reduction for each that leads into the sharded
  // regions; under sequence parallelism also an all-gather of its input, which is not kept, and
  // both can hide; the gathering of the gradient at the region's end cannot.
  void SetTensorExchanges(PassTimes& times, const PassCost& layer) const {
    const double hidden = tokens_ * h_ * e_;
    times.tensor.bytes = Bytes(static_cast<int64_t>(hidden));
    if (m_.tensor == 1) return;
    times.tensor.time = SimTime::FromSeconds(TensorReduction(hidden));
    // Of experts whose products are divided like others, every visit of a token is gathered and
    // its result reduced; of whole experts none is.
    const bool whole = c_.experts > 0 && m_.expert_width() != m_.tensor;
    const auto region = static_cast<int32_t>(whole ? 0 : c_.experts > 0 ? c_.top_k : 1);
    times.tensor.forward = 1 + region;
    // Recomputed layers wait for their forward reductions once more.
    const int32_t again = m_.recompute == Recompute::kFull        ? 1 + region
                          : m_.recompute == Recompute::kOperators ? 1 + region
                          : m_.recompute == Recompute::kAlternate ? (1 + region) / 2
                                                                  : 0;
    times.tensor.backward = 1 + region + (m_.sequence_parallel ? 1 : 0) + again;
    if (!m_.overlap_tensor || m_.schedule == ScheduleKind::kZeroBubbleH1) return;
    times.tensor_hidden.time = times.tensor.time;
    times.tensor_hidden.bytes = times.tensor.bytes;
    for (const PassCost::Column& column : layer.columns) {
      const double cover = column.weight + (m_.sequence_parallel ? column.input : 0);
      times.tensor_hidden.cover.push_back(SimTime::FromSeconds(cover));
      --times.tensor.backward;
    }
  }

  void SetExchanges(PassTimes& times, const PassCost& layer) const {
    const bool full = m_.recompute == Recompute::kFull;
    const double hidden = tokens_ * h_ * e_;
    SetTensorExchanges(times, layer);
    if (m_.context > 1 && !m_.ring) {
      // Every device gathers the others' keys and values; backward again, then their gradients are
      // reduced and scattered.
      const double own = tokens_ * 2 * kv_ / t_ * e_;
      times.context.bytes = Bytes(static_cast<int64_t>(own * m_.context));
      times.context.time =
          SimTime::FromSeconds(own * (m_.context - 1) / Between(m_.tensor * m_.context) +
                               p_.collective_latency.seconds());
      times.context.forward = 1;
      times.context.backward = full ? 3 : 2;
    }
    if (m_.expert > 1) {
      const double visits = tokens_ * Num(c_.top_k) * h_ * e_ / (m_.sequence_parallel ? t_ : 1);
      times.expert.bytes = Bytes(static_cast<int64_t>(visits));
      times.expert.time = SimTime::FromSeconds(AllToAll(visits));
      times.expert.forward = 2;  // dispatch and combine
      times.expert.backward = full ? 4 : 2;
    }
    times.transfer_bytes = Bytes(static_cast<int64_t>(hidden));
    times.blocking_transfers = p_.blocking_transfers;
    if (m_.pipeline > 1) times.transfer = SimTime::FromSeconds(Transfer(hidden));
    SetDivided(times);
  }

  // Gradients and weights that are divided over the replicas, by layer (ZeRO stages 2 and 3).
  void SetDivided(PassTimes& times) const {
    const int32_t replicas = m_.replicas(), alike = m_.expert_replicas();
    const auto pass = [&](CollectiveOp op, double bytes, int32_t ranks, int32_t span) {
      return SimTime::FromSeconds(RingPass(op, ranks, span, bytes));
    };
    const auto reduce = [&](LayerExchange& exchange, double elements, int32_t ranks, int32_t span) {
      if (m_.zero < 2 || ranks < 2 || elements <= 0) return;
      exchange.bytes = Bytes(static_cast<int64_t>(elements * gradient_));
      exchange.time = pass(CollectiveOp::kReduceScatter, elements * gradient_, ranks, span);
      exchange.backward = 1;
    };
    reduce(times.gradient, m_.lora > 0 ? layer_.adapters() : layer_.dense(), replicas, m_.tensor);
    reduce(times.expert_gradient, m_.lora > 0 ? 0 : layer_.expert(), alike, ExpertSpan());
    if (m_.overlap_gradients && m_.schedule != ScheduleKind::kZeroBubbleH1) {
      times.reduce_behind = times.gradient.time + times.expert_gradient.time;
      times.gradient.backward = times.expert_gradient.backward = 0;
    }
    if (m_.zero < 3) return;
    if (replicas > 1) {
      times.weight_gather =
          pass(CollectiveOp::kAllGather, layer_.dense() * e_, replicas, m_.tensor);
      times.weight_bytes = Bytes(static_cast<int64_t>(layer_.dense() * e_));
    }
    if (alike > 1 && layer_.expert() > 0) {
      times.expert_weight_gather =
          pass(CollectiveOp::kAllGather, layer_.expert() * e_, alike, ExpertSpan());
      times.expert_weight_bytes = Bytes(static_cast<int64_t>(layer_.expert() * e_));
    }
  }

  // Gradients are reduced to where the optimizer's states are, and its new weights gathered: whole
  // all-reduces without division; where gradients are divided already only the weights, where
  // weights are divided too nothing.
  double Reduction(double elements, int32_t ranks, int32_t span) const {
    if (ranks < 2 || elements <= 0 || m_.zero >= 3) return 0;
    const double weights = RingPass(CollectiveOp::kAllGather, ranks, span, elements * e_);
    if (m_.zero == 2) return weights;
    const double gradients = elements * gradient_;
    const double scattered = RingPass(CollectiveOp::kReduceScatter, ranks, span, gradients);
    if (m_.zero == 1) return scattered + weights;
    if (ranks == m_.replicas() && span == m_.tensor) return ReplicaAllReduce(gradients);
    return scattered + RingPass(CollectiveOp::kAllGather, ranks, span, gradients);
  }

  void SetIteration(PassTimes& times) const {
    int64_t most = 0;
    for (int32_t s = 0; s < m_.pipeline; ++s) most = std::max(most, StageLayers(c_, m_, s));
    const double layers = Num(most);
    const bool tied = IsTied(c_);
    const double tables = m_.pipeline > 1 ? std::max(layer_.embedding(), layer_.head())
                                          : layer_.embedding() + (tied ? 0 : layer_.head());
    const bool frozen = m_.lora > 0;
    const double dense = layers * (frozen ? layer_.adapters() : layer_.dense() + tables / layers);
    const double expert = frozen ? 0 : layers * layer_.expert();
    const int32_t replicas = m_.replicas(), alike = m_.expert_replicas();
    times.gradient_bytes = Bytes(static_cast<int64_t>(dense * gradient_));
    times.expert_gradient_bytes = Bytes(static_cast<int64_t>(expert * gradient_));
    times.gradient_reduction = SimTime::FromSeconds(Reduction(dense, replicas, m_.tensor));
    times.expert_reduction = SimTime::FromSeconds(Reduction(expert, alike, ExpertSpan()));
    const double own = m_.zero >= 1 ? dense / replicas + expert / alike : dense + expert;
    const double kept = m_.zero >= 2 ? own : dense + expert;
    times.optimizer = SimTime::FromSeconds(Optimizer(own, kept));
  }

  // Mixed precision: the gradients' norm and clipping, a fused Adam on 32-bit masters, the cast to
  // the model's type, and clearing of the `kept` gradients for the next iteration.
  double Optimizer(double own, double kept) const {
    const auto n = static_cast<int64_t>(own);
    CostSources sources;
    const OperatorCall calls[] = {{ReductionOp{1, n}, DType::kFloat32, Direction::kForward},
                                  {ElementwiseOp{n, n}, DType::kFloat32, Direction::kForward},
                                  {OptimizerOp{n, 1, OptimizerKind::kAdam, OptimizerImpl::kFused},
                                   DType::kFloat32, Direction::kForward}};
    double seconds = 0;
    for (const OperatorCall& call : calls) seconds += kernels_.Seconds(Kernels(call), sources);
    if (e_ < 4) {
      ElementwiseOp cast{n, n};
      cast.output_dtype = c_.dtype;
      seconds += kernels_.Seconds(Kernels({cast, DType::kFloat32, Direction::kForward}), sources);
    }
    const FillOp clear{static_cast<int64_t>(kept)};
    const DType dtype = gradient_ >= 4 ? DType::kFloat32 : c_.dtype;
    return seconds + kernels_.Seconds(Kernels({clear, dtype, Direction::kForward}), sources);
  }

  static double RingShare(double n) { return 2 * (n - 1) / n; }
  // A group whose ranks span `devices` neighbours: within a node, or by each device's adapter.
  double Between(int32_t devices) const {
    return devices <= p_.devices_per_node ? p_.intra_node.bytes_per_second()
                                          : p_.adapter.bytes_per_second();
  }
  std::optional<double> Measured(CollectiveOp op, int32_t ranks, double bytes) const {
    if (p_.measured == nullptr) return std::nullopt;
    const auto time = p_.measured->CollectiveTime(op, ranks, Bytes(static_cast<int64_t>(bytes)));
    return time ? std::optional(time->time.seconds()) : std::nullopt;
  }
  double NodeAllReduce(int32_t ranks, double bytes) const {
    if (const auto time = Measured(CollectiveOp::kAllReduce, ranks, bytes)) return *time;
    return RingShare(ranks) * bytes / p_.intra_node.bytes_per_second() +
           p_.collective_latency.seconds();
  }
  // An all-gather and a reduce-scatter; where they were not measured, as much longer than the
  // all-reduce as by the network's closed forms.
  double NodePasses(int32_t ranks, double bytes) const {
    const auto gather = Measured(CollectiveOp::kAllGather, ranks, bytes);
    const auto scatter = Measured(CollectiveOp::kReduceScatter, ranks, bytes);
    if (gather && scatter) return *gather + *scatter;
    const double longer = p_.intra_node.bytes_per_second() / p_.intra_gather.bytes_per_second();
    return NodeAllReduce(ranks, bytes) * std::max(longer, 1.0);
  }
  // Over the tensor-parallel group, whose ranks are neighbours: an all-reduce, or under sequence
  // parallelism an all-gather and a reduce-scatter, which switches do not speed up. Beyond a node
  // there are as many rings as adapters, each of which enters the node by one adapter and leaves it
  // by another; adapters send and receive at once.
  double TensorReduction(double bytes) const {
    if (m_.tensor <= p_.devices_per_node) {
      return m_.sequence_parallel ? NodePasses(m_.tensor, bytes) : NodeAllReduce(m_.tensor, bytes);
    }
    const double node = std::min(p_.adapter.bytes_per_second() * p_.devices_per_node,
                                 p_.intra_node.bytes_per_second());
    return RingShare(m_.tensor) * bytes / node + 2 * p_.collective_latency.seconds();
  }
  // Messages to members of the own node and of others go at once; the slower part counts.
  double AllToAll(double bytes) const {
    const double local = std::clamp(p_.devices_per_node / m_.expert_width(), 1, m_.expert);
    const double inside = bytes * (local - 1) / m_.expert / p_.intra_node.bytes_per_second();
    const double outside = bytes * (m_.expert - local) / m_.expert / p_.adapter.bytes_per_second();
    return std::max(inside, outside) + p_.collective_latency.seconds();
  }
  // Every tensor-parallel rank sends its share; the receivers gather it within the node.
  double Transfer(double bytes) const {
    double time = bytes / m_.tensor / p_.adapter.bytes_per_second();
    if (m_.tensor > 1 && !m_.sequence_parallel) {
      time += bytes * (m_.tensor - 1) / m_.tensor / p_.intra_node.bytes_per_second();
    }
    return time;
  }
  double ReplicaAllReduce(double bytes) const {
    if (m_.tensor * m_.replicas() <= p_.devices_per_node && p_.measured != nullptr) {
      return NodeAllReduce(m_.replicas(), bytes);
    }
    return RingPass(CollectiveOp::kReduceScatter, m_.replicas(), m_.tensor, bytes) +
           RingPass(CollectiveOp::kAllGather, m_.replicas(), m_.tensor, bytes);
  }
  // Devices from one that holds the same experts to the next.
  int32_t ExpertSpan() const { return m_.expert_width() * m_.expert; }
  // Once around a ring, an all-gather or a reduce-scatter of `bytes` in all; `span` devices lie
  // from one member to the next. The last byte takes a step to each other member, as NCCL's tuner
  // counts them (src/graph/tuning.cc).
  double RingPass(CollectiveOp op, int32_t ranks, int32_t span, double bytes) const {
    if (ranks > 1 && ranks * span <= p_.devices_per_node) {
      if (const auto time = Measured(op, ranks, bytes)) return *time;
    }
    const int32_t inside = std::clamp(p_.devices_per_node / span, 1, ranks);  // members of a node
    const int32_t nodes = (ranks + inside - 1) / inside;
    const double latency =
        p_.step_inside.seconds() * (ranks - nodes) + p_.step_outside.seconds() * (nodes - 1);
    return RingShare(ranks) / 2 * bytes / RingBandwidth(inside, nodes) + latency;
  }
  // Of each of the rings that run side by side: as many enter and leave a node as have members in
  // it, and share its adapters; within the node each device has its own links.
  double RingBandwidth(int32_t inside, int32_t nodes) const {
    const double links = p_.intra_gather.bytes_per_second();
    if (nodes == 1) return links;
    const double adapters = p_.adapter.bytes_per_second() * inside;
    return inside == 1 ? adapters : std::min(adapters, links);
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  MappedLayer layer_;
  KernelCoster kernels_;
  double e_, gradient_, h_, t_, width_, kv_, tokens_;
};

}  // namespace

absl::StatusOr<PassTimes> TimePasses(const TransformerConfig& model, const ParallelMapping& mapping,
                                     const ClusterParameters& cluster) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, mapping, 0));
  if (model.decoder_layers > 0) {
    return InvalidInput(
        "iteration model: models with an encoder and a decoder are not covered; the "
        "searchers over stage graphs are (graphpipe, pipedream, piper, phaze)");
  }
  return Coster(model, mapping, cluster).Run();
}

Flop ModelFlopOf(const TransformerConfig& config) {
  const TransformerConfig c = WithDefaults(config);
  const TransformerGraph model = MakeTransformerGraph(c);
  // Backward multiplies twice as much.
  return Flop(3 * ProductFlop(model.graph, BindTransformer(model, c, {}), c.layers).count());
}

}  // namespace foretrace
