#include "simulator/mapping/mapping_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/mapping/exchange_steps.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mapping_groups.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/plan/lowering.h"

namespace foretrace {
namespace {

// Marks the last of the gradients' reductions.
constexpr int32_t kReduced = 0;

// What every part of a plan is made of.
struct Parts {
  const TransformerConfig& model;
  const ParallelMapping& m;
  const PassTimes& passes;
  const MappingGroups& groups;
};

// Part `index` of the gradients' reductions, each after the one before; `reduced` is the last.
void AddReduction(const Parts& p, int64_t index, int64_t parts, PlanBody& body, Awaited& reduced) {
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

// What one stage runs in one kind of pass of one of its chunks.
class PassConverter {
 public:
  // `last`: of the last micro-batch, after which gradients are complete.
  PassConverter(const Parts& parts, int32_t stage, int32_t chunk, PassKind kind, bool last)
      : p_(parts), stage_(stage), chunk_(chunk), kind_(kind), last_(last) {}

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

  const Parts& p_;
  int32_t stage_, chunk_;
  PassKind kind_;
  bool last_;
  PlanBody body_;
  AwaitedList input_;  // of the next kernel, besides the kernels before it
  Awaited reduced_ = TheMark(kReduced);
};

// After the last pass.
PlanBody EndOf(const Parts& p, int32_t stage) {
  PlanBody body;
  Awaited reduced = TheMark(kReduced);
  if (!ReducesByLayer(p.m)) AddReduction(p, 0, 1, body, reduced);
  const bool end = stage == 0 || stage + 1 == p.m.pipeline;
  if (p.groups.tied != kNoGroup && end) {
    PlanStep tied = ExchangeStep(CollectiveOp::kAllReduce, Named("tied gradients"), p.groups.tied,
                                 p.passes.tied_bytes, p.passes.tied_reduction);
    reduced = body.Exchange(std::move(tied), {AfterKernels().front(), reduced});
  }
  body.Kernel(Named("optimizer"), p.passes.optimizer, {reduced});
  return body;
}

PlannedStage StageOf(const Parts& p, TimedStage timed, int32_t stage) {
  PlannedStage out;
  out.source = ToString(p.m);
  out.ranks.resize(static_cast<size_t>(p.m.replicas() * p.m.tensor));
  std::iota(out.ranks.begin(), out.ranks.end(), RankOf(p.m, {stage, 0, 0}));
  out.tensor = p.m.tensor;
  out.passes = std::move(timed.passes);
  std::map<std::tuple<PassKind, int32_t, bool, bool>, uint32_t> bodies;
  const bool differ = p.passes.lone != nullptr;
  const std::vector<bool> lone = differ ? LonePasses(out.passes) : std::vector<bool>();
  const Parts alone{p.model, p.m, differ ? *p.passes.lone : p.passes, p.groups};
  for (size_t i = 0; i < out.passes.size(); ++i) {
    const Pass& pass = out.passes[i];
    const bool last = pass.microbatch + 1 == p.m.chunk_microbatches();
    const bool by_itself = differ && lone[i];
    const auto [it, added] = bodies.try_emplace({pass.kind, pass.chunk, last, by_itself},
                                                static_cast<uint32_t>(out.bodies.size()));
    if (added) {
      const Parts& of = by_itself ? alone : p;
      out.bodies.push_back(PassConverter(of, stage, pass.chunk, pass.kind, last).Convert());
    }
    out.body_of.push_back(it->second);
  }
  out.end = EndOf(p, stage);
  return out;
}

}  // namespace

absl::StatusOr<JobPlan> PlanOf(const TransformerConfig& model, const ParallelMapping& m,
                               const PassTimes& passes) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, m, 0));
  JobPlan plan;
  plan.name = "mapping " + ToString(m);
  plan.shorter = "A smaller global batch (gbN) gives shorter";
  plan.producer = "foretrace generate";
  plan.dtype = model.dtype;
  const double of_device = static_cast<double>(m.microbatches()) * m.chunks * 2;
  FORETRACE_RETURN_IF_ERROR(
      CheckNodes(of_device * static_cast<double>(m.devices()), plan.name, plan.shorter));
  FORETRACE_ASSIGN_OR_RETURN(TimedPipeline pipeline, PipelineOf(model, m, passes));
  plan.mini_batch = pipeline.mini_batch;
  const MappingGroups groups = AddMappingGroups(m, passes, plan);
  plan.links = groups.pipeline;
  const bool holds = WaitsForMessages(m, passes);
  for (TimedEdge edge : pipeline.edges) {
    edge.forward_transfer = passes.transfer;
    edge.backward_transfer = holds ? passes.gradient_transfer : passes.transfer;
    plan.edges.push_back({edge, passes.transfer_bytes, holds});
  }
  const Parts parts{model, m, passes, groups};
  for (int32_t s = 0; s < m.pipeline; ++s) {
    plan.stages.push_back(StageOf(parts, std::move(pipeline.stages[static_cast<size_t>(s)]), s));
  }
  return plan;
}

}  // namespace foretrace
