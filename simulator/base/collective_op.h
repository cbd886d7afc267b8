#pragma once

#include <cstdint>
#include <string_view>

namespace foretrace {

enum class CollectiveOp : uint8_t {
  kUnknown,
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kBarrier,
  // A grouped NCCL send/recv kernel whose members are not known one by one (a pipeline exchange
  // fused with others); members meet like those of a collective.
  kSendRecv,
  kCount,
};

std::string_view Name(CollectiveOp op);

// Inverse of Name, accepting the spellings of NCCL, PyTorch and Chakra in any case ("allreduce",
// "all_reduce", "ALL_REDUCE", "_reduce_scatter_base", ...); kUnknown otherwise.
CollectiveOp ParseCollectiveOp(std::string_view text);

}  // namespace foretrace
