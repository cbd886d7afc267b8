#include "simulator/engine/comm_edits.h"

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/gradient_buckets.h"
#include "simulator/engine/grow_groups.h"

namespace foretrace {
namespace {

// Collectives that leave or need as much on each member, however many there are.
bool KeepsItsBytes(const TransferSpec& spec) {
  switch (spec.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kBarrier:
      return !spec.point_to_point;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<size_t> ChangeGroupSize(const TraceStore& store, const CompiledJob& job,
                                       const ItemSet& items, int32_t size, NetworkModel& network,
                                       Program& program) {
  size_t changed = 0;
  GroupResizer resizer(store, job, &network);
  for (const auto& [index, chosen] : ChosenCollectives(items, program)) {
    RendezvousProgram& rendezvous = program.rendezvous[index];
    const MatchedRendezvous& matched = job.communicators.rendezvous[index];
    const std::string& name = job.communicators.communicators[matched.communicator].name;
    FORETRACE_ASSIGN_OR_RETURN(const TransferSpec from, Transfer(store, job, index));
    if (!KeepsItsBytes(from)) {
      return InvalidInput(
          "what {} of communicator {} moves depends on how many ranks there are and on the model; "
          "select reductions, all-gathers and broadcasts (collective=all_reduce)",
          from.point_to_point ? "a send or receive" : Name(from.op), name);
    }
    if (chosen < rendezvous.members.size()) return ChosenInPart(name);
    ++changed;
    if (!rendezvous.fixed) {
      rendezvous.transfer.members = ResizedGroup(from.members, size);
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(const TimeRatio ratio, resizer.Ratio(index, size));
    ScaleMembers(program, rendezvous, ratio);
  }
  return changed;
}

}  // namespace foretrace
