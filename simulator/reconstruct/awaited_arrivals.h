#pragma once
// Whose arrivals the kernels of a rendezvous wait for.
//
// A kernel ends at the latest of its transfers plus its own part. What comes to it waits for its
// source; what goes from it waits for its destination, unless it was buffered: then the kernel
// leaves without. An all-reduce transfers from all to all, a broadcast from its root, a reduction
// to it.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "simulator/reconstruct/communicators.h"
#include "simulator/reconstruct/transfer_modes.h"

namespace foretrace {

struct AwaitedArrivals {
  // `member` waits for `source`; positions in MatchedRendezvous::members.
  struct Await {
    uint32_t member = 0;
    uint32_t source = 0;

    auto operator<=>(const Await& other) const {
      return std::pair(source, member) <=> std::pair(other.source, other.member);
    }
    bool operator==(const Await&) const = default;
  };
  // Every member waits for every other; `list` is empty.
  bool all = true;
  std::vector<Await> list;  // in order, without repetitions; nobody's own arrival
  // Of these, or of all: senders that may not wait for their receivers, which nothing shows.
  std::vector<Await> assumed;
  int64_t buffered = 0;  // transfers whose source did not wait
  // Transfers that ended before they were sent, by more than clocks can be wrong: nobody waits.
  int64_t impossible = 0;
};

class AwaitedArrivalsFinder {
 public:
  // `clock_offset` by index of rank, to be added to recorded times. All must outlive this.
  AwaitedArrivalsFinder(const TraceStore& store, const CommunicatorMap& map,
                        std::span<const SimTime> clock_offset);

  AwaitedArrivals Find(const MatchedRendezvous& rendezvous) const;
  // `awaited` without those that are assumed.
  static AwaitedArrivals WithoutAssumed(const MatchedRendezvous& rendezvous,
                                        AwaitedArrivals awaited);
  // By member: what it took after the last arrival that it waited for, as recorded.
  std::vector<SimTime> OwnParts(const MatchedRendezvous& rendezvous,
                                const AwaitedArrivals& awaited) const;
  // Channels of transfers by mode; none of traces without times.
  TransferModes::Count modes() const { return modes_ ? modes_->count() : TransferModes::Count(); }

 private:
  AwaitedArrivals ByEvidence(const MatchedRendezvous& rendezvous) const;

  const TraceStore& store_;
  MemberTimes times_;
  bool timed_;
  std::optional<TransferModes> modes_;  // of recorded traces
};

}  // namespace foretrace
