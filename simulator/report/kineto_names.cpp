#include "simulator/report/kineto_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "simulator/report/kineto_timeline.h"

namespace foretrace {

std::string_view KinetoCategory(NodeKind kind) {
  switch (kind) {
    case NodeKind::kCpuOp:
      return "cpu_op";
    case NodeKind::kRuntimeCall:
      return "cuda_runtime";
    case NodeKind::kMemcpy:
      return "gpu_memcpy";
    case NodeKind::kMemset:
      return "gpu_memset";
    case NodeKind::kAnnotation:
      return "user_annotation";
    default:
      return "kernel";
  }
}

std::string_view KinetoKernel(NodeKind kind, CollectiveOp op) {
  if (kind == NodeKind::kSend || kind == NodeKind::kRecv) return "ncclDevKernel_SendRecv";
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "ncclDevKernel_AllReduce";
    case CollectiveOp::kReduce:
      return "ncclDevKernel_Reduce";
    case CollectiveOp::kAllGather:
      return "ncclDevKernel_AllGather";
    case CollectiveOp::kBroadcast:
      return "ncclDevKernel_Broadcast";
    case CollectiveOp::kReduceScatter:
      return "ncclDevKernel_ReduceScatter";
    default:
      return "ncclDevKernel_SendRecv";
  }
}

std::string KinetoTail(const TraceStore& store, const RankTrace& rank) {
  const RankInfo& info = rank.info();
  std::vector<std::string> groups;
  for (const ProcessGroup& group : store.process_groups()) {
    if (!group.Has(info.rank)) continue;
    const size_t size =
        group.ranks.empty() ? static_cast<size_t>(store.world_size()) : group.ranks.size();
    groups.push_back(
        fmt::format("{{\"pg_name\":{},\"pg_desc\":{},\"backend_config\":\"cuda:nccl\",\"pg_size\":{"
                    "},\"ranks\":[{}]}}",
                    TimelineText(group.name).literal(), TimelineText(group.description).literal(),
                    size, fmt::join(group.ranks, ",")));
  }
  // HTA searches the text for the rank, and wants the space.
  return fmt::format(
      "\"schemaVersion\": 1,\n\"foretracePrediction\": \"computed by foretrace, not recorded\",\n"
      "\"deviceProperties\": [{{\"id\": 0, \"name\": {}}}],\n"
      "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}, "
      "\"pg_count\": {}, \"pg_config\": [{}]}},\n",
      TimelineText(info.device_name).literal(), info.rank, store.world_size(), groups.size(),
      fmt::join(groups, ", "));
}

}  // namespace foretrace
