#pragma once
// Which sends, receives and kernels that serve several of them meet; a detail of communicators.h.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/reconstruct/comm_sequence.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// What ranks that send to each other are to each other.
enum class PointToPointKind : uint8_t {
  kOneWay,          // the first sends, the second receives
  kExchange,        // either may send to the other
  kUnknownPartner,  // of one rank is known that it does
};

// Communication nodes that hand something to each other: a send and its receive, two kernels that
// exchange, or all kernels that are connected by transfers.
struct PointToPointRendezvous {
  // One communicator is all that have these in common.
  PointToPointKind kind = PointToPointKind::kExchange;
  std::vector<int32_t> ranks;
  uint32_t missing_members = 0;
  bool declared = false;
  MatchedBy matched_by = MatchedBy::kNothing;
  std::vector<MatchedRendezvous::Member> members;
  std::vector<MatchedRendezvous::Transfer> transfers;
  bool directed = true;
};

struct PointToPointMatches {
  std::vector<PointToPointRendezvous> rendezvous;
  // Sends and receives whose other end is not in its rank's recording.
  int64_t unmatched = 0;
  // Why channels with declared partners were matched by ends instead.
  std::vector<std::string> doubts;
};

// What collectives, which are matched first, say of ranks; by index into TraceStore::ranks().
struct CollectivesKnown {
  std::vector<SimTime> clock_offset;  // to add to recorded times
  // How many collectives two ranks, the lower first, have in communicators other than that of all.
  std::map<std::pair<uint32_t, uint32_t>, size_t> together;
};

// Where partners are recorded, the k-th transfer from one rank to another with one tag is the k-th
// that the other receives; where one side lacks some, those are left out without which the rest
// fits best. Where partners are not recorded, or a channel's two sides do not fit, kernels that
// end together meet: whole streams that do so throughout, then single kernels. Errors: a send whose
// receiver's trace has no matching receive, naming both, in traces without times.
absl::StatusOr<PointToPointMatches> MatchPointToPoint(const TraceStore& store,
                                                      const std::vector<CommSequence>& sequences,
                                                      const CollectivesKnown& known);

}  // namespace foretrace
