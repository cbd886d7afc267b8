#include "simulator/engine/executor.h"

namespace foretrace {

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
  return NeedsDataflow(program) ? RunDataflow(store, program, network)
                                : RunStraight(store, program, network);
}

}  // namespace foretrace
