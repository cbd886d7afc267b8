#include "simulator/mapping/mixed_layers.h"

#include <algorithm>
#include <utility>

namespace foretrace {

const PassTimes& TimesOf(const TransformerConfig& model, int64_t layer, const PassTimes& passes) {
  return passes.dense != nullptr && IsDenseLayer(model, layer) ? *passes.dense : passes;
}

std::vector<LayerPass> LayersOfPass(const TransformerConfig& model, int64_t first, int64_t count,
                                    bool forward, const PassTimes& passes) {
  std::vector<LayerPass> layers;
  for (int64_t i = 0; i < count; ++i) {
    const PassTimes& own = TimesOf(model, forward ? first + i : first + count - 1 - i, passes);
    layers.push_back({forward ? own.layer_forward : own.layer_backward, own.Gather(),
                      forward ? SimTime() : own.reduce_behind,
                      forward ? SimTime() : own.copies_behind});
  }
  return layers;
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
