#include "simulator/exporters/chakra/wire_form.h"

namespace foretrace::chakra_wire {

int64_t CommType(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return ALL_REDUCE;
    case CollectiveOp::kReduce:
      return REDUCE;
    case CollectiveOp::kAllGather:
      return ALL_GATHER;
    case CollectiveOp::kGather:
      return GATHER;
    case CollectiveOp::kScatter:
      return SCATTER;
    case CollectiveOp::kBroadcast:
      return BROADCAST;
    case CollectiveOp::kAllToAll:
      return ALL_TO_ALL;
    case CollectiveOp::kReduceScatter:
      return REDUCE_SCATTER;
    case CollectiveOp::kBarrier:
      return BARRIER;
    default:
      return -1;
  }
}

NodeType TypeInSchema(const RankTrace& rank, NodeIndex n) {
  const CommAttr* comm = rank.comm(n);
  switch (rank.kind(n)) {
    case NodeKind::kCollective:
      return CommType(rank.collective_op(n)) >= 0 && comm != nullptr ? COMM_COLL_NODE : COMP_NODE;
    case NodeKind::kSend:
      return comm != nullptr && comm->peer >= 0 ? COMM_SEND_NODE : COMP_NODE;
    case NodeKind::kRecv:
      return comm != nullptr && comm->peer >= 0 ? COMM_RECV_NODE : COMP_NODE;
    default:
      return COMP_NODE;
  }
}

}  // namespace foretrace::chakra_wire
