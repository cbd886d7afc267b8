#include "simulator/planning/dataflow/dataflow_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/partwise_gemms.h"
#include "simulator/planning/mappings/measured_device.h"

namespace foretrace {
namespace {

class ClusterKernelTimes : public dataflow::KernelTimes {
 public:
  ClusterKernelTimes(const ClusterParameters& cluster, const ParallelMapping& mapping)
      : cluster_(cluster), mapping_(mapping) {}

  RealNs Of(const LoopGraph& graph, OpId op, const LoopSizes& size,
            double micro_batch) const override {
    OperatorCall call = CallOf(graph, op, size, std::llround(micro_batch));
    GemmSplit split;
    auto* linear = std::get_if<LinearOp>(&call.shape);
    if (mapping_.chunked_tensor && linear != nullptr) split = PartsOf(graph, op);
    if (split.parts > 1) linear->m = std::max<int64_t>(linear->m / split.parts, 1);
    CostSources sources;
    double seconds = 0;
    const KernelCoster coster(cluster_);
    for (const KernelWork& work : Kernels(call)) {
      seconds += coster.Time(work, sources, {.share = split.share}).seconds();
    }
    return RealNs(seconds * split.parts * 1e9);
  }

  std::optional<RealNs> AllReduce(int64_t chips, RealBytes bytes) const override {
    if (cluster_.measured == nullptr) return std::nullopt;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const std::optional<Estimate> found = cluster_.measured->CollectiveTime(
        CollectiveOp::kAllReduce, static_cast<int32_t>(std::min(chips, kMost)),
        Bytes(std::llround(bytes.count())));
    if (!found || found->extrapolated) return std::nullopt;
    return RealNs(found->time.seconds() * 1e9);
  }

 private:
  // Of a GEMM with weights that enters the tensor-parallel region (forward, or backward past one
  // that leaves it), or leaves it forward.
  GemmSplit PartsOf(const LoopGraph& graph, OpId op) const {
    const bool weighted = KindOf(graph.graph().op(op).kind) == NestKind::kWeighted;
    const bool forward = graph.nest(op).pass == Direction::kForward;
    if (!weighted) return {};
    if (graph.LabelOf(op, Loop::kK) == "hidden")
      return SplitOf(RegionEdge::kEnters, mapping_, cluster_.multiprocessors);
    if (forward && graph.LabelOf(op, Loop::kM) == "hidden")
      return SplitOf(RegionEdge::kLeaves, mapping_, cluster_.multiprocessors);
    return {};
  }

  ClusterParameters cluster_;
  ParallelMapping mapping_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<dataflow::KernelTimes>> FindKernelTimes(
    const std::string& kernels, const Accelerator& device, InterconnectKind within_node,
    std::vector<std::string>& notes) {
  NodeSpec node;
  node.interconnect = within_node;
  node.accelerator = device;
  std::vector<std::string> files;
  ClusterParameters cluster;
  FORETRACE_ASSIGN_OR_RETURN(cluster.measured, FindMeasurements(kernels, node, notes, files));
  if (cluster.measured == nullptr)
    return InvalidInput("--kernels {}: it has no kernels of {}", kernels, device.name);
  return KernelTimesOf(cluster, ParallelMapping());
}

std::unique_ptr<dataflow::KernelTimes> KernelTimesOf(const ClusterParameters& cluster,
                                                     const ParallelMapping& mapping) {
  return std::make_unique<ClusterKernelTimes>(cluster, mapping);
}

}  // namespace foretrace
