#include "simulator/engine/rendezvous.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/check.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// Transfers that share a network cannot end earlier than it says, so that a change by a factor is
// one of the bytes.
TransferSpec WithBytesScaled(TransferSpec transfer, double factor) {
  const auto scaled = [&](int64_t bytes) {
    return std::llround(static_cast<double>(bytes) * factor);
  };
  transfer.bytes = Bytes(scaled(transfer.bytes.count()));
  for (int64_t& bytes : transfer.split_bytes) bytes = scaled(bytes);
  return transfer;
}

}  // namespace

RendezvousTracker::RendezvousTracker(const Program& program, NetworkModel* network)
    : program_(program), network_(network) {
  const size_t n = program.rendezvous.size();
  arrived_.assign(n, 0);
  members_begin_.assign(n, 0);
  active_.assign(n, SimTime::Min());
  finished_.assign(n, SimTime());
  source_.assign(n, EstimateSource::kRecorded);
  extrapolated_.assign(n, 0);
  uint32_t communicators = 0;
  for (size_t m = 0; m < n; ++m) {
    const RendezvousProgram& rendezvous = program.rendezvous[m];
    if (rendezvous.awaiting == Awaiting::kListed) {
      members_begin_[m] = static_cast<uint32_t>(members_.size());
      members_.resize(members_.size() + rendezvous.members.size());
      for (const auto& await : rendezvous.awaits)
        ++members_[members_begin_[m] + await.member].awaited;
    }
    if (rendezvous.communicator != kNoItem) {
      communicators = std::max(communicators, rendezvous.communicator + 1);
    }
  }
  communicator_free_.assign(communicators, SimTime::Min());
}

absl::StatusOr<bool> RendezvousTracker::Arrive(uint32_t rendezvous, SimTime time) {
  const RendezvousProgram& m = program_.rendezvous[rendezvous];
  active_[rendezvous] = std::max(active_[rendezvous], time);
  FORETRACE_CHECK(arrived_[rendezvous] < m.members.size());
  if (++arrived_[rendezvous] < m.members.size()) return false;
  if (m.fixed) {
    const auto& first = m.members.front();
    source_[rendezvous] = program_.ranks[first.rank].items[first.item].source;
    return true;
  }
  FORETRACE_CHECK(network_ != nullptr);
  if (m.communicator != kNoItem) {
    active_[rendezvous] = std::max(active_[rendezvous], communicator_free_[m.communicator]);
  }
  if (m.change.replaces()) {
    source_[rendezvous] = EstimateSource::kAnalytic;
    finished_[rendezvous] = active_[rendezvous] + m.change.added;
    if (m.communicator != kNoItem) communicator_free_[m.communicator] = finished_[rendezvous];
    return true;
  }
  if (!network_->contends()) {
    FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, IsolatedDuration(m));
    source_[rendezvous] = estimate.source;
    extrapolated_[rendezvous] = estimate.extrapolated ? 1 : 0;
    finished_[rendezvous] = active_[rendezvous] + m.change.Of(estimate.time);
    if (m.communicator != kNoItem) communicator_free_[m.communicator] = finished_[rendezvous];
    return true;
  }
  source_[rendezvous] = EstimateSource::kAnalytic;
  FORETRACE_ASSIGN_OR_RETURN(
      const TransferHandle handle,
      network_->Start(
          m.change.factor == 1 ? m.transfer : WithBytesScaled(m.transfer, m.change.factor),
          active_[rendezvous]));
  if (rendezvous_of_transfer_.size() <= handle) rendezvous_of_transfer_.resize(handle + 1, kNoItem);
  rendezvous_of_transfer_[handle] = rendezvous;
  return false;
}

void RendezvousTracker::ArriveAmongSome(uint32_t rendezvous, uint32_t rank, uint32_t item,
                                        SimTime time, std::vector<Ended>& ended) {
  const RendezvousProgram& m = program_.rendezvous[rendezvous];
  FORETRACE_CHECK(m.fixed && m.awaiting != Awaiting::kAll);
  active_[rendezvous] = std::max(active_[rendezvous], time);
  ++arrived_[rendezvous];
  const Item& own = program_.ranks[rank].items[item];
  source_[rendezvous] = own.source;
  if (m.awaiting == Awaiting::kNone) {
    ended.push_back({rank, item, time + own.duration});
    return;
  }
  const auto at = std::ranges::find_if(
      m.members, [&](const auto& x) { return x.rank == rank && x.item == item; });
  FORETRACE_CHECK(at != m.members.end());
  const auto source = static_cast<uint32_t>(at - m.members.begin());
  Await(rendezvous, source, time, ended);
  for (auto await =
           std::ranges::lower_bound(m.awaits, source, {}, &RendezvousProgram::Await::source);
       await != m.awaits.end() && await->source == source; ++await) {
    Await(rendezvous, await->member, time, ended);
  }
}

// One more of the arrivals that a member awaits is known.
void RendezvousTracker::Await(uint32_t rendezvous, uint32_t member, SimTime time,
                              std::vector<Ended>& ended) {
  Member& state = members_[members_begin_[rendezvous] + member];
  state.latest = std::max(state.latest, time);
  FORETRACE_CHECK(state.awaited > 0);
  if (--state.awaited > 0) return;
  const auto& [rank, item] = program_.rendezvous[rendezvous].members[member];
  ended.push_back({rank, item, state.latest + program_.ranks[rank].items[item].duration});
}

absl::StatusOr<Estimate> RendezvousTracker::IsolatedDuration(const RendezvousProgram& rendezvous) {
  const TransferSpec& transfer = rendezvous.transfer;
  if (rendezvous.communicator == kNoItem || !transfer.split_bytes.empty()) {
    return network_->IsolatedDuration(transfer);
  }
  const Kind kind(rendezvous.communicator, transfer.op, transfer.point_to_point, transfer.dtype,
                  transfer.bytes.count());
  if (const auto known = isolated_.find(kind); known != isolated_.end()) return known->second;
  FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, network_->IsolatedDuration(transfer));
  isolated_.emplace(kind, estimate);
  return estimate;
}

absl::StatusOr<std::vector<uint32_t>> RendezvousTracker::AdvanceNetwork(SimTime limit) {
  std::vector<uint32_t> done;
  if (network_ == nullptr || !network_->contends()) return done;
  FORETRACE_ASSIGN_OR_RETURN(const auto completion, network_->Next(limit));
  if (!completion.has_value()) return done;
  FORETRACE_CHECK(completion->transfer < rendezvous_of_transfer_.size());
  const uint32_t rendezvous = rendezvous_of_transfer_[completion->transfer];
  finished_[rendezvous] = completion->time + program_.rendezvous[rendezvous].change.added;
  const uint32_t communicator = program_.rendezvous[rendezvous].communicator;
  if (communicator != kNoItem) communicator_free_[communicator] = finished_[rendezvous];
  done.push_back(rendezvous);
  return done;
}

void RendezvousTracker::EndAll(uint32_t rendezvous, std::vector<Ended>& ended) const {
  const RendezvousProgram& m = program_.rendezvous[rendezvous];
  for (const auto& [rank, item] : m.members) {
    ended.push_back({rank, item,
                     m.fixed ? active_[rendezvous] + program_.ranks[rank].items[item].duration
                             : finished_[rendezvous]});
  }
}

}  // namespace foretrace
