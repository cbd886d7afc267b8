#include "simulator/planning/dataflow/dataflow_iteration.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/workloads.h"
#include "simulator/mapping/device_spread.h"
#include "simulator/planning/dataflow/dataflow_kernels.h"

namespace foretrace {
namespace {

using dataflow::NetworkKind;
using dataflow::Role;

// Of what the graph of a layer and a dataflow mapping have no words for, the first; empty: nothing.
std::string Unsaid(const TransformerConfig& c, const ParallelMapping& m) {
  const bool gpt = c.family == TransformerFamily::kGpt && !IsGated(c) && c.experts == 0 &&
                   (c.kv_heads == 0 || c.kv_heads == c.heads) && c.latent == 0 && c.window == 0 &&
                   c.pattern.empty();
  if (!gpt) return fmt::format("layers of {}: a GPT's alone are", c.name);
  if (m.context > 1) return "context parallelism";
  if (m.zero > 1) return fmt::format("zero{}", m.zero);
  if (m.narrow()) return "GEMMs in 8 or 4 bits";
  if (m.lora > 0) return "adapters";
  if (!m.trains_ends()) return "frozen weights";
  if (m.offload || m.offload_weights) return "what the host keeps";
  if (m.schedule != ScheduleKind::k1F1B) return fmt::format("schedule {}", Name(m.schedule));
  if (m.recompute > Recompute::kFull) return fmt::format("recomputation {}", Name(m.recompute));
  if (m.recomputes_some()) return "recomputation of some layers";
  if (!m.layers.empty() || m.counted_ends) return "stages of unequal layers";
  return "";
}

// A network whose exchanges take what the platform's take: bandwidth by large ones, latency by
// small ones.
class Links {
 public:
  explicit Links(const ClusterParameters& cluster) : cluster_(cluster) {}

  // Of `size` devices, `span` apart, that gather, or pass on to the next.
  absl::StatusOr<dataflow::SystemDimension> Of(int64_t size, int64_t span, Role role) const {
    dataflow::SystemDimension d;
    d.role = role;
    const bool inside = span * size <= cluster_.devices_per_node;
    d.network = {NetworkKind::kSwitch, size, inside ? cluster_.flat.node : cluster_.flat.nic, false,
                 SimTime()};
    if (size > 1 && cluster_.exchanges != nullptr) {
      const double share =
          role == Role::kPipeline ? 1 : static_cast<double>(size - 1) / static_cast<double>(size);
      FORETRACE_ASSIGN_OR_RETURN(const LinkRate rate, RateOf(share, [&](Bytes bytes) {
                                   return Time(size, span, role, bytes);
                                 }));
      d.network.latency = rate.latency;
      d.network.bandwidth = rate.bandwidth;
    }
    d.link.bandwidth = d.network.bandwidth;
    return d;
  }

 private:
  absl::StatusOr<SimTime> Time(int64_t size, int64_t span, Role role, Bytes bytes) const {
    if (role == Role::kPipeline) return cluster_.exchanges->Send(static_cast<int32_t>(span), bytes);
    const SpacedGroup group = {static_cast<int32_t>(size), static_cast<int32_t>(span)};
    return cluster_.exchanges->Collective(CollectiveOp::kAllGather, group, bytes);
  }

  const ClusterParameters& cluster_;
};

absl::StatusOr<dataflow::System> NodesOf(const ParallelMapping& m,
                                         const ClusterParameters& cluster) {
  dataflow::System s;
  s.name = "cluster";
  // By the peak: kernels are measured, or a share of it.
  s.chip.name = "device";
  s.chip.tiles = s.chip.width = s.chip.depth = 1;
  s.chip.clock_ghz = cluster.peak.per_second() / 2e9;
  s.chip.sram = Bytes(1 << 20);
  // Mappings that were run did fit.
  s.memory = {"memory", cluster.peak_memory, Bytes(int64_t{1} << 60), 0, 0};
  const Links links(cluster);
  const int64_t node = std::max(cluster.devices_per_node, 1);
  const int64_t inner = std::min<int64_t>(m.tensor, node);
  const int64_t replicas = std::min<int64_t>(m.data, node / inner);
  const int64_t stage = int64_t{m.tensor} * m.data;
  struct Part {
    int64_t size, span;
    Role role;
  };
  for (const Part& p : {Part{inner, 1, Role::kTensor}, Part{m.tensor / inner, inner, Role::kTensor},
                        Part{replicas, m.tensor, Role::kData},
                        Part{m.data / replicas, m.tensor * replicas, Role::kData},
                        Part{m.pipeline, stage, Role::kPipeline}}) {
    FORETRACE_ASSIGN_OR_RETURN(dataflow::SystemDimension d, links.Of(p.size, p.span, p.role));
    s.dimensions.push_back(std::move(d));
  }
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
  own.slowest_device = SlowestDevice(cluster, mapping.devices());
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
  FORETRACE_ASSIGN_OR_RETURN(const dataflow::System system, NodesOf(mapping, cluster));
  FORETRACE_ASSIGN_OR_RETURN(
      const dataflow::MappedWorkload mapped,
      Optimise(LayersOf(model, mapping.global_batch), system, formulas, limits));
  return SimTime::FromSeconds(mapped.time.total.ns() * 1e-9);
}

}  // namespace foretrace
