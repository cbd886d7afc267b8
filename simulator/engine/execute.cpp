#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"

namespace foretrace {
namespace {

// Whatever the order of work, no time of a schedule is later than all of it one after the other.
absl::Status CheckTimes(const TraceStore& store, const Program& program) {
  double total = 0;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    total += std::abs(static_cast<double>(rank.start.ps()));
    for (const Item& item : rank.items) {
      // Those take as long as the network says.
      if (item.kind == ItemKind::kComm && !program.rendezvous[item.rendezvous].fixed) continue;
      total += std::abs(static_cast<double>(item.duration.ps())) +
               std::abs(static_cast<double>(item.lead.ps()));
    }
    if (total >= static_cast<double>(kLongestProgram.ps())) {
      return Infeasible(
          "{}: the work of ranks up to this one takes over {:.1f} days, one after the other, which "
          "is more than can be simulated; record fewer steps, or change less by --what-if",
          store.ranks()[r].info().source, kLongestProgram.seconds() / 86'400);
    }
  }
  return absl::OkStatus();
}

// Each wait for the network is bounded, but not their sum: a time beyond what SimTime holds comes
// after a start that is within it.
absl::Status CheckSchedule(const TraceStore& store, const Schedule& schedule) {
  for (uint32_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankSchedule& rank = schedule.ranks[r];
    for (size_t i = 0; i < rank.end.size(); ++i) {
      if (rank.end[i] >= rank.start[i]) continue;
      return Infeasible(
          "{}: its communication takes over {:.0f} days by the network model, which is more than "
          "can "
          "be simulated; check the sizes of its collectives",
          store.ranks()[r].info().source, kLongestProgram.seconds() / 86'400);
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool NeedsDataflow(const Program& program) {
  for (const RankProgram& rank : program.ranks) {
    if (rank.contention) return true;
    for (const LaneProgram& lane : rank.lanes) {
      if (lane.ready_order || lane.unlimited) return true;
    }
  }
  return false;
}

absl::StatusOr<Schedule> Execute(const TraceStore& store, const Program& program,
                                 NetworkModel* network) {
  FORETRACE_RETURN_IF_ERROR(CheckTimes(store, program));
  FORETRACE_ASSIGN_OR_RETURN(Schedule schedule, NeedsDataflow(program)
                                                    ? RunDataflow(store, program, network)
                                                    : RunStraight(store, program, network));
  if (network != nullptr) FORETRACE_RETURN_IF_ERROR(CheckSchedule(store, schedule));
  return schedule;
}

}  // namespace foretrace
