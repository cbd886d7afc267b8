#pragma once
// Where ranks meet: counts the members that have arrived and says when each may leave.

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/engine/program.h"

namespace foretrace {

class Rendezvous {
 public:
  Rendezvous(const Program& program, NetworkModel* network);

  // A member arrives. Returns true when the meeting's ends are known now: with the last arrival of
  // a fixed meeting, or of one that a network without contention decides.
  absl::StatusOr<bool> Arrive(uint32_t meeting, SimTime time);
  // The meeting whose transfer ends next, at or before `limit`, in a network with contention;
  // empty: there is none. Call only when no arrival at or before the limit can be discovered any
  // more.
  absl::StatusOr<std::vector<uint32_t>> AdvanceNetwork(SimTime limit);
  SimTime finished(uint32_t meeting) const { return finished_[meeting]; }

  // After the meeting's ends are known:
  SimTime active(uint32_t meeting) const { return active_[meeting]; }
  SimTime EndOf(uint32_t meeting, const Item& item) const;
  EstimateSource source(uint32_t meeting) const { return source_[meeting]; }
  uint32_t arrived(uint32_t meeting) const { return arrived_[meeting]; }

  std::vector<SimTime> TakeActive() { return std::move(active_); }
  std::vector<EstimateSource> TakeSources() { return std::move(source_); }
  std::vector<uint8_t> TakeExtrapolated() { return std::move(extrapolated_); }

 private:
  // What the network says of the transfer alone; asked once for all alike within a communicator.
  absl::StatusOr<Estimate> IsolatedDuration(const MeetingProgram& meeting);

  const Program& program_;
  NetworkModel* network_;
  // By communicator, operation, whether it is a send, type and bytes.
  using Kind = std::tuple<uint32_t, CollectiveOp, bool, DType, int64_t>;
  absl::flat_hash_map<Kind, Estimate> isolated_;
  std::vector<uint32_t> arrived_;
  std::vector<uint32_t> expected_;
  std::vector<SimTime> active_;    // the last arrival
  std::vector<SimTime> finished_;  // decided by the network
  std::vector<EstimateSource> source_;
  std::vector<uint8_t> extrapolated_;
  std::vector<SimTime> communicator_free_;
  std::vector<uint32_t> meeting_of_transfer_;
};

}  // namespace foretrace
