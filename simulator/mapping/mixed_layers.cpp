#include "simulator/mapping/mixed_layers.h"

#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

SimTime MeanOf(SimTime dense, SimTime mixture, double share) {
  return SimTime::FromSeconds(share * dense.seconds() + (1 - share) * mixture.seconds());
}

// As many as the mixture has, or else the dense layers; together they take the mean.
LayerExchange MeanOf(const LayerExchange& dense, const LayerExchange& mixture, double share) {
  const int32_t count = mixture.forward + mixture.backward;
  LayerExchange mean = count > 0 ? mixture : dense;
  const int32_t of = mean.forward + mean.backward;
  const SimTime sum =
      MeanOf(dense.Sum(true) + dense.Sum(false), mixture.Sum(true) + mixture.Sum(false), share);
  if (of > 0) mean.time = SimTime::FromPs(sum.ps() / of);
  return mean;
}

// Of forward passes.
double Products(const TransformerConfig& c, int64_t layers) {
  const TransformerGraph model = MakeTransformerGraph(c);
  return ProductFlop(model.graph, BindTransformer(model, c, {}), layers).count();
}

}  // namespace

PassTimes Mean(const PassTimes& dense, const PassTimes& mixture, double share) {
  PassTimes mean = mixture;
  for (SimTime PassTimes::*const time :
       {&PassTimes::layer_forward, &PassTimes::layer_backward, &PassTimes::layer_weight,
        &PassTimes::reduce_behind, &PassTimes::weight_gather, &PassTimes::expert_weight_gather,
        &PassTimes::gradient_reduction, &PassTimes::expert_reduction, &PassTimes::optimizer}) {
    mean.*time = MeanOf(dense.*time, mixture.*time, share);
  }
  for (LayerExchange PassTimes::*const exchange :
       {&PassTimes::tensor, &PassTimes::context, &PassTimes::expert, &PassTimes::gradient,
        &PassTimes::expert_gradient}) {
    mean.*exchange = MeanOf(dense.*exchange, mixture.*exchange, share);
  }
  for (size_t i = 0; i < mean.sources.seconds.size(); ++i) {
    mean.sources.seconds[i] =
        share * dense.sources.seconds[i] + (1 - share) * mixture.sources.seconds[i];
  }
  mean.sources.extrapolated =
      share * dense.sources.extrapolated + (1 - share) * mixture.sources.extrapolated;
  return mean;
}

MemoryLedger Mean(const MemoryLedger& dense, const MemoryLedger& mixture, double share) {
  MemoryLedger mean;
  for (Bytes MemoryLedger::*const part :
       {&MemoryLedger::weights, &MemoryLedger::gradients, &MemoryLedger::optimizer,
        &MemoryLedger::activations, &MemoryLedger::recomputed, &MemoryLedger::logits,
        &MemoryLedger::gathered}) {
    const auto count = [&](const MemoryLedger& use) {
      return static_cast<double>((use.*part).count());
    };
    mean.*part = Bytes(static_cast<int64_t>(share * count(dense) + (1 - share) * count(mixture)));
  }
  return mean;
}

Flop ModelFlopOf(const TransformerConfig& config) {
  const TransformerConfig c = WithDefaults(config);
  const TransformerConfig mixture = WithLayersOf(c, false);
  const int64_t dense = DenseLayers(c);
  const double outside = Products(mixture, 0), block = Products(mixture, 1) - outside;
  double forward = outside + block * static_cast<double>(c.layers - dense);
  if (dense > 0) {
    forward += (Products(WithLayersOf(c, true), 1) - outside) * static_cast<double>(dense);
  }
  const double join = 4.0 * static_cast<double>(c.sequence) * static_cast<double>(c.hidden) *
                      static_cast<double>(c.hidden);
  forward += static_cast<double>(c.further_tokens) * (outside + block + join);
  // Backward multiplies twice as much.
  return Flop(3 * forward);
}

}  // namespace foretrace
