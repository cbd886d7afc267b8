#pragma once
// Which communication nodes of different ranks belong together.
//
// Membership comes from declared process groups (execution trace, NCCL arguments, distributed
// metadata, or the user's file). Where nothing is declared, each communication stream of a rank is
// one communicator, and streams of different ranks belong together when their sequences of
// operations are the same and their kernels end together; send/recv streams pair up by order.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// One collective, or one send/recv pair, over the ranks that have a trace.
struct Meeting {
  struct Member {
    uint32_t rank = 0;  // index into TraceStore::ranks()
    NodeIndex node;
    // A member of a rooted collective that left before the last arrival (eager protocol): it takes
    // part, but does not wait for the others.
    bool eager = false;
  };
  std::vector<Member> members;  // by rank
  uint32_t communicator = 0;
  // Members that the communicator has but the folder has no trace of.
  uint32_t missing_members = 0;
  bool point_to_point = false;
};

struct MatchedCommunicator {
  std::string name;            // declared name, or "stream 84 of ranks 0-7"
  std::vector<int32_t> ranks;  // global ranks in group order; those present when undeclared
  uint32_t missing_members = 0;
  bool declared = false;
  int64_t meetings = 0;
};

struct CommunicatorMap {
  std::vector<MatchedCommunicator> communicators;
  std::vector<Meeting> meetings;
  // Communication at the edge of the recording whose partners lie outside it.
  int64_t outside_window = 0;
};

// Errors (bad input): members of a communicator that disagree on the operation or on how many there
// are, naming ranks and nodes.
absl::StatusOr<CommunicatorMap> MatchCommunicators(const TraceStore& store);

// Per rank, the offset to add to its recorded times so that what ranks do together ends together:
// over the collectives that connect it to the first rank, the median of differences of ends; over
// sends and receives where no collective does and their recorded order is impossible. Zero where
// within the noise of one clock (20 us).
std::vector<SimTime> EstimateClockOffsets(const TraceStore& store, const CommunicatorMap& map);

}  // namespace foretrace
