#include "simulator/planning/dataflow_iteration.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/workloads.h"
#include "simulator/mapping/device_spread.h"
#include "simulator/planning/dataflow_kernels.h"

namespace foretrace {
namespace {

using dataflow::NetworkKind;
using dataflow::Role;

// Of what the graph of a layer and a dataflow mapping have no words for, the first; empty: nothing.
std::string Unsaid(const TransformerConfig& c, const ParallelMapping& m) {
  const bool gpt = c.family == TransformerFamily::kGpt && !IsGated(c) && c.experts == 0 &&
                   (c.kv_heads == 0 || c.kv_heads == c.heads) && c.latent == 0 && c.window == 0;
  if (!gpt) return fmt::format("layers of {}: a GPT's alone are", c.name);
  if (m.context > 1) return "context parallelism";
  if (m.zero > 1) return fmt::format("zero{}", m.zero);
  if (m.fp8) return "products in 8 bits";
  if (m.lora > 0) return "adapters";
  if (m.offload || m.offload_weights) return "what the host keeps";
  if (m.schedule != ScheduleKind::k1F1B) return fmt::format("schedule {}", Name(m.schedule));
  if (m.recompute > Recompute::kFull) return fmt::format("recomputation {}", Name(m.recompute));
  if (!m.layers.empty() || m.counted_ends) return "stages of unequal layers";
  return "";
}

dataflow::SystemDimension Switch(int64_t size, Role role, Bandwidth bandwidth, SimTime latency) {
  dataflow::SystemDimension d;
  d.network = {NetworkKind::kSwitch, size, bandwidth, false, latency};
  d.link.bandwidth = bandwidth;
  d.role = role;
  return d;
}

dataflow::System NodesOf(const ParallelMapping& m, const ClusterParameters& cluster) {
  dataflow::System s;
  s.name = "cluster";
  // By the peak: kernels are measured, or a share of it.
  s.chip.name = "device";
  s.chip.tiles = s.chip.width = s.chip.depth = 1;
  s.chip.clock_ghz = cluster.peak.per_second() / 2e9;
  s.chip.sram = Bytes(1 << 20);
  // Mappings that were run did fit.
  s.memory = {"memory", cluster.peak_memory, Bytes(int64_t{1} << 60), 0, 0};
  const int64_t node = std::max(cluster.devices_per_node, 1);
  const int64_t inner = std::min<int64_t>(m.tensor, node);
  const Bandwidth within = m.sequence_parallel ? cluster.intra_gather : cluster.intra_node;
  s.dimensions.push_back(Switch(inner, Role::kTensor, within, cluster.step_inside));
  s.dimensions.push_back(
      Switch(m.tensor / inner, Role::kTensor, cluster.adapter, cluster.step_outside));
  const int64_t replicas = std::min<int64_t>(m.data, node / inner);
  s.dimensions.push_back(Switch(replicas, Role::kData, cluster.intra_node, cluster.step_inside));
  s.dimensions.push_back(
      Switch(m.data / replicas, Role::kData, cluster.adapter, cluster.step_outside));
  s.dimensions.push_back(
      Switch(m.pipeline, Role::kPipeline, cluster.adapter, cluster.step_outside));
  return s;
}

dataflow::Workload LayersOf(const TransformerConfig& model, int32_t batch) {
  dataflow::TransformerSizes sizes;
  sizes.hidden = model.hidden;
  sizes.heads = model.heads;
  sizes.head_size = model.head_size > 0 ? model.head_size : model.hidden / model.heads;
  sizes.sequence = model.sequence;
  sizes.layers = model.layers;
  sizes.ffn = model.ffn;
  sizes.batch = batch;
  sizes.fused_attention = model.fused_attention;
  sizes.vocabulary = model.vocabulary;
  return dataflow::MakeTransformer(sizes);
}

}  // namespace

absl::StatusOr<SimTime> DataflowIteration(const TransformerConfig& model,
                                          const ParallelMapping& mapping,
                                          const ClusterParameters& cluster) {
  if (const std::string what = Unsaid(model, mapping); !what.empty())
    return Infeasible("a dataflow mapping does not say {}", what);
  ClusterParameters own = cluster;
  // As EstimateIteration has it.
  if (cluster.sustained > FlopRate())
    own.slowest_device = 1 + cluster.device_spread * ExpectedMaximum(mapping.devices());
  const auto kernels = KernelTimesOf(own, mapping);
  dataflow::Formulas formulas;
  formulas.kernel_times = kernels.get();
  formulas.overlap = mapping.chunked_tensor ? dataflow::Overlap::kMaximum : dataflow::Overlap::kSum;
  dataflow::SearchLimits limits;
  limits.megatron = mapping.sequence_parallel ? dataflow::SearchLimits::Megatron::kSequence
                                              : dataflow::SearchLimits::Megatron::kTensor;
  limits.micro_batch = mapping.micro_batch;
  limits.recompute = mapping.recompute;
  limits.scheme = {mapping.chunks, mapping.zero, mapping.overlap_gradients};
  FORETRACE_ASSIGN_OR_RETURN(
      const dataflow::MappedWorkload mapped,
      Optimise(LayersOf(model, mapping.global_batch), NodesOf(mapping, cluster), formulas, limits));
  return SimTime::FromSeconds(mapped.time.total_ns * 1e-9);
}

}  // namespace foretrace
