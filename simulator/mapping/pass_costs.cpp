// Durations of a layer's passes and messages.

#include <algorithm>
#include <memory>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/device_spread.h"
#include "simulator/mapping/exchange_costs.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/layer_costs.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/mapping/optimizer_costs.h"

namespace foretrace {
namespace {

double Num(int64_t n) { return static_cast<double>(n); }

class Coster {
 public:
  Coster(const TransformerConfig& model, const ParallelMapping& mapping,
         const ClusterParameters& cluster, const SharedGraph& graph = nullptr)
      : c_(model),
        m_(mapping),
        p_(cluster),
        layer_(model, mapping, graph),
        kernels_(cluster),
        groups_(mapping, cluster, status_),
        e_(Num(ElementSize(model.dtype))),
        gradient_(Num(GradientBytes(model, mapping))),
        host_(mapping, cluster, e_, gradient_),
        h_(Num(model.hidden)),
        t_(mapping.tensor),
        tokens_(Num(model.sequence) * mapping.micro_batch / mapping.context) {}

  // Errors: an exchange that the network cannot time.
  absl::StatusOr<PassTimes> Run() const {
    PassTimes times;
    const OpCosts costs = CostOps(layer_, m_, p_, groups_, times.sources);
    SetExchanges(times, costs.layer);
    SetPasses(times, costs);
    SetIteration(times);
    FORETRACE_RETURN_IF_ERROR(status_);
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
        return layer.forward - layer.attention - layer.alternate;
      case Recompute::kAlternate:
        return (layer.forward - layer.beside) / 2;
      case Recompute::kFull:
        return layer.forward - layer.beside;
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
    times.layer_forward += SimTime::FromSeconds(costs.layer_copies.weights);
    times.layer_backward +=
        SimTime::FromSeconds(costs.layer_copies.weights + costs.layer_copies.gradients);
    if (!p_.gathers_ahead) WaitForGathers(times);
    SlowDown(times);
    times.layer_weight = SimTime::FromSeconds(layer.weight);
    const ShardCopies &first = costs.first_copies, &last = costs.last_copies;
    times.head_forward = SimTime::FromSeconds(after.forward + last.weights);
    times.head_backward = SimTime::FromSeconds(after.backward + last.gradients);
    times.embedding_forward = SimTime::FromSeconds(before.forward + first.weights);
    times.embedding_backward = SimTime::FromSeconds(before.backward + first.gradients);
    AddEndsExchanges(times);
    if (c_.further_tokens > 0) AddFurtherTokens(times);
  }

  void AddEndsExchanges(PassTimes& times) const {
    const PassExchanges &embedding = times.embedding_exchanges, &head = times.head_exchanges;
    times.embedding_forward += embedding.Sum(true);
    times.embedding_backward += embedding.Sum(false);
    times.head_forward += head.Sum(true);
    times.head_backward += head.Sum(false);
  }

  // Each predicted token beyond the next: a product that joins a layer's result with the following
  // token's embedding, a layer, the output layer.
  void AddFurtherTokens(PassTimes& times) const {
    const LinearOp join = FurtherTokenJoin(c_, static_cast<int64_t>(tokens_), m_.tensor);
    const auto add = [&](SimTime& head, SimTime layer, Direction pass) {
      const double seconds = kernels_.Seconds(Kernels({join, c_.dtype, pass}), times.sources);
      const SimTime each = head + layer + SimTime::FromSeconds(seconds);
      head += SimTime::FromPs(each.ps() * c_.further_tokens);
    };
    add(times.head_forward, times.layer_forward, Direction::kForward);
    add(times.head_backward, times.layer_backward, Direction::kBackward);
    PassExchanges& head = times.head_exchanges;
    const auto further = static_cast<int32_t>(c_.further_tokens);
    for (PassExchanges::List* list : {&head.forward, &head.backward}) {
      for (PassExchange& e : *list) e.count *= 1 + further;
      const SimTime of_layer = times.Exchanges(list == &head.forward);
      list->push_back({{}, CollectiveOp::kUnknown, of_layer, Bytes(), further});
    }
  }

  void WaitForGathers(PassTimes& times) const {
    const int64_t again = m_.recompute == Recompute::kFull ? 2 : 1;
    times.layer_forward += times.Gather();
    times.layer_backward += SimTime::FromPs(times.Gather().ps() * again);
    times.waited_gathers = times.Gather();
    times.waited_backward = SimTime::FromPs(times.Gather().ps() * again);
    times.weight_gather = times.expert_weight_gather = SimTime();
  }

  // Kernels beside collectives: over the replicas, and those of tensor parallelism that a backward
  // pass hides. Userbuffers take few multiprocessors and copy by engines of their own; what one
  // neighbour sends another has few channels.
  void SlowDown(PassTimes& times) const {
    const auto slower = [&](SimTime beside) {
      return SimTime::FromSeconds(p_.overlap_slowdown * beside.seconds());
    };
    const SimTime behind = times.Gather() + times.reduce_behind;
    times.layer_forward += slower(std::min(times.layer_forward, times.Gather()));
    times.layer_backward += slower(std::min(times.layer_backward, behind));
    if (m_.chunked_tensor) return;
    const PassExchanges::List& exchanges = times.layer_exchanges.backward;
    for (size_t i = 0; i < exchanges.size() && exchanges[i].beside;) {
      const bool tensor = exchanges[i].group == ShardGroup::kTensor;
      const SimTime cover = exchanges[i].cover;
      SimTime time = exchanges[i].time;
      for (++i; i < exchanges.size() && exchanges[i].goes_on; ++i) time += exchanges[i].time;
      if (!tensor) continue;
      times.layer_backward += slower(std::min(cover, time));
    }
  }

  void SetExchanges(PassTimes& times, const PassCost& layer) const {
    SetGraphExchanges(c_, m_, layer_, groups_, layer, p_.forms, times);
    const double hidden = tokens_ * h_ * e_;
    times.transfer_bytes = Bytes(static_cast<int64_t>(hidden));
    times.blocking_transfers = p_.blocking_transfers;
    times.blocking_chunks = p_.blocking_chunks;
    if (m_.pipeline > 1) times.transfer = SimTime::FromSeconds(groups_.Transfer(hidden));
    if (m_.fp8 && p_.reduces_scales && m_.tensor * m_.replicas() > 1) {
      times.scale_reduction = SimTime::FromSeconds(groups_.SmallAllReduce());
    }
    SetDivided(times);
    SetRoots(times);
  }

  void SetRoots(PassTimes& times) const {
    if (m_.zero < 2 || m_.replicas() < 2) return;
    const auto [first, last] = layer_.RootWeights();
    const auto exchange = [&](double elements) {
      RootExchange root;
      if (m_.zero >= 3) root.weights = Bytes(static_cast<int64_t>(elements * e_));
      if (m_.trains_ends()) root.gradients = Bytes(static_cast<int64_t>(elements * gradient_));
      if (root.weights > Bytes()) {
        root.gather = SimTime::FromSeconds(host_.Weights(elements / m_.shards()) +
                                           groups_.Collective(CollectiveOp::kAllGather,
                                                              {m_.shards(), m_.tensor},
                                                              Num(root.weights.count())));
      }
      if (root.gradients > Bytes()) {
        root.reduce = SimTime::FromSeconds(groups_.ReduceToShards(Num(root.gradients.count())) +
                                           host_.Gradients(elements / m_.shards()));
      }
      return root;
    };
    times.first_root = exchange(first);
    times.last_root = exchange(last);
  }

  // Gradients and weights that are divided over the replicas, by layer (ZeRO stages 2 and 3).
  void SetDivided(PassTimes& times) const {
    const int32_t replicas = m_.replicas(), alike = m_.expert_replicas();
    const auto pass = [&](CollectiveOp op, double bytes, int32_t ranks, int32_t span) {
      return SimTime::FromSeconds(groups_.Collective(op, {ranks, span}, bytes));
    };
    const auto reduce = [&](LayerExchange& exchange, double elements, int32_t ranks,
                            const auto& seconds) {
      if (m_.zero < 2 || ranks < 2 || elements <= 0) return;
      exchange.bytes = Bytes(static_cast<int64_t>(elements * gradient_));
      exchange.time = SimTime::FromSeconds(
          seconds(elements * gradient_) + host_.Gradients(elements / std::min(ranks, m_.shards())));
      exchange.waited = true;
    };
    reduce(times.gradient, layer_.trained(), replicas,
           [&](double bytes) { return groups_.ReduceToShards(bytes); });
    reduce(times.expert_gradient, layer_.trained_expert(), alike, [&](double bytes) {
      return groups_.Collective(CollectiveOp::kReduceScatter, {alike, groups_.ExpertSpan()}, bytes);
    });
    if (m_.overlap_gradients && m_.schedule != ScheduleKind::kZeroBubbleH1) {
      times.reduce_behind = times.gradient.time + times.expert_gradient.time;
      times.gradient.waited = times.expert_gradient.waited = false;
    }
    if (m_.zero < 3) return;
    if (replicas > 1) {
      const double bytes = layer_.dense() * (m_.fp8 && p_.eight_bit_gathers ? 1 : e_);
      times.weight_gather = pass(CollectiveOp::kAllGather, bytes, m_.shards(), m_.tensor) +
                            SimTime::FromSeconds(host_.Weights(layer_.dense() / m_.shards()));
      times.weight_bytes = Bytes(static_cast<int64_t>(bytes));
    }
    if (alike > 1 && layer_.expert() > 0) {
      times.expert_weight_gather =
          pass(CollectiveOp::kAllGather, layer_.expert() * e_, alike, groups_.ExpertSpan()) +
          SimTime::FromSeconds(host_.Weights(layer_.expert() / alike));
      times.expert_weight_bytes = Bytes(static_cast<int64_t>(layer_.expert() * e_));
    }
  }

  // Gradients are reduced to where the optimizer's states are, and its new weights gathered: whole
  // all-reduces without division; where gradients are divided already only the weights, where
  // weights are divided too nothing.
  double Reduction(double elements, int32_t ranks, int32_t span) const {
    if (ranks < 2 || elements <= 0 || m_.zero >= 3) return 0;
    const SpacedGroup group{ranks, span};
    const double gradients = elements * gradient_;
    if (m_.zero == 0) return groups_.Collective(CollectiveOp::kAllReduce, group, gradients);
    const double weights = groups_.Collective(CollectiveOp::kAllGather, group, elements * e_);
    if (m_.zero == 2) return weights;
    if (p_.whole_reductions && m_.pipeline > 1 && c_.dtype == DType::kBFloat16) {
      return groups_.Collective(CollectiveOp::kAllReduce, group, gradients) + weights;
    }
    return groups_.Collective(CollectiveOp::kReduceScatter, group, gradients) + weights;
  }

  // Megatron Core, distributed/finalize_model_grads.py, _allreduce_word_embedding_grads; DeepSpeed,
  // runtime/pipe/engine.py, _exec_reduce_tied_grads.
  void SetTied(PassTimes& times) const {
    if (m_.pipeline == 1 || !IsTied(c_) || !m_.trains_ends() || m_.zero >= 2) return;
    const double bytes = Num(c_.vocabulary) / t_ * h_ * gradient_;
    const int32_t span = m_.devices() / m_.pipeline * (m_.pipeline - 1);
    times.tied_bytes = Bytes(static_cast<int64_t>(bytes));
    times.tied_reduction =
        SimTime::FromSeconds(groups_.Collective(CollectiveOp::kAllReduce, {2, span}, bytes));
  }

  void SetIteration(PassTimes& times) const {
    int64_t most = 0;
    for (int32_t s = 0; s < m_.pipeline; ++s) {
      const int64_t further = s + 1 == m_.pipeline ? c_.further_tokens : 0;
      most = std::max(most, StageTrainedLayers(c_, m_, s) + further);
    }
    const double layers = Num(most);
    const auto [first, last] = layer_.RootWeights();
    const double tables = std::max(first, last);
    const double dense = layers * layer_.trained() + (m_.trains_ends() ? tables : 0);
    const double expert = layers * layer_.trained_expert();
    const int32_t replicas = m_.replicas(), alike = m_.expert_replicas();
    times.gradient_bytes = Bytes(static_cast<int64_t>(dense * gradient_));
    times.expert_gradient_bytes = Bytes(static_cast<int64_t>(expert * gradient_));
    times.gradient_reduction = SimTime::FromSeconds(Reduction(dense, replicas, m_.tensor));
    times.expert_reduction = SimTime::FromSeconds(Reduction(expert, alike, groups_.ExpertSpan()));
    SetTied(times);
    const double own = m_.zero >= 1 ? dense / m_.shards() + expert / alike : dense + expert;
    const double kept = m_.zero >= 2 ? own : dense + expert;
    const OptimizerCosts optimizer(c_, m_, p_, host_);
    times.optimizer = SimTime::FromSeconds(optimizer.Seconds(own, kept));
    if (!ReducesByLayer(m_)) return;
    // What the reductions behind the last backward pass take from it.
    const double beside = std::min((times.gradient_reduction + times.expert_reduction).seconds(),
                                   layers * times.layer_backward.seconds());
    times.optimizer += SimTime::FromSeconds(p_.overlap_slowdown * beside);
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  MappedLayer layer_;
  KernelCoster kernels_;
  absl::Status status_;  // of the first exchange that cannot be timed
  GroupCosts groups_;
  double e_, gradient_;
  HostCosts host_;
  double h_, t_, tokens_;
};

}  // namespace

absl::StatusOr<PassTimes> TimePasses(const TransformerConfig& model, const ParallelMapping& mapping,
                                     const ClusterParameters& cluster, const SharedGraph& graph) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, mapping, 0));
  if (model.decoder_layers > 0) {
    return InvalidInput(
        "iteration model: models with an encoder and a decoder are not covered; the "
        "searchers over stage graphs are (graphpipe, pipedream, piper, phaze)");
  }
  if ((mapping.mxfp8 || mapping.nvfp4) && cluster.four_bit_share == 0) {
    return Infeasible(
        "mapping {}: the device's file states no rate of 4 bits (fp4), which those have that scale "
        "operands by blocks; fp8 would do",
        ToString(mapping));
  }
  if (mapping.offload && (cluster.host_memory == Bandwidth() || cluster.host_link == Bandwidth())) {
    return Infeasible(
        "mapping {}: the platform does not state the rate of its hosts' memory, which offloading "
        "needs; give it as node.host_memory_GBps, and the device's level of kind host",
        ToString(mapping));
  }
  ClusterParameters own = cluster;
  own.slowest_device = SlowestDevice(cluster, mapping.devices());
  if (DenseLayers(model) == 0) return Coster(model, mapping, own, graph).Run();
  const TransformerConfig plain = WithLayersOf(model, true), mixture = WithLayersOf(model, false);
  ParallelMapping whole = mapping;
  whole.expert = 1;
  whole.expert_tensor = 0;
  FORETRACE_ASSIGN_OR_RETURN(const PassTimes of_plain, Coster(plain, whole, own).Run());
  FORETRACE_ASSIGN_OR_RETURN(PassTimes times, Coster(mixture, mapping, own).Run());
  AddDenseLayers(model, mapping, std::make_shared<const PassTimes>(of_plain), times);
  return times;
}

}  // namespace foretrace
