#include "simulator/mapping/pass_plan.h"

#include <utility>

#include "simulator/mapping/exchange_steps.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mixed_layers.h"

namespace foretrace {

void AddReduction(const PlanParts& p, int64_t index, int64_t parts, PlanBody& body,
                  Awaited& reduced) {
  // With divided gradients the new weights are exchanged at the end, with divided weights what
  // copies have.
  const bool gathers = p.m.zero == 2, copies = p.m.zero >= 3;
  const auto reduce = [&](const char* name, int32_t all, MappingGroups::Reducers groups,
                          SimTime whole, Bytes bytes) {
    if (whole == SimTime()) return;
    const CollectiveOp op = gathers ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
    const int32_t group = gathers ? groups.shards : copies ? groups.copies : all;
    PlanStep step = ExchangeStep(op, Named(name), group, Bytes(bytes.count() / parts),
                                 ReductionPart(whole, parts, index));
    step.mark = kReduced;
    reduced = body.Exchange(std::move(step), {AfterKernels().front(), reduced});
  };
  reduce("gradients", p.groups.data, p.groups.reducers(), p.passes.gradient_reduction,
         p.passes.gradient_bytes);
  reduce("expert gradients", p.groups.expert_data, p.groups.expert_reducers(),
         p.passes.expert_reduction, p.passes.expert_gradient_bytes);
}

namespace {

// What one stage runs in one kind of pass of one of its chunks.
class PassConverter {
 public:
  PassConverter(const PlanParts& parts, const PlannedPass& pass)
      : p_(parts), stage_(pass.stage), chunk_(pass.chunk), kind_(pass.kind), last_(pass.last) {}

  PlanBody Convert() {
    if (kind_ == PassKind::kBackwardWeight) {
      AddWeights();
      return std::move(body_);
    }
    const bool forward = kind_ == PassKind::kForward;
    const PassTimes& passes = p_.passes;
    const bool head = HasHead(p_.m, stage_, chunk_), embeds = HasEmbedding(p_.m, stage_, chunk_);
    input_ = AfterInputs();
    if (head && !forward) AddEnd(" head", passes.head_backward, passes.head_exchanges.backward);
    if (forward) GatherRoot(embeds, head);
    if (embeds && forward) {
      AddEnd(" embedding", passes.embedding_forward, passes.embedding_exchanges.forward);
    }
    AddLayers();
    if (embeds && !forward) {
      AddEnd(" embedding", passes.embedding_backward, passes.embedding_exchanges.backward);
    }
    if (head && forward) AddEnd(" head", passes.head_forward, passes.head_exchanges.forward);
    if (!forward) ReduceRoot(embeds, head);
    if (passes.scale_reduction > SimTime()) {
      body_.HoldingExchange(ExchangeStep(CollectiveOp::kAllReduce, OfPass("scales "),
                                         p_.groups.scale, Bytes(1024), passes.scale_reduction));
    }
    return std::move(body_);
  }

 private:
  int64_t Layers() const { return LayersOf(p_.model, p_.m, stage_, chunk_); }
  int64_t LayersInPass() const {
    return kind_ == PassKind::kForward ? Layers() : TrainedLayersOf(p_.model, p_.m, stage_, chunk_);
  }
  // What layer `index` of the pass takes, counted as the pass goes.
  const PassTimes& Of(int64_t index) const {
    const int64_t place = kind_ == PassKind::kForward ? index : Layers() - 1 - index;
    return TimesOf(p_.model, p_.m, stage_, chunk_, place, p_.passes);
  }

  void AddWeights() {
    for (int64_t layer = 0; layer < LayersInPass(); ++layer) {
      body_.Kernel(OfPass(), Of(layer).layer_weight);
      ReduceLayer(layer);
    }
  }

  void ReduceLayer(int64_t layer) {
    if (!ReducesByLayer(p_.m) || !last_) return;
    int64_t before = layer;
    for (const int32_t c : ChunksByEnd(p_.m, stage_)) {
      if (c == chunk_) break;
      before += LayersOf(p_.model, p_.m, stage_, c);
    }
    AddReduction(p_, before, StageTrainedLayers(p_.model, p_.m, stage_), body_, reduced_);
  }

  // A kernel after what the pass waits for to begin, if it is the first.
  void First(StepName name, SimTime duration) {
    body_.Kernel(std::move(name), duration, std::exchange(input_, {}));
  }

  // A pass of the embedding or of the output layer, and then what it waits for.
  void AddEnd(const char* what, SimTime duration, const PassExchanges::List& exchanges) {
    const auto named = [](const PassExchange& e) { return e.op != CollectiveOp::kUnknown; };
    for (const PassExchange& e : exchanges) {
      if (named(e)) duration -= SimTime::FromPs(e.time.ps() * e.count);
    }
    First(OfPass("", what), duration);
    for (const PassExchange& e : exchanges) {
      for (int32_t i = 0; named(e) && i < e.count; ++i) {
        body_.HoldingExchange(
            ExchangeStep(e.op, OfPass("exchange of ", what), p_.groups.tensor, e.bytes, e.time));
      }
    }
  }

  // What a stage holds outside of layers; a stage that is first and last has all in first_root.
  void GatherRoot(bool first, bool last) {
    const auto gather = [&](const RootExchange& root) {
      if (root.gather == SimTime()) return;
      AwaitedList awaits = AfterKernels();
      awaits.insert(awaits.end(), input_.begin(), input_.end());
      input_ = {body_.Exchange(ExchangeStep(CollectiveOp::kAllGather, OfPass("root weights "),
                                            p_.groups.weight, root.weights, root.gather),
                               std::move(awaits))};
    };
    if (first) gather(p_.passes.first_root);
    if (last) gather(p_.passes.last_root);
  }
  void ReduceRoot(bool first, bool last) {
    const auto reduce = [&](const RootExchange& root) {
      for (PlanStep& step :
           ReductionSteps(OfPass("root gradients "), root.gradient, p_.groups.reducers())) {
        body_.HoldingExchange(std::move(step));
      }
    };
    if (first) reduce(p_.passes.first_root);
    if (last) reduce(p_.passes.last_root);
  }

  void AddLayers() {
    const bool forward = kind_ == PassKind::kForward;
    const bool gathers = p_.passes.Gather(forward) > SimTime();
    const bool backward = kind_ == PassKind::kBackward;
    const int64_t layers = LayersInPass();
    // The last uses of the links between replicas, and the weights that the next layer needs.
    AwaitedList link = input_, copies, gathered, reduced;
    bool last_reduces = false;
    if (gathers && layers > 0) link = gathered = Gather(Of(0), input_);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const PassTimes& own = Of(layer);
      if (gathers) input_ = gathered;
      // One layer ahead: with the start of this one.
      if (gathers && layer + 1 < layers) link = gathered = Gather(Of(layer + 1), link);
      AddKept(KeptInPass(p_.model, p_.m, {stage_, chunk_, forward}, layer, p_.passes));
      AddLayer(own);
      last_reduces = backward && own.reduce_behind > SimTime();
      if (last_reduces) reduced = ReduceBehind(own, link, copies);
      if (backward) ReduceLayer(layer);
    }
    if (last_reduces) {
      body_.steps.back().holds = true;
    } else if (!reduced.empty()) {  // of an earlier layer: what follows waits for both
      body_.Kernel(OfPass(), SimTime(), reduced);
    }
    if (layers > 0) input_.clear();
  }

  // Exchanges over the replicas after the kernels so far, one after another; what the next one
  // waits for.
  AwaitedList Chain(PlanStep step, const AwaitedList& link) {
    AwaitedList awaits = AfterKernels();
    awaits.insert(awaits.end(), link.begin(), link.end());
    return {body_.Exchange(std::move(step), std::move(awaits))};
  }

  std::vector<PlanStep> ReductionsOf(const PassTimes& own) const {
    std::vector<PlanStep> steps =
        ReductionSteps(OfPass("gradients "), own.gradient, p_.groups.reducers());
    for (PlanStep& step : ReductionSteps(OfPass("expert gradients "), own.expert_gradient,
                                         p_.groups.expert_reducers())) {
      steps.push_back(std::move(step));
    }
    return steps;
  }

  // A layer's gradients, dense ones before those of the experts, among shards and then among
  // copies: by links of their own, or behind the others. The last of the reductions.
  AwaitedList ReduceBehind(const PassTimes& own, AwaitedList& link, AwaitedList& copies) {
    std::vector<PlanStep> among_copies;
    for (PlanStep& step : ReductionsOf(own)) {
      if (step.op == CollectiveOp::kAllReduce) {
        among_copies.push_back(std::move(step));
      } else {
        link = Chain(std::move(step), link);
      }
    }
    const bool apart = own.copies_behind > SimTime();
    if (apart) copies.insert(copies.end(), link.begin(), link.end());
    AwaitedList& last = apart ? copies : link;
    for (PlanStep& step : among_copies) last = Chain(std::move(step), last);
    return last;
  }

  // A layer's weights, dense ones before those of the experts; the last of the gathers.
  AwaitedList Gather(const PassTimes& own, AwaitedList link) {
    const auto gather = [&](const char* what, int32_t group, Bytes bytes, SimTime time) {
      if (time == SimTime()) return;
      link = Chain(ExchangeStep(CollectiveOp::kAllGather, OfPass(what), group, bytes, time), link);
    };
    const bool forward = kind_ == PassKind::kForward, second = !forward && p_.m.second_shards > 0;
    const LayerGather& times = own.GatherOf(forward);
    gather("weights ", second ? p_.groups.second : p_.groups.weight, own.weight_bytes, times.dense);
    gather("expert weights ", second ? p_.groups.second : p_.groups.expert_weight,
           own.expert_weight_bytes, times.experts);
    return link;
  }

  // One of a layer's exchanges, as the sharded graph has it.
  PlanStep StepOf(const PassExchange& e) const {
    const char* what = "experts ";
    if (e.group == ShardGroup::kContext) {
      what = e.op == CollectiveOp::kAllToAll ? "heads " : "keys and values ";
    }
    if (e.group == ShardGroup::kTokens) what = "balance of experts ";
    if (e.group == ShardGroup::kExpertNodes) what = "experts of other nodes ";
    if (e.group == ShardGroup::kExpertPeers) what = "experts of the node ";
    if (e.group == ShardGroup::kTensor) {
      what = e.op == CollectiveOp::kAllReduce   ? "all-reduce "
             : e.op == CollectiveOp::kAllGather ? "gather "
                                                : "scatter ";
    }
    return ExchangeStep(e.op, OfPass(what), p_.groups.of(e.group), e.bytes, e.time);
  }

  // What kernels wait for. In order: what the sharded graph exchanges, then the layer's gradients.
  std::vector<std::pair<PlanStep, int32_t>> ExchangesOf(const PassTimes& own) const {
    const bool forward = kind_ == PassKind::kForward;
    std::vector<std::pair<PlanStep, int32_t>> steps;
    for (const PassExchange& e : own.layer_exchanges.of(forward)) {
      if (!e.beside) steps.emplace_back(StepOf(e), e.count);
    }
    if (forward || !(own.gradient.waited || own.expert_gradient.waited)) return steps;
    for (PlanStep& step : ReductionsOf(own)) steps.emplace_back(std::move(step), 1);
    return steps;
  }

  // What an input that is kept adds before the layers that share it.
  void AddKept(const KeptTimes& kept) {
    if (kept.input == nullptr) return;
    const PassExchange& gather = kept.input->gather;
    First(OfPass(), kept.all() - gather.time);
    if (gather.time > SimTime()) body_.HoldingExchange(StepOf(gather));
  }

  void AddLayer(const PassTimes& own) {
    const bool forward = kind_ == PassKind::kForward;
    SimTime left = forward ? own.layer_forward : own.layer_backward;
    if (kind_ == PassKind::kBackwardInput) left -= own.layer_weight;
    left -= own.Exchanges(forward);
    const std::vector<std::pair<PlanStep, int32_t>> steps = ExchangesOf(own);
    const PassExchanges::List& exchanges = own.layer_exchanges.of(forward);
    int64_t hidden = 0, waited = 0;
    for (const PassExchange& e : exchanges) {
      if (!e.beside || e.goes_on) continue;
      hidden += e.count;
      left -= SimTime::FromPs(e.cover.ps() * e.count);
    }
    for (const auto& [step, times] : steps) waited += times;
    // Compute in equal parts, an exchange after each; the layer ends with compute where no exchange
    // would end it, so that what follows waits for the kernels beside the last one too.
    int64_t parts = waited > 0 ? hidden + waited : hidden + 1;
    const auto compute = [&] {
      const SimTime part = SimTime::FromPs(left.ps() / parts--);
      left -= part;
      First(OfPass(), part);
    };
    for (size_t i = 0; i < exchanges.size() && exchanges[i].beside;) {
      size_t next = i;
      for (int32_t n = 0; n < exchanges[i].count; ++n) {
        compute();
        next = AddHidden(exchanges, i);
      }
      i = next;
    }
    if (waited == 0) compute();
    for (const auto& [step, times] : steps) {
      for (int32_t i = 0; i < times; ++i) {
        compute();
        body_.HoldingExchange(step);
      }
    }
  }

  // Exchanges from `i` on, one after another, and the kernels beside them; the next kernel waits
  // for both. Which exchange comes next.
  size_t AddHidden(const PassExchanges::List& exchanges, size_t i) {
    const SimTime cover = exchanges[i].cover;
    AwaitedList link = Chain(StepOf(exchanges[i]), {});
    for (++i; i < exchanges.size() && exchanges[i].goes_on; ++i) {
      link = Chain(StepOf(exchanges[i]), link);
    }
    body_.Kernel(OfPass(), cover);
    input_ = std::move(link);
    return i;
  }

  const PlanParts& p_;
  int32_t stage_, chunk_;
  PassKind kind_;
  bool last_;
  PlanBody body_;
  AwaitedList input_;  // of the next kernel, besides the kernels before it
  Awaited reduced_ = TheMark(kReduced);
};

}  // namespace

PlanBody PlanOfPass(const PlanParts& parts, const PlannedPass& pass) {
  return PassConverter(parts, pass).Convert();
}

}  // namespace foretrace
