#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/optimizer_costs.h"
#include "simulator/mapping/pass_costs.h"

namespace foretrace {
namespace {

class IterationCoster {
 public:
  IterationCoster(const TransformerConfig& model, const ParallelMapping& mapping,
                  const ClusterParameters& cluster, const MappedLayer& layer, bool experts_apart)
      : experts_apart_(experts_apart),
        c_(model),
        m_(mapping),
        p_(cluster),
        layer_(layer),
        groups_(mapping, cluster, status_),
        e_(AsDouble(ElementSize(model.dtype))),
        gradient_(AsDouble(GradientBytes(model, mapping))),
        host_(mapping, cluster, e_, gradient_) {}

  absl::Status Add(PassTimes& times) const {
    SetTransfers(times);
    SetIteration(times);
    return status_;
  }

 private:
  void SetTransfers(PassTimes& times) const {
    const double tokens = AsDouble(c_.sequence) * m_.micro_batch / m_.context;
    const double hidden = tokens * AsDouble(c_.hidden) * e_;
    times.transfer_bytes = WholeBytes(hidden);
    times.blocking_transfers = p_.blocking_transfers;
    times.blocking_chunks = p_.blocking_chunks;
    if (m_.pipeline > 1) {
      times.transfer = groups_.Transfer(hidden);
      times.gradient_transfer = p_.whole_gradient_messages || p_.transfers_in_turn
                                    ? groups_.Transfer(hidden, true)
                                    : times.transfer;
    }
    if (m_.fp8 && p_.reduces_scales && m_.tensor * m_.replicas() > 1) {
      times.scale_reduction = groups_.SmallAllReduce();
    }
  }

  bool ReducesWhole() const {
    return p_.whole_reductions && m_.pipeline > 1 && c_.dtype == DType::kBFloat16;
  }
  // Of an element of the gradients.
  double ReducedBytes() const { return ReducesWhole() ? e_ : gradient_; }

  // Gradients are reduced to where the optimizer's states are, and its new weights gathered: whole
  // all-reduces without division; where gradients are divided already only the weights, where
  // weights are divided too at most what is left to do among copies.
  // `shards`: devices that divide states, of which there are m_.shard_groups().
  SimTime Reduction(double elements, SpacedGroup shards) const {
    const int32_t groups = m_.shard_groups();
    if (shards.ranks * groups < 2 || elements <= 0) return SimTime();
    const double gradients = elements * ReducedBytes();
    if (m_.zero >= 3) {
      return p_.reduces_copies_last ? groups_.ReduceToShards(gradients, shards).copies : SimTime();
    }
    const SpacedGroup all{shards.ranks * groups, shards.span};
    if (m_.zero == 0) return groups_.Collective(CollectiveOp::kAllReduce, all, gradients);
    SimTime weights = NewWeights(elements, shards);
    const bool twice = p_.gathers_twice && experts_apart_ && m_.zero == 1 && !m_.overlap_gradients;
    if (twice) weights += weights;
    if (m_.zero == 2) return weights;
    if (GathersAfterUpdate()) weights = SimTime();
    if (ReducesWhole()) {
      return groups_.Collective(CollectiveOp::kAllReduce, all, gradients) + weights;
    }
    return groups_.ReduceToShards(gradients, shards, groups_.SumOp()).All() + weights;
  }

  SimTime NewWeights(double elements, SpacedGroup shards) const {
    if (shards.ranks < 2 || elements <= 0) return SimTime();
    return groups_.Collective(CollectiveOp::kAllGather, shards, elements * e_);
  }
  // Of reductions behind the last backward pass, whether the new weights' gathering is none.
  bool GathersAfterUpdate() const {
    return p_.gathers_after_update && m_.zero == 1 && ReducesByLayer(m_);
  }

  // The embedding's gradient is complete last, and its new weights are needed first, so that no
  // pass hides either exchange (Megatron Core, distributed/param_and_grad_buffer.py: buckets in the
  // order of the backward pass). `part`: what is left of it anyway, a layer's even share of all.
  SimTime LastReduction(SimTime part) const {
    if (!m_.trains_ends()) return SimTime();
    const double table = AsDouble(c_.vocabulary) / m_.tensor * AsDouble(c_.hidden);
    return std::max(Reduction(table, groups_.Shards()) - part, SimTime());
  }

  // Megatron Core, distributed/finalize_model_grads.py, _allreduce_word_embedding_grads; DeepSpeed,
  // runtime/pipe/engine.py, _exec_reduce_tied_grads.
  void SetTied(PassTimes& times) const {
    if (m_.pipeline == 1 || m_.dual() || m_.returns() || !IsTied(c_) || !m_.trains_ends() ||
        m_.zero >= 2)
      return;
    const double bytes = AsDouble(c_.vocabulary) / m_.tensor * AsDouble(c_.hidden) * gradient_;
    const int32_t span = m_.devices() / m_.pipeline * (m_.pipeline - 1);
    times.tied_bytes = WholeBytes(bytes);
    times.tied_reduction = groups_.Collective(CollectiveOp::kAllReduce, {2, span}, bytes);
  }

  void SetIteration(PassTimes& times) const {
    int64_t most = 0;
    for (int32_t s = 0; s < m_.pipeline; ++s) {
      const int64_t further = HasHead(m_, s) ? FurtherLayers(c_) : 0;
      most = std::max(most, StageTrainedLayers(c_, m_, s) + further);
    }
    const double layers = AsDouble(most);
    const auto [first, last] = layer_.RootWeights();
    const double tables = std::max(first, last);
    const double dense = layers * layer_.trained() + (m_.trains_ends() ? tables : 0);
    const double expert = layers * layer_.trained_expert();
    // Of what each exchanges in the end: with divided weights its share.
    const double width = ReducedBytes();
    const double shards = m_.zero >= 3 ? m_.shards() : 1;
    const double expert_shards = m_.zero >= 3 ? m_.expert_shards() : 1;
    times.gradient_bytes = WholeBytes(dense * width / shards);
    times.expert_gradient_bytes = WholeBytes(expert * width / expert_shards);
    times.gradient_reduction = Reduction(dense, groups_.Shards());
    times.expert_reduction = Reduction(expert, groups_.ExpertShards());
    SetTied(times);
    const double divided = dense / m_.shards() + expert / m_.expert_shards();
    const double own = m_.zero >= 1 ? divided : dense + expert;
    const double kept = m_.zero >= 2 ? own : dense + expert;
    const OptimizerCosts optimizer(c_, m_, p_, host_);
    times.optimizer = SimTime::FromSeconds(optimizer.Seconds(own, kept));
    if (!ReducesByLayer(m_)) return;
    if (GathersAfterUpdate()) {
      times.optimizer +=
          NewWeights(dense, groups_.Shards()) + NewWeights(expert, groups_.ExpertShards());
    }
    // What the reductions behind the last backward pass take from it.
    const double reduces = (times.gradient_reduction + times.expert_reduction).seconds();
    // They go on while passes wait for exchanges.
    const double pass = times.layer_backward.seconds();
    const double share = pass > 0 ? 1 - times.Exchanges(false).seconds() / pass : 0;
    const auto op = m_.zero == 0 ? CollectiveOp::kAllReduce : groups_.SumOp();
    const SpacedGroup all{m_.shards() * m_.shard_groups(), groups_.Shards().span};
    const HeldDevice held = groups_.Held(op, all, dense * width, times.gradient_reduction);
    const double slowed = groups_.TimesBeside(times.backward_kernels, held);
    times.optimizer +=
        SimTime::FromSeconds(LostBeside(layers * share * pass, slowed, share * reduces));
    times.optimizer += LastReduction(times.gradient_reduction.ScaledBy(1 / std::max(layers, 1.0)));
  }

  bool experts_apart_;
  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const MappedLayer& layer_;
  absl::Status status_;  // of the first exchange that cannot be timed
  GroupCosts groups_;
  double e_, gradient_;
  HostCosts host_;
};

}  // namespace

absl::Status AddIterationCosts(const TransformerConfig& model, const ParallelMapping& mapping,
                               const ClusterParameters& cluster, const MappedLayer& layer,
                               bool experts_apart, PassTimes& times) {
  return IterationCoster(model, mapping, cluster, layer, experts_apart).Add(times);
}

}  // namespace foretrace
