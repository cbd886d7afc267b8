// Durations of a layer's passes and messages.

#include <algorithm>
#include <cmath>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {
namespace {

// Passes over the attention matrix: scores written, read by the mask and softmax, written, read by
// dropout, written, read by the second product; backward as in the layer graph.
constexpr double kMatrixPassesForward = 6;
constexpr double kMatrixPassesBackward = 10;
// Elementwise traffic of a layer in units of the hidden activation: norms, residuals and dropout
// are replicated without sequence parallelism; the activation function and biases are divided.
constexpr double kReplicatedPasses = 10;
constexpr double kDividedPasses = 12;
constexpr double kBackwardElementwise = 1.5;
// Reads and writes of weights, gradients and moments in mixed precision.
constexpr double kOptimizerBytes = 20;

double Num(int64_t n) { return static_cast<double>(n); }

class Coster {
 public:
  Coster(const TransformerConfig& model, const ParallelMapping& mapping,
         const ClusterParameters& cluster)
      : c_(model),
        m_(mapping),
        p_(cluster),
        e_(Num(ElementSize(model.dtype))),
        h_(Num(model.hidden)),
        t_(mapping.tensor),
        width_(Num(model.head_size > 0 ? model.heads * model.head_size : model.hidden)),
        kv_(width_ * Num(model.kv_heads > 0 ? model.kv_heads : model.heads) / Num(model.heads)),
        ffn_(Num(model.ffn > 0 ? model.ffn : 4 * model.hidden)),
        tokens_(Num(model.sequence) * mapping.micro_batch / mapping.context) {}

  PassTimes Run() const {
    PassTimes times;
    SetExchanges(times);
    SetLayer(times);
    SetHead(times);
    SetIteration(times);
    return times;
  }

 private:
  bool Gated() const { return c_.family == TransformerFamily::kLlama; }
  double Rate() const { return p_.peak.per_second() * p_.matrix_efficiency; }
  double Memory() const { return p_.peak_memory.bytes_per_second() * p_.memory_efficiency; }

  double Matrix(double m, double n, double k) const {
    if (p_.measured != nullptr) {
      const auto seconds =
          p_.measured->ProductSeconds(std::llround(m), std::llround(n), std::llround(k));
      if (seconds) return *seconds * p_.product_slowdown;
    }
    return 2 * m * n * k / Rate() * (1 + p_.matrix_half_size / std::min({m, n, k}));
  }

  double FeedForward() const {
    const double up = Gated() ? 2 : 1;
    if (c_.experts == 0) {
      return Matrix(tokens_, up * ffn_ / t_, h_) + Matrix(tokens_, h_, ffn_ / t_);
    }
    // Tokens are spread evenly. With few tokens per expert, reading the weights takes longer.
    const double visits = tokens_ * Num(c_.top_k);
    const double weights = Num(c_.experts) / m_.expert * (up + 1) * ffn_ * h_ / t_ * e_;
    return std::max(Matrix(visits, up * ffn_ / t_, h_) + Matrix(visits, h_, ffn_ / t_),
                    weights / Memory()) +
           Matrix(tokens_, Num(c_.experts), h_);
  }

  void SetLayer(PassTimes& times) const {
    const double products = Matrix(tokens_, (width_ + 2 * kv_) / t_, h_) +
                            Matrix(tokens_, h_, width_ / t_) + FeedForward();
    const double scores = 4 * tokens_ * Num(c_.sequence) * width_ / t_ / Rate();
    const double matrix =
        c_.fused_attention ? 0 : Num(c_.heads) / t_ * Num(c_.sequence) * tokens_ * e_;
    const double core = scores + kMatrixPassesForward * matrix / Memory();
    const double core_backward = 2 * scores + kMatrixPassesBackward * matrix / Memory();
    const double replicated = kReplicatedPasses / (m_.sequence_parallel ? t_ : 1);
    const double elementwise = tokens_ * h_ * e_ * (replicated + kDividedPasses / t_) / Memory();
    const double floor = p_.launch_floor.seconds();
    const double forward = std::max(products + core + elementwise, floor);
    double backward =
        std::max(2 * products + core_backward + kBackwardElementwise * elementwise, floor);
    if (m_.recompute == Recompute::kFull) backward += forward;
    if (m_.recompute == Recompute::kSelective) backward += core;
    times.layer_forward = SimTime::FromSeconds(forward) + times.Exchanges(true);
    times.layer_backward = SimTime::FromSeconds(backward) + times.Exchanges(false);
    times.layer_weight = SimTime::FromSeconds(products);
  }

  void SetHead(PassTimes& times) const {
    const double head = Matrix(tokens_, Num(c_.vocabulary) / t_, h_);
    const double loss = 8 * tokens_ * Num(c_.vocabulary) / t_ / Memory();
    times.head_forward = SimTime::FromSeconds(head + loss);
    times.head_backward = SimTime::FromSeconds(2 * head + loss);
  }

  void SetExchanges(PassTimes& times) const {
    const bool full = m_.recompute == Recompute::kFull;
    const double hidden = tokens_ * h_ * e_;
    times.tensor.bytes = Bytes(static_cast<int64_t>(hidden));
    if (m_.tensor > 1) {
      times.tensor.time = SimTime::FromSeconds(TensorAllReduce(hidden));
      times.tensor.forward = 2;
      // Under sequence parallelism the all-gather is repeated instead of its output kept.
      times.tensor.backward = 2 + (m_.sequence_parallel ? 1 : 0) + (full ? 2 : 0);
    }
    if (m_.context > 1) {
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
    if (m_.pipeline > 1) times.transfer = SimTime::FromSeconds(Transfer(hidden));
    SetDivided(times);
  }

  // Gradients and weights that are divided over the replicas, by layer (ZeRO stages 2 and 3).
  void SetDivided(PassTimes& times) const {
    const LayerParameters layer = LayerParametersOf(c_);
    const double dense = (layer.attention + (c_.experts > 0 ? 0 : layer.ffn)) / t_ * e_;
    const double expert = c_.experts > 0 ? layer.ffn * layer.copies / m_.expert / t_ * e_ : 0;
    const int32_t replicas = m_.replicas(), alike = replicas / m_.expert;
    const auto reduce = [&](LayerExchange& exchange, double bytes, int32_t ranks) {
      if (m_.zero < 2 || ranks < 2 || bytes <= 0) return;
      exchange.bytes = Bytes(static_cast<int64_t>(bytes));
      exchange.time = SimTime::FromSeconds(RingPass(ranks, replicas / ranks, bytes));
      exchange.backward = 1;
    };
    reduce(times.gradient, dense, replicas);
    reduce(times.expert_gradient, expert, alike);
    if (m_.zero < 3) return;
    times.weight_gather = times.gradient.time;
    times.weight_bytes = times.gradient.bytes;
    times.expert_weight_gather = times.expert_gradient.time;
    times.expert_weight_bytes = times.expert_gradient.bytes;
  }

  void SetIteration(PassTimes& times) const {
    const LayerParameters layer = LayerParametersOf(c_);
    const double layers = Num(c_.layers) / m_.pipeline;
    const double dense =
        (layers * (layer.attention + (c_.experts > 0 ? 0 : layer.ffn)) + Num(c_.vocabulary) * h_) /
        t_;
    const double expert = c_.experts > 0 ? layers * layer.ffn * layer.copies / m_.expert / t_ : 0;
    times.gradient_bytes = Bytes(static_cast<int64_t>(dense * e_));
    times.expert_gradient_bytes = Bytes(static_cast<int64_t>(expert * e_));
    // Whole all-reduces; with divided gradients only the new weights are gathered at the end, with
    // divided weights nothing.
    const double share = m_.zero >= 3 ? 0 : m_.zero == 2 ? 0.5 : 1;
    if (m_.replicas() > 1) {
      times.gradient_reduction = SimTime::FromSeconds(share * ReplicaAllReduce(dense * e_));
    }
    if (c_.experts > 0 && m_.replicas() > m_.expert) {
      times.expert_reduction = SimTime::FromSeconds(
          share * 2 * RingPass(m_.replicas() / m_.expert, m_.expert, expert * e_));
    }
    const double divided =
        m_.zero >= 1 ? dense / m_.replicas() + expert * m_.expert / m_.replicas() : dense + expert;
    times.optimizer = SimTime::FromSeconds(divided * kOptimizerBytes / Memory());
  }

  static double RingShare(double n) { return 2 * (n - 1) / n; }
  // A group whose ranks span `devices` neighbours: within a node, or by each device's adapter.
  double Between(int32_t devices) const {
    return devices <= p_.devices_per_node ? p_.intra_node.bytes_per_second()
                                          : p_.adapter.bytes_per_second();
  }
  double NodeAllReduce(int32_t ranks, double bytes) const {
    if (p_.measured != nullptr) {
      const auto seconds = p_.measured->AllReduceSeconds(ranks, Bytes(static_cast<int64_t>(bytes)));
      if (seconds) return *seconds;
    }
    return RingShare(ranks) * bytes / p_.intra_node.bytes_per_second() +
           p_.collective_latency.seconds();
  }
  // Over the tensor-parallel group, whose ranks are neighbours. Beyond a node there are as many
  // rings as adapters, each of which enters the node by one adapter and leaves it by another;
  // adapters send and receive at once.
  double TensorAllReduce(double bytes) const {
    if (m_.tensor <= p_.devices_per_node) return NodeAllReduce(m_.tensor, bytes);
    const double node = std::min(p_.adapter.bytes_per_second() * p_.devices_per_node,
                                 p_.intra_node.bytes_per_second());
    return RingShare(m_.tensor) * bytes / node + 2 * p_.collective_latency.seconds();
  }
  // Messages to members of the own node and of others go at once; the slower part counts.
  double AllToAll(double bytes) const {
    const double local = std::clamp(p_.devices_per_node / m_.tensor, 1, m_.expert);
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
    return 2 * RingPass(m_.replicas(), 1, bytes);
  }
  // Once around a ring, an all-gather or a reduce-scatter of `bytes` in all: replicas that are
  // `stride` apart among all replicas, each of which is a group of tensor-parallel neighbours. The
  // last byte takes a step to each other member, as NCCL's tuner counts them (src/graph/tuning.cc).
  double RingPass(int32_t ranks, int32_t stride, double bytes) const {
    const int32_t span = m_.tensor * stride;  // devices from one member to the next
    const int32_t inside = std::clamp(p_.devices_per_node / span, 1, ranks);  // members of a node
    const int32_t nodes = (ranks + inside - 1) / inside;
    const double latency =
        p_.step_inside.seconds() * (ranks - nodes) + p_.step_outside.seconds() * (nodes - 1);
    return RingShare(ranks) / 2 * bytes / RingBandwidth(inside, nodes) + latency;
  }
  // Of each of the rings that run side by side: as many enter and leave a node as have members in
  // it, and share its adapters; within the node each device has its own links.
  double RingBandwidth(int32_t inside, int32_t nodes) const {
    const double links = p_.intra_node.bytes_per_second();
    if (nodes == 1) return links;
    const double adapters = p_.adapter.bytes_per_second() * inside;
    return inside == 1 ? adapters : std::min(adapters, links);
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  double e_, h_, t_, width_, kv_, ffn_, tokens_;
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

Flop ModelFlopOf(const TransformerConfig& c) {
  const LayerParameters layer = LayerParametersOf(c);
  const double active = c.experts > 0 ? Num(c.top_k) : 1;
  const double width = Num(c.head_size > 0 ? c.heads * c.head_size : c.hidden);
  const double router = Num(c.experts) * Num(c.hidden);
  const double token = Num(c.layers) * (2 * (layer.attention + layer.ffn * active + router) +
                                        4 * Num(c.sequence) * width) +
                       2 * Num(c.hidden) * Num(c.vocabulary);
  return Flop(3 * token * Num(c.sequence));
}

}  // namespace foretrace
