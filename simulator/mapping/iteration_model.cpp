#include "simulator/mapping/iteration_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/cpu_costs.h"
#include "simulator/mapping/device_spread.h"
#include "simulator/mapping/expert_dispatch.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/mapping/pass_costs.h"
#include "simulator/mapping/trained_flop.h"

namespace foretrace {
namespace {

// When a stage's gradients are reduced; `starts`: LineTiming::last_backward. Reductions start as
// each layer's gradient is there, in the order of the backward pass, one at a time.
SimTime OverlappedReductionEnd(const TransformerConfig& model, const ParallelMapping& m,
                               const PassTimes& passes, const MappedLine& line, int32_t index,
                               const std::vector<SimTime>& starts) {
  const int64_t parts = StageTrainedLayers(model, m, index);
  SimTime end;
  int64_t part = 0;
  for (const int32_t chunk : ChunksByEnd(m, index)) {
    const auto number = static_cast<size_t>(chunk * m.pipeline + index);
    const bool lone = !line.lone_last.empty() && line.lone_last[number] != 0;
    const bool split = !line.split_last.empty() && line.split_last[number] != 0;
    const PassTimes& last = lone ? *passes.lone : passes;
    SimTime at = starts[number];
    if (HasHead(m, index, chunk) && !split) at += last.head_backward;
    const int64_t layers = TrainedLayersOf(model, m, index, chunk);
    const int64_t end_layer = LayersOf(model, m, index, chunk) - 1;
    for (int64_t layer = 0; layer < layers; ++layer, ++part) {
      const PassTimes& own = TimesOf(model, m, index, chunk, end_layer - layer, last);
      at += split ? own.layer_weight : own.layer_backward;
      if (!split) at += KeptInPass(model, m, {index, chunk, false}, layer, last).all();
      end = std::max(end, at) + ReductionPart(passes.gradient_reduction, parts, part) +
            ReductionPart(passes.expert_reduction, parts, part);
    }
  }
  return end;
}

// Of one micro-batch's passes on a stage, the time in which its devices only communicate: what is
// left of them without kernels, whichever exchanges they wait for.
SimTime ExposedInPasses(const TransformerConfig& model, const ParallelMapping& m,
                        const PassTimes& passes, const MappedLine& line, int32_t stage) {
  SimTime exposed = line.OfStage(stage);
  const auto backward = [](const PassTimes& of) {
    return of.layer_backward - of.Exchanges(false) - of.gathers_backward;
  };
  const auto kernels = [&](const PassTimes& of, int64_t layers) {
    const SimTime layer = of.layer_forward + of.layer_backward - of.LayerExchanges();
    exposed -= SimTime::FromPs(layer.ps() * layers);
  };
  const int64_t again = passes.kept != nullptr ? StageLayersAgain(model, m, stage) : 0;
  const int64_t others = StageLayers(model, m, stage) - again;
  if (passes.others.empty()) {
    kernels(passes.kept != nullptr ? *passes.kept : passes, others);
    kernels(passes, again);
  }
  for (int32_t c = 0; c < m.held_chunks(); ++c) {
    const int64_t layers = LayersOf(model, m, stage, c);
    for (int64_t i = 0; i < layers && !passes.others.empty(); ++i) {
      kernels(TimesOf(model, m, stage, c, i, passes), 1);
    }
    // Frozen layers have no backward pass.
    for (int64_t i = layers - TrainedLayersOf(model, m, stage, c); i-- > 0;) {
      exposed += backward(TimesOf(model, m, stage, c, i, passes));
    }
  }
  for (int32_t c = 0; c < m.held_chunks(); ++c) {
    for (const bool forward : {true, false}) {
      exposed -= KernelsOfInputs(model, m, {stage, c, forward}, passes);
    }
  }
  if (HasEmbedding(m, stage)) {
    exposed -= passes.embedding_forward + passes.embedding_backward;
    exposed += passes.embedding_exchanges.Sum(true) + passes.embedding_exchanges.Sum(false);
  }
  if (!HasHead(m, stage)) return exposed;
  exposed -= passes.head_forward + passes.head_backward;
  return exposed + passes.head_exchanges.Sum(true) + passes.head_exchanges.Sum(false);
}

// What the passes without an opposite one add to that, in all stages, in seconds.
double ExposedByLone(const TransformerConfig& model, const ParallelMapping& m,
                     const PassTimes& passes, const MappedLine& line) {
  const MappedLine alone = LineOf(model, m, *passes.lone);
  double more = 0;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    const SimTime each = ExposedInPasses(model, m, *passes.lone, alone, s) -
                         ExposedInPasses(model, m, passes, line, s);
    more += each.seconds() * static_cast<double>(line.lone_passes[static_cast<size_t>(s)]);
  }
  return more / m.held_chunks();
}

// What the device and the platform have to state for the mapping.
absl::Status CheckStated(const ParallelMapping& mapping, const ClusterParameters& cluster) {
  if ((mapping.mxfp8 || mapping.nvfp4) && cluster.four_bit_share == 0) {
    return Infeasible(
        "mapping {}: the device's file states no rate of 4 bits (fp4), which those have that scale "
        "operands by blocks; {} would do",
        ToString(mapping), cluster.peak_fp8 > FlopRate() ? "fp8" : "16 bits");
  }
  const bool deep = SendsOnce(mapping.dispatch) && mapping.expert > 1;
  const bool nics = ExpertNodes(mapping, cluster.devices_per_node) > 1;
  if (deep && (cluster.deep_ep == nullptr || cluster.deep_ep->links.nvlink == Bandwidth() ||
               (nics && cluster.deep_ep->links.nic == Bandwidth()))) {
    return Infeasible(
        "mapping {}: what dispatch={} takes is not known: no calibration has expert_exchange.yaml, "
        "or "
        "the platform states no links within nodes or between them; dispatch=alltoall would do",
        ToString(mapping), Name(mapping.dispatch));
  }
  // Its kernels send to the device of the same place in another node.
  if (deep && nics && mapping.expert % cluster.devices_per_node != 0) {
    return Infeasible(
        "mapping {}: dispatch={} over several nodes is of whole ones: ep{} is no multiple of their "
        "{} "
        "devices; dispatch=alltoall would do",
        ToString(mapping), Name(mapping.dispatch), mapping.expert, cluster.devices_per_node);
  }
  if (mapping.inputs_on_host && cluster.host_link == Bandwidth()) {
    return Infeasible(
        "mapping {}: the platform does not state the rate of its devices' way to the host, which "
        "offload-activations needs; give it as the accelerator's level of kind host",
        ToString(mapping));
  }
  if (mapping.offload && (cluster.host_memory == Bandwidth() || cluster.host_link == Bandwidth())) {
    return Infeasible(
        "mapping {}: the platform does not state the rate of its hosts' memory, which offloading "
        "needs; give it as node.host_memory_GBps, and the device's level of kind host",
        ToString(mapping));
  }
  return absl::OkStatus();
}

}  // namespace

IterationModel::IterationModel(const TransformerConfig& model, ClusterParameters cluster)
    : layers_(model), cluster_(std::move(cluster)), flop_(ModelFlopOf(model)) {}

absl::StatusOr<PassTimes> IterationModel::OfKind(const LayersOfKind& kind, const KnownPasses& known,
                                                 const ParallelMapping& mapping,
                                                 const ClusterParameters& cluster,
                                                 bool experts_apart) const {
  const MappedLayer& layer = kind.Of(mapping);
  const PassKey key(PassView(mapping), cluster.slowest_device);
  const absl::StatusOr<PassTimes>& passes =
      known.Get(key, [&] { return PassesOfLayers(kind.config(), key.first, cluster, layer); });
  FORETRACE_RETURN_IF_ERROR(passes.status());
  PassTimes times = *passes;
  FORETRACE_RETURN_IF_ERROR(
      AddIterationCosts(kind.config(), mapping, cluster, layer, experts_apart, times));
  return times;
}

const ClusterParameters& IterationModel::ClusterOf(int64_t devices) const {
  return clusters_.Get(devices, [&] {
    ClusterParameters own = cluster_;
    own.slowest_device = SlowestDevice(cluster_, devices);
    return own;
  });
}

absl::StatusOr<PassTimes> IterationModel::Passes(const ParallelMapping& mapping) const {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model(), mapping, 0));
  if (model().decoder_layers > 0) {
    return InvalidInput(
        "iteration model: models with an encoder and a decoder are not covered; the "
        "searchers over stage graphs are (graphpipe, pipedream, piper, phaze)");
  }
  FORETRACE_RETURN_IF_ERROR(CheckStated(mapping, cluster_));
  FORETRACE_ASSIGN_OR_RETURN(PassTimes times, OfMapping(mapping));
  if (mapping.overlap_experts && mapping.expert > 1) {
    ParallelMapping apart = mapping;
    apart.overlap_experts = false;
    FORETRACE_ASSIGN_OR_RETURN(PassTimes lone, OfMapping(apart));
    times.lone = std::make_shared<const PassTimes>(std::move(lone));
  }
  return times;
}

absl::StatusOr<PassTimes> IterationModel::OfMapping(const ParallelMapping& mapping) const {
  FORETRACE_ASSIGN_OR_RETURN(PassTimes times, OfLayers(mapping));
  if (!mapping.recomputes_some()) return times;
  FORETRACE_ASSIGN_OR_RETURN(PassTimes kept, OfLayers(WithoutRecomputation(mapping)));
  AddKeptLayers(model(), mapping, std::make_shared<const PassTimes>(std::move(kept)), times);
  return times;
}

absl::StatusOr<PassTimes> IterationModel::OfLayers(const ParallelMapping& mapping) const {
  const ClusterParameters& own = ClusterOf(mapping.devices());
  const bool apart = mapping.expert > 1;
  std::vector<std::shared_ptr<const PassTimes>> others;
  for (size_t kind = 1; kind < layers_.kinds(); ++kind) {
    FORETRACE_ASSIGN_OR_RETURN(PassTimes times, OfKind(layers_.kind(kind), known_[kind],
                                                       MappingOfKind(mapping, kind), own, apart));
    others.push_back(std::make_shared<const PassTimes>(std::move(times)));
  }
  FORETRACE_ASSIGN_OR_RETURN(PassTimes times,
                             OfKind(layers_.main(), known_[0], mapping, own, apart));
  if (!others.empty()) AddOtherKinds(model(), mapping, std::move(others), times);
  return times;
}

namespace {

// That times in picoseconds hold the iteration, with room for sums of several.
absl::Status CheckLength(const TransformerConfig& model, const ParallelMapping& mapping,
                         const PassTimes& passes) {
  constexpr double kMostSeconds = 1e6;
  const auto both = [](const PassTimes& p) {
    return p.layer_forward.seconds() + p.layer_backward.seconds();
  };
  double longest = both(passes);
  for (const auto& kind : passes.others) longest = std::max(longest, both(*kind));
  const double layers = AsDouble(model.layers + FurtherLayers(model));
  const double each = longest * layers + passes.head_forward.seconds() +
                      passes.head_backward.seconds() + passes.embedding_backward.seconds();
  if (each * AsDouble(mapping.chunk_microbatches()) <= kMostSeconds) return absl::OkStatus();
  return Infeasible("mapping {}: an iteration would take over {} days, which is not covered",
                    ToString(mapping), std::llround(kMostSeconds / 86'400));
}

}  // namespace

absl::StatusOr<IterationEstimate> IterationModel::Estimate(const ParallelMapping& mapping) const {
  IterationEstimate out;
  FORETRACE_ASSIGN_OR_RETURN(out.passes, Passes(mapping));
  const PassTimes& passes = out.passes;
  FORETRACE_RETURN_IF_ERROR(CheckLength(model(), mapping, passes));
  const MappedLine line = LineOf(model(), mapping, passes);
  FORETRACE_ASSIGN_OR_RETURN(const LineTiming timing, TimeOf(model(), mapping, passes, line));
  out.pipeline = timing.end;
  std::vector<SimTime> reduced = timing.stage_end;
  const SimTime after = passes.gradient_reduction + passes.expert_reduction;
  double idle = 0;
  for (int32_t s = 0; s < mapping.pipeline; ++s) {
    SimTime& end = reduced[static_cast<size_t>(s)];
    if (ReducesByLayer(mapping) && after > SimTime()) {
      end = std::max(
          end, OverlappedReductionEnd(model(), mapping, passes, line, s, timing.last_backward));
    } else {
      end += after;
    }
    SimTime busy = SimTime::FromPs(line.OfStage(s).ps() * mapping.chunk_microbatches());
    if (!line.lone_extra.empty()) busy += line.lone_extra[static_cast<size_t>(s)];
    idle += (timing.end - busy).seconds();
  }
  if (passes.tied_reduction > SimTime()) {
    const SimTime both = std::max(reduced.front(), reduced.back()) + passes.tied_reduction;
    reduced.front() = reduced.back() = both;
  }
  out.time = *std::max_element(reduced.begin(), reduced.end()) + passes.optimizer;
  out.loading = SimTime::FromPs(cluster_.token_preparation.ps() * model().sequence *
                                (mapping.global_batch / mapping.data));
  out.cpu = cluster_.cpu.any() ? CpuTimeOf(model(), mapping, passes) : SimTime();
  out.time = std::max({out.time, out.loading, out.cpu});
  out.bubble = idle / (out.pipeline.seconds() * mapping.pipeline);
  double exposed = 0;
  for (int32_t s = 0; s < mapping.pipeline; ++s) {
    const auto i = static_cast<size_t>(s);
    const SimTime in_passes = ExposedInPasses(model(), mapping, passes, line, s);
    exposed += in_passes.seconds() * mapping.chunk_microbatches() +
               (reduced[i] - timing.stage_end[i]).seconds();
  }
  if (passes.lone != nullptr) exposed += ExposedByLone(model(), mapping, passes, line);
  out.exposed_communication = exposed / (out.time.seconds() * mapping.pipeline);
  const bool whole = mapping.trains_ends() && mapping.expert_capacity == 0;
  const Flop sample = whole ? flop_ : TrainedFlopOf(model(), mapping);
  out.model_flop_utilisation =
      ModelFlopUtilisation(Flop(sample.count() * mapping.global_batch), out.time,
                           PeakOf(mapping, cluster_), mapping.devices());
  return out;
}

absl::StatusOr<PassTimes> TimePasses(const TransformerConfig& model, const ParallelMapping& mapping,
                                     const ClusterParameters& cluster) {
  return IterationModel(model, cluster).Passes(mapping);
}

absl::StatusOr<IterationEstimate> EstimateIteration(const TransformerConfig& model,
                                                    const ParallelMapping& mapping,
                                                    const ClusterParameters& cluster) {
  return IterationModel(model, cluster).Estimate(mapping);
}

FlopRate PeakOf(const ParallelMapping& mapping, const ClusterParameters& cluster) {
  const FlopRate own = mapping.nvfp4      ? cluster.peak_fp4
                       : mapping.narrow() ? cluster.peak_fp8
                                          : cluster.peak;
  return own > FlopRate() ? own : cluster.peak;
}

double ModelFlopUtilisation(Flop of_iteration, SimTime iteration, FlopRate peak, int64_t devices) {
  return of_iteration.count() /
         (iteration.seconds() * peak.per_second() * static_cast<double>(devices));
}

}  // namespace foretrace
