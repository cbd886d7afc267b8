#include "simulator/mapping/pass_costs.h"

#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/cpu_costs.h"
#include "simulator/mapping/divided_costs.h"
#include "simulator/mapping/exchange_costs.h"
#include "simulator/mapping/expert_dispatch.h"
#include "simulator/mapping/expert_loop.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/host_costs.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/layer_costs.h"
#include "simulator/mapping/mixed_layers.h"

namespace foretrace {
namespace {

class Coster {
 public:
  Coster(const TransformerConfig& model, const ParallelMapping& mapping,
         const ClusterParameters& cluster, const MappedLayer& layer)
      : c_(model),
        m_(mapping),
        p_(cluster),
        layer_(layer),
        kernels_(cluster),
        groups_(mapping, cluster, status_),
        e_(AsDouble(ElementSize(model.dtype))),
        host_(mapping, cluster, e_, AsDouble(GradientBytes(model, mapping))),
        divided_(mapping, cluster, layer, groups_, host_),
        tokens_(AsDouble(model.sequence) * mapping.micro_batch / mapping.context) {}

  absl::StatusOr<PassTimes> Run() const {
    PassTimes times;
    const OpCosts costs = CostOps(layer_, m_, p_, groups_, times.sources);
    SetExchanges(times, costs.layer);
    times.cpu = CpuTimesOf(m_, p_, costs);
    SetPasses(times, costs);
    FORETRACE_RETURN_IF_ERROR(status_);
    return times;
  }

 private:
  // The CPU issues kernels one after another; a layer takes no less. `passes`: of a layer's forward
  // or backward pass, how many; a recomputed layer's is two.
  double Issued(double seconds, double passes, int64_t kernels) const {
    return std::max(
        {seconds, passes * p_.launch_floor.seconds(), p_.issue.seconds() * AsDouble(kernels)});
  }

  // Of a forward pass that asks the device where tokens go: the CPU does not run ahead, so that its
  // own time bounds the pass.
  double Asked(double seconds, SimTime cpu) const {
    const bool experts = layer_.sizes().of(layer_.axes().experts) > 0;
    const bool splits = p_.forms.asks_for_splits && experts && m_.expert > 1;
    return splits || LoopsOverExperts(layer_, p_) ? std::max(seconds, cpu.seconds()) : seconds;
  }

  // Whether what runs again asks again.
  bool RepeatsExperts() const {
    return m_.recompute == Recompute::kFull || m_.recompute == Recompute::kAlternate ||
           m_.recompute == Recompute::kOperators || m_.modules.has(RecomputeModule::kMoe);
  }

  // Of a layer's forward pass, what its backward pass runs again.
  double Repeated(const PassCost& layer) const {
    switch (m_.recompute) {
      case Recompute::kSelective:
        return layer.attention_core;
      case Recompute::kOperators:
        return layer.forward - layer.beside - layer.attention - layer.alternate;
      case Recompute::kAlternate:
        return (layer.forward - layer.beside) / 2;
      case Recompute::kFull:
        return layer.forward - layer.beside;
      case Recompute::kLight:
      case Recompute::kModules:
        return layer.again;
      default:
        return 0;
    }
  }

  // In seconds of a layer's passes.
  struct WaitsForCpu {
    double forward, backward;
  };

  void SetPasses(PassTimes& times, const OpCosts& costs) const {
    const PassCost &before = costs.before, &layer = costs.layer, &after = costs.after;
    const double again = m_.recompute == Recompute::kFull        ? 1
                         : m_.recompute == Recompute::kOperators ? 1
                         : m_.recompute == Recompute::kAlternate ? 0.5
                                                                 : 0;
    const double repeats = Repeated(layer);
    const double asked = RepeatsExperts() ? Asked(repeats, RepeatedCpu(m_, p_, layer)) : repeats;
    const double backward = Issued(layer.backward + asked, 1 + again,
                                   layer.backward_kernels.all + RepeatedKernels(m_, layer).all);
    const double forward =
        Issued(Asked(layer.forward, times.cpu.forward), 1, layer.forward_kernels.all);
    const WaitsForCpu idle{forward - layer.forward, backward - layer.backward - Repeated(layer)};
    times.layer_forward = SimTime::FromSeconds(forward) + times.Exchanges(true);
    times.layer_backward = SimTime::FromSeconds(backward) + times.Exchanges(false);
    times.layer_forward += SimTime::FromSeconds(costs.layer_copies.weights);
    times.layer_backward +=
        SimTime::FromSeconds(costs.layer_copies.weights + costs.layer_copies.gradients);
    const SimTime cast = divided_.CastBack(layer_.dense() + layer_.expert(), times.sources);
    times.layer_forward += cast;
    times.layer_backward += cast.ScaledBy(p_.gathers_ahead ? 1 : GathersBackward());
    if (!p_.gathers_ahead) WaitForGathers(times);
    times.forward_kernels = layer.of_forward;
    times.backward_kernels = layer.of_backward;
    if (layer.forward > 0) {
      times.backward_kernels.Add(layer.of_forward, Repeated(layer) / layer.forward);
    }
    SlowDown(times, idle);
    if (m_.recompute == Recompute::kFull) SetKeptInput(times);
    times.layer_weight = SimTime::FromSeconds(layer.weight);
    const ShardCopies &first = costs.first_copies, &last = costs.last_copies;
    times.head_forward =
        SimTime::FromSeconds(after.forward + last.weights + RecordedLosses(times.sources));
    times.head_backward = SimTime::FromSeconds(after.backward + last.gradients);
    times.embedding_forward = SimTime::FromSeconds(before.forward + first.weights);
    times.embedding_backward = SimTime::FromSeconds(before.backward + first.gradients);
    const auto [first_root, last_root] = layer_.RootWeights();
    times.embedding_forward += divided_.CastBack(first_root, times.sources);
    times.head_forward += divided_.CastBack(last_root, times.sources);
    AddEndsExchanges(times);
    if (c_.further_tokens > 0) AddFurtherTokens(times);
  }

  // Of one input; layers' passes are known.
  void SetKeptInput(PassTimes& times) const {
    const double part = AsDouble(layer_.stash().input.count()) / m_.input_parts();
    KeptInput &forward = times.kept_forward, &backward = times.kept_backward;
    if (m_.input_parts() > 1) {
      // Each device copies its part out of an input, and into what is gathered of it.
      const auto n = static_cast<int64_t>(part / e_);
      forward.kernels = backward.kernels = kernels_.Time(
          Kernels({ElementwiseOp{n, n}, c_.dtype, Direction::kForward}), times.sources);
      PassExchange& gather = backward.gather;
      gather.op = CollectiveOp::kAllGather;
      gather.bytes = layer_.stash().input;
      gather.time = groups_.Exchange(gather.group, gather.op, AsDouble(gather.bytes.count()));
    }
    if (!m_.inputs_on_host) return;
    // Through pageable memory the device waits. Otherwise an input leaves beside its own layers'
    // kernels, and returns beside those of the layers above, where weights come the same way;
    // gradients go the other way then.
    const SimTime copy = SimTime::FromSeconds(host_.Inputs(part));
    for (KeptInput* input : {&forward, &backward}) {
      (p_.pageable_inputs ? input->waited : input->beside) = copy;
    }
    forward.room = times.layer_forward;
    const SimTime weights =
        divided_.WeightsFromHost().ScaledBy(p_.gathers_ahead ? 1 : GathersBackward());
    backward.room = std::max(times.layer_backward - weights, SimTime());
  }

  // torch.nn.CrossEntropyLoss: logarithmic probabilities in the logits' type, which the loss names
  // (aten/src/ATen/native/LossNLL.cpp, cross_entropy_loss), so that autocast leaves it
  // (aten/src/ATen/autocast_mode.h, set_opt_dtype); it casts them before the targets' are chosen.
  double RecordedLosses(CostSources& sources) const {
    if (p_.recorded_losses == 0) return 0;
    const auto rows = static_cast<int64_t>(tokens_);
    const int64_t columns = c_.vocabulary / m_.tensor, all = SaturatingProduct({rows, columns});
    ElementwiseOp cast{all, all};
    cast.output_dtype = DType::kFloat32;
    SimTime each =
        kernels_.Time(Kernels({SoftmaxOp{rows, columns}, c_.dtype, Direction::kForward}), sources);
    if (e_ < 4) each += kernels_.Time(Kernels({cast, c_.dtype, Direction::kForward}), sources);
    return p_.recorded_losses * each.seconds();
  }

  void AddEndsExchanges(PassTimes& times) const {
    const PassExchanges &embedding = times.embedding_exchanges, &head = times.head_exchanges;
    times.embedding_forward += embedding.Sum(true);
    times.embedding_backward += embedding.Sum(false);
    times.head_forward += head.Sum(true);
    times.head_backward += head.Sum(false);
  }

  // Each predicted token beyond the next: a GEMM that joins a layer's result with the following
  // token's embedding, layers (of other kinds: AddOtherKinds), the output layer.
  void AddFurtherTokens(PassTimes& times) const {
    const LinearOp join = FurtherTokenJoin(c_, static_cast<int64_t>(tokens_), m_.tensor);
    const auto add = [&](SimTime& head, Direction pass) {
      const SimTime each = head + kernels_.Time(Kernels({join, c_.dtype, pass}), times.sources);
      head += SimTime::FromPs(each.ps() * c_.further_tokens);
    };
    add(times.head_forward, Direction::kForward);
    add(times.head_backward, Direction::kBackward);
    PassExchanges& head = times.head_exchanges;
    const auto further = static_cast<int32_t>(c_.further_tokens);
    for (PassExchanges::List* list : {&head.forward, &head.backward}) {
      for (PassExchange& e : *list) e.count *= 1 + further;
    }
    AddFurtherLayers(FurtherLayersOfKind(c_, 0), times, times);
  }

  // How often a layer's backward pass gathers weights where none are gathered ahead. Of a
  // recomputed layer what it needs again soon enough stays gathered: twice as many elements later
  // as lie between a weight and the end of the layers that run again at once.
  double GathersBackward() const {
    const double between = 2 * layer_.dense() * m_.layers_an_input();
    const double kept = static_cast<double>(p_.reuse_distance) / between;
    return m_.recompute == Recompute::kFull ? 2 - std::min(kept, 1.0) : 1;
  }

  void WaitForGathers(PassTimes& times) const {
    const SimTime forward = times.Gather(true);
    const SimTime backward =
        SimTime::FromSeconds(times.Gather(false).seconds() * GathersBackward());
    times.layer_forward += forward;
    times.layer_backward += backward;
    times.gathers_forward += forward;
    times.gathers_backward += backward;
    times.forward_gather = times.backward_gather = LayerGather();
  }

  // Kernels beside collectives: over the replicas, and those of layers that a pass hides.
  // Userbuffers take few multiprocessors and copy by engines of their own.
  void SlowDown(PassTimes& times, const WaitsForCpu& idle) const {
    const SimTime reduces =
        std::max(times.reduce_behind, times.copies_behind - times.Gather(false));
    times.layer_forward += Lost(times, true, SimTime(), idle.forward);
    times.layer_backward += Lost(times, false, reduces, idle.backward);
    for (const bool forward : {true, false}) {
      SimTime& pass = forward ? times.layer_forward : times.layer_backward;
      pass += SimTime::FromSeconds(LostToHidden(times.layer_exchanges.of(forward)));
    }
  }

  // What kernels lose to the exchanges of a layer's pass that they hide.
  double LostToHidden(const PassExchanges::List& exchanges) const {
    double lost = 0;
    for (size_t i = 0; i < exchanges.size() && exchanges[i].beside;) {
      const PassExchange& first = exchanges[i];
      SimTime time = first.time;
      for (++i; i < exchanges.size() && exchanges[i].goes_on; ++i) time += exchanges[i].time;
      if (m_.chunked_tensor && first.group == ShardGroup::kTensor) continue;
      // Of experts' the kernels' share of the time is in it (HideExperts).
      const double cover = first.cover.seconds();
      lost += OfExperts(first.group)
                  ? (1 - 1 / first.slowed) * cover
                  : first.count * LostBeside(cover, first.slowed, time.seconds());
    }
    return lost;
  }

  // What kernels of a layer's pass take longer beside gatherings and reductions over the replicas,
  // one after the other, of which those that the pass waits for have their share. `idle`: what
  // kernels wait for the CPU of it.
  SimTime Lost(const PassTimes& times, bool forward, SimTime reduce, double idle) const {
    const PassKernels& kernels = forward ? times.forward_kernels : times.backward_kernels;
    const double pass = (forward ? times.layer_forward : times.layer_backward).seconds();
    double left = pass - times.Exchanges(forward).seconds(), lost = 0;
    if (left <= 0) return SimTime();
    const double share = left / pass;
    const auto beside = [&](SimTime time, CollectiveOp op, SpacedGroup group, Bytes bytes,
                            SimTime of_bytes) {
      const HeldDevice held = groups_.Held(op, group, AsDouble(bytes.count()), of_bytes);
      const double slowed = groups_.TimesBeside(kernels, held), window = share * time.seconds();
      const double longer = LostBeside(left, slowed, window);
      lost += longer;
      left -= std::min(window - longer, left);
    };
    if (times.Gather(forward) > SimTime()) {
      beside(times.Gather(forward), CollectiveOp::kAllGather,
             forward ? groups_.Shards() : groups_.SecondShards(), times.weight_bytes,
             times.GatherOf(forward).dense);
    }
    if (reduce > SimTime()) {
      beside(reduce, times.gradient.op, groups_.Shards(), times.gradient.bytes,
             times.gradient.time);
    }
    return SimTime::FromSeconds(std::max(lost - idle, 0.0));
  }

  void SetExchanges(PassTimes& times, const PassCost& layer) const {
    SetGraphExchanges(c_, m_, layer_, p_, groups_, layer, times);
    divided_.Set(times);
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  const MappedLayer& layer_;
  KernelCoster kernels_;
  absl::Status status_;  // of the first exchange that cannot be timed
  GroupCosts groups_;
  double e_;
  HostCosts host_;
  DividedCosts divided_;
  double tokens_;
};

}  // namespace

ParallelMapping PassView(const ParallelMapping& m) {
  ParallelMapping view = m;
  view.pipeline = std::min(m.pipeline, 2);
  view.chunks = m.returns() ? m.chunks : 1;
  view.k = 1;
  const bool splits = m.zero_bubble() || m.paired();
  if (!splits) view.schedule = ScheduleKind::k1F1B;
  view.counted_ends = false;
  view.layers.clear();
  view.last_layers = std::min(m.last_layers, 1);
  view.recomputed_layers = -1;
  view.recomputed_every = 0;
  if (m.zero < 2) {
    // Replicas exchange nothing before the last backward pass.
    view.data = 1;
    view.zero = view.hybrid = 0;
    view.overlap_gradients = view.offload = view.offload_weights = false;
  }
  // Gradients are added to what is there already where there is more than one micro-batch; shares
  // of divided weights' in the mean over these.
  const int32_t told = m.zero < 3 ? std::min(m.microbatches(), 2) : m.microbatches();
  view.global_batch = view.data * view.micro_batch * told;
  return view;
}

absl::StatusOr<PassTimes> PassesOfLayers(const TransformerConfig& model,
                                         const ParallelMapping& mapping,
                                         const ClusterParameters& cluster,
                                         const MappedLayer& layer) {
  return Coster(model, mapping, cluster, layer).Run();
}

}  // namespace foretrace
