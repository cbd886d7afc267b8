#include "simulator/mapping/mixed_layers.h"

#include <algorithm>
#include <utility>

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
  if (own->dense == nullptr) return *own;
  const bool dense = IsDenseLayer(model, FirstLayer(model, m, stage, chunk) + index);
  return dense ? *own->dense : *own;
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

void AddDenseLayers(const TransformerConfig& model, const ParallelMapping& m,
                    std::shared_ptr<const PassTimes> dense, PassTimes& mixture) {
  int64_t most = 1;
  const auto layers = [&](int32_t stage) {
    return StageLayers(model, m, stage) + (HasHead(m, stage) ? model.further_tokens : 0);
  };
  for (int32_t s = 0; s < m.pipeline; ++s) most = std::max(most, layers(s));
  // Both were asked for `most` layers of one kind.
  const auto of_stages = [&](double of_dense, double of_mixture) {
    double longest = 0;
    for (int32_t s = 0; s < m.pipeline; ++s) {
      const auto plain = static_cast<double>(StageDenseLayers(model, m, s));
      const double other = static_cast<double>(layers(s)) - plain;
      longest = std::max(longest, (plain * of_dense + other * of_mixture));
    }
    return longest / static_cast<double>(most);
  };
  for (SimTime PassTimes::*const time :
       {&PassTimes::gradient_reduction, &PassTimes::expert_reduction, &PassTimes::optimizer}) {
    mixture.*time =
        SimTime::FromSeconds(of_stages(((*dense).*time).seconds(), (mixture.*time).seconds()));
  }
  for (Bytes PassTimes::*const bytes :
       {&PassTimes::gradient_bytes, &PassTimes::expert_gradient_bytes}) {
    mixture.*bytes =
        Bytes(static_cast<int64_t>(of_stages(static_cast<double>(((*dense).*bytes).count()),
                                             static_cast<double>((mixture.*bytes).count()))));
  }
  const double share = static_cast<double>(DenseLayers(model)) / static_cast<double>(model.layers);
  const auto mean = [share](double of_dense, double of_mixture) {
    return share * of_dense + (1 - share) * of_mixture;
  };
  CostSources& sources = mixture.sources;
  for (size_t i = 0; i < sources.seconds.size(); ++i) {
    sources.seconds[i] = mean(dense->sources.seconds[i], sources.seconds[i]);
  }
  sources.extrapolated = mean(dense->sources.extrapolated, sources.extrapolated);
  mixture.dense = std::move(dense);
}

MemoryLedger Mean(const MemoryLedger& dense, const MemoryLedger& mixture, double share) {
  MemoryLedger mean;
  for (Bytes MemoryLedger::*const part :
       {&MemoryLedger::weights, &MemoryLedger::gradients, &MemoryLedger::optimizer,
        &MemoryLedger::activations, &MemoryLedger::logits}) {
    const auto count = [&](const MemoryLedger& use) {
      return static_cast<double>((use.*part).count());
    };
    mean.*part = Bytes(static_cast<int64_t>(share * count(dense) + (1 - share) * count(mixture)));
  }
  // Of one layer at a time.
  for (Bytes MemoryLedger::*const part : {&MemoryLedger::recomputed, &MemoryLedger::gathered}) {
    mean.*part = share <= 0   ? mixture.*part
                 : share >= 1 ? dense.*part
                              : std::max(dense.*part, mixture.*part);
  }
  return mean;
}

}  // namespace foretrace
