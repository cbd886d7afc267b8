#pragma once
// Per communicator: what it moves, who arrives last, and what the others lose by waiting.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/report/classify.h"
#include "simulator/report/event_table.h"

namespace foretrace {

struct Latecomer {
  RankIndex rank = 0;
  int64_t times_last = 0;  // operations in which this rank came last and another waited for it
  SimTime caused_wait;     // sum over the members that waited for it
};

// One operation type on one process group. Groups of equal declared name are one communicator.
struct CommunicatorSummary {
  StringId group;    // empty: not declared in the trace
  std::string name;  // the declared name, else the one that matching gave; empty: unknown
  WorkGroup operation = WorkGroup::kOtherCollective;
  int32_t members = 0;  // ranks that take part within the window
  int64_t count = 0;    // operations: the largest number that one rank takes part in
  Bytes bytes;          // largest sum over one rank of max(bytes in, bytes out)
  SimTime transfer;     // largest sum over one rank of time after the last arrival
  SimTime wait;         // sum over ranks and operations of time before the last arrival
  SimTime worst_wait;   // of one rank in one operation
  RankIndex worst_rank = 0;
  SimTime worst_rank_wait;            // largest sum of one rank, worst_rank
  std::vector<Latecomer> latecomers;  // by caused_wait, largest first
};

// The name of the communicator that an operation belongs to, by ExecutedNode::rendezvous.
using CommunicatorNames = std::function<std::string_view(uint32_t rendezvous)>;

// By total of transfer and worst_rank_wait, largest first; operations that start within their
// rank's window. `windows` holds one window per rank.
std::vector<CommunicatorSummary> ComputeCommunicators(const EventTable& table,
                                                      const Classifier& classifier,
                                                      std::span<const IterationWindow> windows,
                                                      const CommunicatorNames& names = nullptr);

}  // namespace foretrace
