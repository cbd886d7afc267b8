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

// A rendezvous: kernels, and what they transfer to each other. A collective over the ranks that
// have a trace, a send and its receive, or all kernels that sends and receives connect.
struct MatchedRendezvous {
  struct Member {
    uint32_t rank = 0;  // index into TraceStore::ranks()
    NodeIndex node;
  };
  // Positions in `members`.
  struct Transfer {
    uint32_t from = 0;
    uint32_t to = 0;
    int32_t tag = 0;
    int64_t bytes = 0;  // 0: not recorded
  };
  std::vector<Member> members;  // by rank; of one transfer, the sender first
  // Empty for collectives: all to all, or as the operation and its root say.
  std::vector<Transfer> transfers;
  // No kernel says which way it transfers: either way, or both.
  bool directed = true;
  uint32_t communicator = 0;
  // Members that the communicator has but the folder has no trace of.
  uint32_t missing_members = 0;
  bool point_to_point = false;
  // It moves that part of the bytes that its nodes say: a what-if has split it (comm_edits.h).
  int64_t pieces = 1;
};

// What says which operations of a communicator are one, the exact first.
enum class MatchedBy : uint8_t {
  kNumber,     // the numbers that the communication library gave them
  kPartner,    // sender, receiver, tag, and which of these transfers
  kOrder,      // which of the communicator's operations, as recorded from the same one on
  kAlignment,  // order, but for what recordings lack at their edges or in between
  kEnds,       // kernels that end together
  kNothing,    // no partner is recorded
};
std::string_view Name(MatchedBy how);

struct MatchedCommunicator {
  std::string name;            // declared name, or "stream 84 of ranks 0-7"
  std::vector<int32_t> ranks;  // global ranks in group order; those present when undeclared
  uint32_t missing_members = 0;
  bool declared = false;
  int64_t rendezvous = 0;
  MatchedBy matched_by = MatchedBy::kNothing;
  int64_t unmatched = 0;  // operations whose partners were not recorded
};

struct CommunicatorMap {
  std::vector<MatchedCommunicator> communicators;
  std::vector<MatchedRendezvous> rendezvous;
  // Communication whose partners lie outside of what was recorded.
  int64_t unmatched = 0;
  // What is doubtful about the matching, for users to read.
  std::vector<std::string> doubts;
};

// Collectives from or to one member.
constexpr bool IsRooted(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kGather || op == CollectiveOp::kScatter;
}

// Collectives are matched by number, else by order; sends and receives by partner, else by ends.
// Errors (bad input): members of a communicator that disagree on the operation or on how many there
// are, naming ranks and nodes.
absl::StatusOr<CommunicatorMap> MatchCommunicators(const TraceStore& store);

// Per rank, the offset to add to its recorded times so that what ranks do together ends together:
// over the collectives that connect it to the first rank, the median of differences of ends; over
// sends and receives where no collective does and their recorded order is impossible. Zero where
// within the noise of one clock (20 us).
std::vector<SimTime> EstimateClockOffsets(const TraceStore& store, const CommunicatorMap& map);

// Error (bad input): clocks that seem to be apart by more than a step, so that ranks likely
// recorded different steps, unless numbers say what belongs together.
absl::Status CheckClockOffsets(const TraceStore& store, const CommunicatorMap& map,
                               const std::vector<SimTime>& offsets);

}  // namespace foretrace
