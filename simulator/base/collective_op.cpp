#include "simulator/base/collective_op.h"

#include <array>
#include <string>
#include <utility>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(CollectiveOp op) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "unknown",   "all_reduce", "reduce",         "all_gather", "gather",   "scatter",
      "broadcast", "all_to_all", "reduce_scatter", "barrier",    "send_recv"};
  return EnumName(kNames, op);
}

CollectiveOp ParseCollectiveOp(std::string_view text) {
  std::string flat = LowerCase(text);
  std::erase_if(flat, [](char c) { return c == '_' || c == '-' || c == ' '; });
  // Most specific spelling first: "reducescatter" contains "reduce", "allgather" "gather".
  static constexpr std::pair<std::string_view, CollectiveOp> kSpellings[] = {
      {"reducescatter", CollectiveOp::kReduceScatter},
      {"allreduce", CollectiveOp::kAllReduce},
      {"allgather", CollectiveOp::kAllGather},
      {"alltoall", CollectiveOp::kAllToAll},
      {"broadcast", CollectiveOp::kBroadcast},
      {"bcast", CollectiveOp::kBroadcast},
      {"barrier", CollectiveOp::kBarrier},
      {"sendrecv", CollectiveOp::kSendRecv},
      {"scatter", CollectiveOp::kScatter},
      {"gather", CollectiveOp::kGather},
      {"reduce", CollectiveOp::kReduce},
  };
  for (const auto& [spelling, op] : kSpellings) {
    if (flat.find(spelling) != std::string::npos) return op;
  }
  return CollectiveOp::kUnknown;
}

}  // namespace foretrace
