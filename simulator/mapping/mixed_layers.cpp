#include "simulator/mapping/mixed_layers.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "simulator/base/real_sizes.h"
#include "simulator/mapping/kept_inputs.h"

namespace foretrace {

const PassTimes& TimesOf(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                         int32_t chunk, int64_t index, const PassTimes& passes) {
  const PassTimes* own = &passes;
  if (passes.kept != nullptr) {
    const int64_t frozen =
        LayersOf(model, m, stage, chunk) - TrainedLayersOf(model, m, stage, chunk);
    const bool again = index >= frozen && RunsAgain(model, m, stage, chunk, index - frozen);
    if (!again) own = passes.kept.get();
  }
  if (own->others.empty()) return *own;
  const size_t kind = LayerKindOf(model, FirstLayer(model, m, stage, chunk) + index);
  return kind > 0 ? *own->others[kind - 1] : *own;
}

void AddKeptLayers(const TransformerConfig& model, const ParallelMapping& m,
                   std::shared_ptr<const PassTimes> kept, PassTimes& again) {
  // Modules that predict further tokens are not recomputed.
  again.head_forward = kept->head_forward;
  again.head_backward = kept->head_backward;
  again.head_exchanges = kept->head_exchanges;
  int64_t count = 0;
  for (int32_t s = 0; s < m.pipeline; ++s) count += StageLayersAgain(model, m, s);
  const int64_t all = (model.layers - FrozenLayers(model, m)) * (m.dual() ? 2 : 1);
  // What reductions beside the last backward pass take from it, of which only the sum is known.
  const SimTime more = again.optimizer - kept->optimizer;
  const double share = static_cast<double>(count) / static_cast<double>(all);
  again.optimizer = count == all ? again.optimizer : kept->optimizer + more.ScaledBy(share);
  again.kept = std::move(kept);
}

void AddFurtherLayers(int64_t layers, const PassTimes& of, PassTimes& times) {
  if (layers == 0) return;
  for (const bool forward : {true, false}) {
    const KeptInput& input = of.Kept(forward);
    const SimTime waited = input.Exposed(input.room);
    const SimTime layer = (forward ? of.layer_forward : of.layer_backward) + input.kernels + waited;
    (forward ? times.head_forward : times.head_backward) += SimTime::FromPs(layer.ps() * layers);
    PassExchanges& head = times.head_exchanges;
    (forward ? head.forward : head.backward)
        .push_back({{},
                    CollectiveOp::kUnknown,
                    of.Exchanges(forward) + waited,
                    Bytes(),
                    static_cast<int32_t>(layers)});
  }
}

void AddOtherKinds(const TransformerConfig& model, const ParallelMapping& m,
                   std::vector<std::shared_ptr<const PassTimes>> others, PassTimes& main) {
  for (size_t i = 0; i < others.size(); ++i) {
    AddFurtherLayers(FurtherLayersOfKind(model, i + 1), *others[i], main);
  }
  int64_t most = 1;
  std::vector<LayerCounts> stages;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    stages.push_back(StageLayersWithFurther(model, m, s));
    most = std::max(most, std::accumulate(stages.back().begin(), stages.back().end(), int64_t{0}));
  }
  // All were asked for `most` layers of one kind. `of`: by kind.
  const auto of_stages = [&](const auto& of) {
    double longest = 0;
    for (const LayerCounts& layers : stages) {
      double sum = 0;
      for (size_t kind = 0; kind <= others.size(); ++kind) {
        sum += static_cast<double>(layers[kind]) * of(kind == 0 ? main : *others[kind - 1]);
      }
      longest = std::max(longest, sum);
    }
    return longest / static_cast<double>(most);
  };
  for (SimTime PassTimes::*const time :
       {&PassTimes::gradient_reduction, &PassTimes::expert_reduction, &PassTimes::optimizer}) {
    main.*time = SimTime::FromSeconds(
        of_stages([time](const PassTimes& kind) { return (kind.*time).seconds(); }));
  }
  for (Bytes PassTimes::*const bytes :
       {&PassTimes::gradient_bytes, &PassTimes::expert_gradient_bytes}) {
    main.*bytes = WholeBytes(of_stages(
        [bytes](const PassTimes& kind) { return static_cast<double>((kind.*bytes).count()); }));
  }
  double rest = 1;
  CostSources mean;
  const auto add = [&mean](const CostSources& own, double share) {
    for (size_t i = 0; i < mean.seconds.size(); ++i) mean.seconds[i] += share * own.seconds[i];
    mean.extrapolated += share * own.extrapolated;
  };
  for (size_t kind = 1; kind <= others.size(); ++kind) {
    const double share =
        static_cast<double>(LayersOfKindIn(model, kind)) / static_cast<double>(model.layers);
    add(others[kind - 1]->sources, share);
    rest -= share;
  }
  add(main.sources, rest);
  main.sources = mean;
  main.others = std::move(others);
}

MemoryLedger Mean(const std::vector<LedgerShare>& kinds) {
  MemoryLedger mean;
  for (Bytes MemoryLedger::*const part :
       {&MemoryLedger::weights, &MemoryLedger::gradients, &MemoryLedger::optimizer,
        &MemoryLedger::activations, &MemoryLedger::logits}) {
    double sum = 0;
    for (const auto& [use, share] : kinds) sum += share * static_cast<double>((use.*part).count());
    mean.*part = WholeBytes(sum);
  }
  // Of one layer at a time.
  for (Bytes MemoryLedger::*const part : {&MemoryLedger::recomputed, &MemoryLedger::gathered}) {
    for (const auto& [use, share] : kinds) {
      if (share > 0) mean.*part = std::max(mean.*part, use.*part);
    }
  }
  return mean;
}

}  // namespace foretrace
