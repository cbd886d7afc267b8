#include "simulator/search/phaze_mapping.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {
namespace {

// The least model that has a first stage, one between and a last one of a layer each: what layers
// cost depends neither on how many there are nor on stages.
ParallelMapping ThreeStages(const PhazeOption& option) {
  ParallelMapping m;
  m.tensor = option.width;
  m.pipeline = 3;
  m.layers = {1, 1, 1};
  m.micro_batch = option.micro_batch;
  m.global_batch = 2 * option.micro_batch;  // gradients are added up
  m.recompute = option.each_layer ? Recompute::kFull : Recompute::kNone;
  return m;
}

PhazeLayer LayerOf(const MemoryLedger& use, RealBytes activations, SimTime forward,
                   SimTime backward) {
  PhazeLayer layer;
  layer.forward = RealSeconds(forward.seconds());
  layer.backward = RealSeconds(backward.seconds());
  // Equation 18 then is a ring's all-reduce of the gradients.
  layer.parameter_bytes = RealBytes(use.gradients) / 2;
  layer.state_bytes = RealBytes(use.weights + use.optimizer + use.logits);
  layer.activation_bytes = activations;
  layer.sliced = true;
  return layer;
}

ParallelMapping MappingOf(const PhazePlan& plan, const PhazeOption& option, int32_t samples) {
  ParallelMapping m;
  m.tensor = plan.width;
  m.pipeline = static_cast<int32_t>(plan.stages.size());
  m.data = plan.data_parallel;
  m.micro_batch = plan.micro_batch;
  m.global_batch = samples;
  m.recompute = option.each_layer ? Recompute::kFull : Recompute::kNone;
  for (const PhazeStage& stage : plan.stages) {
    m.layers.push_back(static_cast<int32_t>(stage.layers.size()));
  }
  if (std::equal(m.layers.begin() + 1, m.layers.end(), m.layers.begin())) m.layers.clear();
  return m;
}

// The plan of a problem of one option, simulated.
absl::StatusOr<PhazeMapping> Judged(const Evaluator& evaluator, const TransformerConfig& model,
                                    const MappingSpace& space, const PhazeProblem& problem) {
  FORETRACE_ASSIGN_OR_RETURN(const PhazePlan plan, PlacePhaze(problem));
  PhazeMapping found;
  found.ranked.mapping = MappingOf(plan, problem.options.front(), problem.samples);
  Conform(model, space, found.ranked.mapping);
  found.estimate = plan.batch;
  FORETRACE_ASSIGN_OR_RETURN(found.ranked.evaluation, evaluator.Evaluate(found.ranked.mapping));
  return found;
}

std::vector<PhazeOption> OptionsOf(const MappingSpace& space) {
  std::vector<PhazeOption> options;
  const int64_t widest = std::min<int64_t>(space.max_tensor, space.devices);
  for (int32_t t = 1; t <= widest; ++t) {
    if (space.devices % t != 0) continue;
    for (int32_t b = 1; b <= std::min(space.max_micro_batch, space.global_batch); ++b) {
      if (space.global_batch % b != 0) continue;
      for (const bool each_layer : {false, true}) {
        if (!each_layer || space.recompute) options.push_back({t, b, RealSeconds(), each_layer});
      }
    }
  }
  return options;
}

}  // namespace

absl::StatusOr<PhazeLayers> PhazeLayersOf(const TransformerConfig& model,
                                          const ClusterParameters& cluster, Bandwidth link,
                                          const PhazeOption& option) {
  // Of layers of several kinds those that are most.
  TransformerConfig three = WithLayerKind(model, CommonestKind(model));
  three.layers = 3;
  const ParallelMapping m = ThreeStages(option);
  FORETRACE_RETURN_IF_ERROR(CheckMapping(three, m, 0));
  FORETRACE_ASSIGN_OR_RETURN(const PassTimes passes, TimePasses(three, m, cluster));
  const RealBytes kept(LayerStash(three, m, m.recompute));
  const auto layer = [&](int32_t stage, SimTime forward, SimTime backward) {
    return LayerOf(StageMemoryOf(three, m, stage), kept, passes.layer_forward + forward,
                   passes.layer_backward + backward);
  };
  PhazeLayers out;
  const auto count = static_cast<size_t>(model.layers);
  out.layers.assign(count, layer(1, SimTime(), SimTime()));
  const PhazeLayer first = layer(0, passes.embedding_forward, passes.embedding_backward);
  const PhazeLayer last = layer(2, passes.head_forward, passes.head_backward);
  const PhazeLayer inner = out.layers.front();
  out.layers.front() = first;
  PhazeLayer& end = out.layers.back();
  end.forward += last.forward - inner.forward;
  end.backward += last.backward - inner.backward;
  end.parameter_bytes += last.parameter_bytes - inner.parameter_bytes;
  end.state_bytes += last.state_bytes - inner.state_bytes;
  if (option.each_layer) {
    out.reserved_bytes = RealBytes(LayerStash(three, m, Recompute::kNone)) - kept;
  }
  const RealBytes edge(passes.transfer.seconds() * link.bytes_per_second());
  for (int32_t i = 0; i + 1 < static_cast<int32_t>(count); ++i)
    out.edges.push_back({i, i + 1, edge});
  return out;
}

absl::StatusOr<PhazeMapping> SearchPhazeMapping(const TransformerConfig& model,
                                                const ClusterParameters& cluster, Bytes capacity,
                                                const MappingSpace& space) {
  PhazeProblem problem;
  problem.layers = static_cast<int32_t>(model.layers);
  problem.accelerators = static_cast<int32_t>(space.devices);
  problem.samples = space.global_batch;
  problem.memory = RealBytes(capacity);
  problem.even = true;
  problem.layers_of = [&](const PhazeOption& option) {
    return PhazeLayersOf(model, cluster, problem.bandwidth, option);
  };
  const IterationEvaluator evaluator(model, cluster, capacity);
  std::optional<PhazeMapping> best;
  absl::Status reason;
  // The program knows one bandwidth (section 7); gradients may be reduced within a node or not.
  std::vector<Bandwidth> links = {cluster.flat.node};
  if (space.devices > cluster.devices_per_node) links.push_back(cluster.flat.nic);
  for (const PhazeOption& option : OptionsOf(space)) {
    for (const Bandwidth link : links) {
      problem.options = {option};
      problem.bandwidth = link;
      const absl::StatusOr<PhazeMapping> found = Judged(evaluator, model, space, problem);
      if (!found.ok()) {
        if (!absl::IsFailedPrecondition(found.status())) return found.status();
        reason = found.status();
      } else if (!best || found->ranked.evaluation.iteration < best->ranked.evaluation.iteration) {
        best = *found;
      }
    }
  }
  if (best) return *best;
  return reason.ok()
             ? Infeasible("phaze: no width and micro-batch divide {} devices and {} samples",
                          space.devices, space.global_batch)
             : reason;
}

}  // namespace foretrace
