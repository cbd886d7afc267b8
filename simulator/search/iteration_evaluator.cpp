#include "simulator/base/status_macros.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/search/mapping_search.h"

namespace foretrace {

SimTime IterationEvaluator::LowerBound(const ParallelMapping& m) const {
  const auto passes = model_.Passes(m);
  if (!passes.ok()) return SimTime();
  const TransformerConfig& model = model_.model();
  const int64_t layers = StageLayers(model, m, m.pipeline - 1);
  const PassTimes& main = *passes;
  const PassTimes& others = passes->kept != nullptr ? *passes->kept : *passes;
  LayerCounts counts = StageLayersByKind(model, m, m.pipeline - 1);
  // Of a layer; where some are recomputed, as much as those take at least that are not.
  const auto both = [](const PassTimes& p) {
    const PassTimes& least = p.kept != nullptr ? *p.kept : p;
    return least.layer_forward + least.layer_backward;
  };
  SimTime again;
  if (main.kept != nullptr && counts[0] == layers) {
    const SimTime more = main.layer_backward - main.kept->layer_backward;
    again = SimTime::FromPs(more.ps() * StageLayersAgain(model, m, m.pipeline - 1));
  }
  SimTime stage = again + passes->head_forward + passes->head_backward +
                  SimTime::FromPs(both(main).ps() * counts[0]);
  for (size_t i = 0; i < others.others.size(); ++i) {
    stage += SimTime::FromPs(both(*others.others[i]).ps() * counts[i + 1]);
  }
  // To and from the first chunk of the last stage. Split backward passes leave the weights'
  // gradient for later.
  const bool split = m.zero_bubble() || m.paired();
  const auto alone = [&](const PassTimes& p) {
    return both(p) - (split ? p.layer_weight : SimTime());
  };
  SimTime way_layer = alone(main);
  for (const auto& kind : others.others) way_layer = std::min(way_layer, alone(*kind));
  int64_t least = layers;
  for (int32_t s = 0; s + 1 < m.pipeline && !m.layers.empty(); ++s) {
    for (int32_t c = 0; c < m.chunks; ++c) least = std::min(least, LayersOf(model, m, s, c));
  }
  const SimTime way =
      SimTime::FromPs((way_layer.ps() * (m.layers.empty() ? layers / m.chunks : least) +
                       2 * passes->transfer.ps()) *
                      (m.pipeline - 1));
  SimTime bound = SimTime::FromPs(stage.ps() * m.chunk_microbatches()) + way + passes->optimizer;
  if (!m.overlap_gradients) bound += passes->gradient_reduction + passes->expert_reduction;
  return split ? bound - way : bound;
}

Bytes IterationEvaluator::Memory(const ParallelMapping& mapping) const {
  return MemoryOf(model_.layers(), mapping).total();
}

bool IterationEvaluator::StageFits(const ParallelMapping& mapping, int32_t stage) const {
  return StageMemoryOf(model_.layers(), mapping, stage).total() <= capacity_;
}

absl::StatusOr<Evaluation> IterationEvaluator::Evaluate(const ParallelMapping& mapping) const {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model_.model(), mapping, 0));
  const Bytes memory = Memory(mapping);
  if (memory > capacity_) {
    return CheckMemory(model_.model(), mapping, capacity_, model_.host());
  }
  FORETRACE_ASSIGN_OR_RETURN(const IterationEstimate estimate, model_.Estimate(mapping));
  return Evaluation{estimate.time, memory, estimate.bubble, estimate.exposed_communication,
                    estimate.model_flop_utilisation};
}

}  // namespace foretrace
