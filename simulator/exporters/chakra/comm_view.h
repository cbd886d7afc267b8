#pragma once
// A job's communication as simulators other than this one have to see it.
//
// They know process groups by number, take the size of a collective from whichever rank comes
// first, start a collective on its group's n-th call and hold a rank's communication until that is
// done. So members of a group must call the same collectives in the same order with the same size,
// and what has no partner in the files can only be replayed for the time it took. (ASTRA-sim
// 518bd51: Workload::issue_coll_comm, CommunicatorGroup::set_id, HardwareResource::is_available.)

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CommView {
  // Number 0 means all ranks, for every reader, and is never listed.
  static constexpr int32_t kAllRanks = 0;

  struct Group {
    int32_t number = 0;
    std::string name;
    std::vector<int32_t> ranks;
    bool declared = true;  // false: found from the recording
    MatchedBy matched_by = MatchedBy::kNothing;
  };
  struct Node {
    // Absent: the group's members are not known.
    std::optional<int32_t> group;
    bool of_recording = true;  // the node names its group itself
    // Written as communication: all its members have a node for it that the schema can say.
    bool partnered = false;
    Bytes bytes;  // the same on all members
    std::vector<NodeIndex> after;
  };

  std::vector<Group> groups;                               // ascending in number
  std::vector<absl::flat_hash_map<uint32_t, Node>> nodes;  // by rank index and node
  std::vector<std::string> doubts;                         // about groups that are not declared
  std::string unmatched_because;  // why nothing could be matched; empty: it was

  int64_t collectives = 0;    // written as such
  int64_t unequal_sizes = 0;  // of these, with sizes that differ between ranks
  int64_t replayed = 0;       // nodes that are written as the time they took
  // Operations that could not be ordered: ranks began them in orders that exclude each other.
  int64_t contradictory = 0;

  // Null for nodes that do not communicate.
  const Node* Find(uint32_t rank, NodeIndex n) const {
    const auto it = nodes[rank].find(n.value);
    return it == nodes[rank].end() ? nullptr : &it->second;
  }
};

CommView ViewCommunication(const TraceStore& store);

// What one rank sends in an operation, or receives where that is all that is known.
Bytes SizeForOthers(const CommAttr& comm);

// Orders the communication of each rank (CommView::Node::after), so that ranks cannot wait for each
// other in a circle whichever operation a simulator begins first, and never against what the
// recording implies. Recorded traces: all of a rank's operations, in an order that all ranks share.
// Symbolic traces, whose dependencies are complete: those of each group.
void OrderCommunication(const TraceStore& store, const CommunicatorMap& map, CommView& view);

}  // namespace foretrace
