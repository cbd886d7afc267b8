#pragma once
// Where ranks meet: counts the members that have arrived and says when each may leave.

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/engine/program.h"

namespace foretrace {

class RendezvousTracker {
 public:
  RendezvousTracker(const Program& program, NetworkModel* network);

  // A member that has ended, or of which it is known when it will.
  struct Ended {
    uint32_t rank = 0;
    uint32_t item = 0;
    SimTime end;
  };

  // A member of a rendezvous in which all await all arrives. Returns true when the ends are known
  // now: with the last arrival, unless a network with contention decides.
  absl::StatusOr<bool> Arrive(uint32_t rendezvous, SimTime time);
  // A member of any other arrives; appends the members whose ends this makes known.
  void ArriveAmongSome(uint32_t rendezvous, uint32_t rank, uint32_t item, SimTime time,
                       std::vector<Ended>& ended);
  // The rendezvous whose transfer ends next, at or before `limit`, in a network with contention;
  // empty: there is none. Call only when no arrival at or before the limit can be discovered any
  // more.
  absl::StatusOr<std::vector<uint32_t>> AdvanceNetwork(SimTime limit);

  // After Arrive or AdvanceNetwork have said that the ends are known: appends all members.
  void EndAll(uint32_t rendezvous, std::vector<Ended>& ended) const;
  uint32_t arrived(uint32_t rendezvous) const { return arrived_[rendezvous]; }

  std::vector<SimTime> TakeActive() { return std::move(active_); }
  std::vector<EstimateSource> TakeSources() { return std::move(source_); }
  std::vector<uint8_t> TakeExtrapolated() { return std::move(extrapolated_); }

 private:
  // Of a member that waits for some arrivals only.
  struct Member {
    uint32_t awaited = 1;  // arrivals not known yet, its own included
    SimTime latest = SimTime::Min();
  };

  // What the network says of the transfer alone; asked once for all alike within a communicator.
  absl::StatusOr<Estimate> IsolatedDuration(const RendezvousProgram& rendezvous);
  void Await(uint32_t rendezvous, uint32_t member, SimTime time, std::vector<Ended>& ended);

  const Program& program_;
  NetworkModel* network_;
  // By communicator, operation, whether it is a send, type and bytes.
  using Kind = std::tuple<uint32_t, CollectiveOp, bool, DType, int64_t>;
  absl::flat_hash_map<Kind, Estimate> isolated_;
  std::vector<uint32_t> arrived_;
  std::vector<uint32_t> members_begin_;  // by rendezvous of Awaiting::kListed, in members_
  std::vector<Member> members_;
  std::vector<SimTime> active_;    // the last arrival
  std::vector<SimTime> finished_;  // decided by the network
  std::vector<EstimateSource> source_;
  std::vector<uint8_t> extrapolated_;
  std::vector<SimTime> communicator_free_;
  std::vector<uint32_t> rendezvous_of_transfer_;
};

}  // namespace foretrace
