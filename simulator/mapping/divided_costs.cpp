#include "simulator/mapping/divided_costs.h"

#include <cmath>
#include <tuple>
#include <utility>

#include "simulator/base/real_sizes.h"

namespace foretrace {
namespace {

// Values that share a scale of 32 bits at most (DeepSpeed, runtime/zero/partition_parameters.py,
// CUDAQuantizer.target_group_size).
constexpr double kBlock = 8000, kScale = 4;

}  // namespace

DividedCosts::DividedCosts(const ParallelMapping& mapping, const ClusterParameters& cluster,
                           const MappedLayer& layer, const GroupCosts& groups,
                           const HostCosts& host)
    : m_(mapping),
      p_(cluster),
      layer_(layer),
      groups_(groups),
      host_(host),
      kernels_(cluster),
      e_(static_cast<double>(ElementSize(layer.dtype()))),
      gradient_(static_cast<double>(layer.gradient_bytes())) {}

void DividedCosts::Set(PassTimes& times) const {
  SetReductions(times);
  SetGathers(times);
  SetRoots(times);
}

SimTime DividedCosts::WeightsFromHost() const {
  if (m_.zero < 3) return SimTime();
  return SimTime::FromSeconds(DenseFromHost() + ExpertsFromHost());
}

void DividedCosts::SetRoots(PassTimes& times) const {
  if (m_.zero < 2 || m_.replicas() < 2) return;
  const auto [first, last] = layer_.RootWeights();
  const auto exchange = [&](double elements) {
    RootExchange root;
    const double width = m_.eight_bit_weights ? 1 : e_;
    if (m_.zero >= 3) root.weights = WholeBytes(elements * width);
    if (root.weights > Bytes()) {
      root.gather = SimTime::FromSeconds(host_.Weights(elements / m_.shards())) +
                    Gather(elements, e_, groups_.Shards(), times.sources);
    }
    if (m_.trains_ends() && elements > 0) root.gradient = Reduced(elements, groups_.Shards());
    return root;
  };
  times.first_root = exchange(first);
  times.last_root = exchange(last);
}

void DividedCosts::SetReductions(PassTimes& times) const {
  if (m_.zero < 2) return;
  const auto reduce = [&](LayerExchange& exchange, double elements, int32_t ranks,
                          SpacedGroup shards) {
    if (ranks < 2 || elements <= 0) return;
    exchange = Reduced(elements, shards);
    exchange.waited = true;
  };
  reduce(times.gradient, layer_.trained(), m_.replicas(), groups_.Shards());
  reduce(times.expert_gradient, layer_.trained_expert(), m_.expert_replicas(),
         groups_.ExpertShards());
  if (m_.overlap_gradients && !m_.zero_bubble()) ReduceBehind(times);
}

void DividedCosts::SetGathers(PassTimes& times) const {
  if (m_.zero < 3) return;
  const bool eight = m_.eight_bit_weights;
  LayerGather &forward = times.forward_gather, &backward = times.backward_gather;
  if (m_.replicas() > 1) {
    const double width = eight || (m_.fp8 && p_.eight_bit_gathers) ? 1 : e_;
    std::tie(forward.dense, backward.dense) =
        Gathers(layer_.dense(), width, groups_.Shards(), DenseFromHost(), times.sources);
    times.weight_bytes = WholeBytes(layer_.dense() * width);
  }
  if (m_.expert_replicas() > 1 && layer_.expert() > 0) {
    const double width = eight ? 1 : e_;
    std::tie(forward.experts, backward.experts) =
        Gathers(layer_.expert(), width, groups_.ExpertShards(), ExpertsFromHost(), times.sources);
    times.expert_weight_bytes = WholeBytes(layer_.expert() * width);
  }
}

SimTime DividedCosts::Cast(double elements, DType from, DType to, CostSources& sources) const {
  const auto n = static_cast<int64_t>(elements);
  ElementwiseOp cast{n, n};
  cast.output_dtype = to;
  return kernels_.Time(Kernels({cast, from, Direction::kForward}), sources);
}

// DeepSpeed's kernels take and give float16, so that other types are cast to it and from it
// (runtime/zero/partition_parameters.py, CUDAQuantizer.quantize). The second partition is cast, too
// (partitioned_param_coordinator.py, __all_gather_params: whatever is gathered). A device casts its
// own part on the stream of the gathers, before it; scales are gathered by themselves.
SimTime DividedCosts::Gather(double elements, double width, SpacedGroup shards,
                             CostSources& sources) const {
  const auto gathered = [&](double bytes) {
    return groups_.Collective(CollectiveOp::kAllGather, shards, bytes);
  };
  if (!m_.eight_bit_weights) return gathered(elements * width);
  const double own = elements / shards.ranks;
  SimTime cast = Cast(own, DType::kFloat16, DType::kUInt8, sources);
  if (layer_.dtype() != DType::kFloat16) {
    cast += Cast(own, layer_.dtype(), DType::kFloat16, sources);
  }
  return cast + gathered(elements) + gathered(shards.ranks * std::ceil(own / kBlock) * kScale);
}

// On the stream that computes, which waits for the gathering
// (runtime/zero/partition_parameters.py, AllGatherCoalescedHandle.wait).
SimTime DividedCosts::CastBack(double elements, CostSources& sources) const {
  if (!m_.eight_bit_weights || elements <= 0) return SimTime();
  SimTime cast = Cast(elements, DType::kUInt8, DType::kFloat16, sources);
  if (layer_.dtype() != DType::kFloat16) {
    cast += Cast(elements, DType::kFloat16, layer_.dtype(), sources);
  }
  return cast;
}

// The second partition is there from an iteration's first forward pass until the update
// (DeepSpeed, runtime/zero/partition_parameters.py, _partition_param_sec and
// all_gather_coalesced, use_secondary_tensor; stage3.py, invalidate_secondary_tensor): what runs
// again and forward passes of later micro-batches gather it too, the latter here in the mean of
// the micro-batches.
std::pair<SimTime, SimTime> DividedCosts::Gathers(double elements, double width, SpacedGroup shards,
                                                  double from_host, CostSources& sources) const {
  const SimTime all = SimTime::FromSeconds(from_host) + Gather(elements, width, shards, sources);
  if (m_.second_shards == 0) return {all, all};
  const SimTime second = Gather(elements, width, groups_.SecondShards(), sources);
  const int64_t count = m_.microbatches();
  return {SimTime::FromPs((all.ps() + (count - 1) * second.ps()) / count), second};
}

LayerExchange DividedCosts::Reduced(double elements, SpacedGroup shards) const {
  LayerExchange exchange = groups_.ReduceToShards(elements * gradient_, shards, groups_.SumOp());
  if (m_.zero >= 3 && p_.reduces_copies_last) exchange.copies = SimTime();
  const SimTime to_host = SimTime::FromSeconds(host_.Gradients(elements / shards.ranks));
  (shards.ranks > 1 ? exchange.time : exchange.copies) += to_host;
  return exchange;
}

// What goes among copies has a stream of its own (torch/distributed/fsdp/_fully_shard/
// _fsdp_collectives.py, foreach_reduce: all_reduce_stream; _runtime_utils.py, _reduce_grad), so
// that it runs beside the next reduction where that does not need the same links.
void DividedCosts::ReduceBehind(PassTimes& times) const {
  LayerExchange &dense = times.gradient, &expert = times.expert_gradient;
  dense.waited = expert.waited = false;
  times.reduce_behind = dense.time + expert.time;
  const SimTime copies = dense.copies + expert.copies;
  (groups_.ByOtherLinks(groups_.Shards()) ? times.copies_behind : times.reduce_behind) += copies;
}

}  // namespace foretrace
