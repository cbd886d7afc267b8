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

Rendezvous::Rendezvous(const Program& program, NetworkModel* network)
    : program_(program), network_(network) {
  const size_t n = program.meetings.size();
  arrived_.assign(n, 0);
  members_begin_.assign(n, 0);
  active_.assign(n, SimTime::Min());
  finished_.assign(n, SimTime());
  source_.assign(n, EstimateSource::kRecorded);
  extrapolated_.assign(n, 0);
  uint32_t communicators = 0;
  for (size_t m = 0; m < n; ++m) {
    const MeetingProgram& meeting = program.meetings[m];
    if (meeting.awaiting == Awaiting::kListed) {
      members_begin_[m] = static_cast<uint32_t>(members_.size());
      members_.resize(members_.size() + meeting.members.size());
      for (const auto& await : meeting.awaits) ++members_[members_begin_[m] + await.member].awaited;
    }
    if (meeting.communicator != kNoItem) {
      communicators = std::max(communicators, meeting.communicator + 1);
    }
  }
  communicator_free_.assign(communicators, SimTime::Min());
}

absl::StatusOr<bool> Rendezvous::Arrive(uint32_t meeting, SimTime time) {
  const MeetingProgram& m = program_.meetings[meeting];
  active_[meeting] = std::max(active_[meeting], time);
  FORETRACE_CHECK(arrived_[meeting] < m.members.size());
  if (++arrived_[meeting] < m.members.size()) return false;
  if (m.fixed) {
    const auto& first = m.members.front();
    source_[meeting] = program_.ranks[first.rank].items[first.item].source;
    return true;
  }
  FORETRACE_CHECK(network_ != nullptr);
  if (m.communicator != kNoItem) {
    active_[meeting] = std::max(active_[meeting], communicator_free_[m.communicator]);
  }
  if (m.change.replaces()) {
    source_[meeting] = EstimateSource::kAnalytic;
    finished_[meeting] = active_[meeting] + m.change.added;
    if (m.communicator != kNoItem) communicator_free_[m.communicator] = finished_[meeting];
    return true;
  }
  if (!network_->contends()) {
    FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, IsolatedDuration(m));
    source_[meeting] = estimate.source;
    extrapolated_[meeting] = estimate.extrapolated ? 1 : 0;
    finished_[meeting] = active_[meeting] + m.change.Of(estimate.time);
    if (m.communicator != kNoItem) communicator_free_[m.communicator] = finished_[meeting];
    return true;
  }
  source_[meeting] = EstimateSource::kAnalytic;
  FORETRACE_ASSIGN_OR_RETURN(
      const TransferHandle handle,
      network_->Start(
          m.change.factor == 1 ? m.transfer : WithBytesScaled(m.transfer, m.change.factor),
          active_[meeting]));
  if (meeting_of_transfer_.size() <= handle) meeting_of_transfer_.resize(handle + 1, kNoItem);
  meeting_of_transfer_[handle] = meeting;
  return false;
}

void Rendezvous::ArriveAmongSome(uint32_t meeting, uint32_t rank, uint32_t item, SimTime time,
                                 std::vector<Ended>& ended) {
  const MeetingProgram& m = program_.meetings[meeting];
  FORETRACE_CHECK(m.fixed && m.awaiting != Awaiting::kAll);
  active_[meeting] = std::max(active_[meeting], time);
  ++arrived_[meeting];
  const Item& own = program_.ranks[rank].items[item];
  source_[meeting] = own.source;
  if (m.awaiting == Awaiting::kNone) {
    ended.push_back({rank, item, time + own.duration});
    return;
  }
  const auto at = std::ranges::find_if(
      m.members, [&](const auto& x) { return x.rank == rank && x.item == item; });
  FORETRACE_CHECK(at != m.members.end());
  const auto source = static_cast<uint32_t>(at - m.members.begin());
  Await(meeting, source, time, ended);
  for (auto await = std::ranges::lower_bound(m.awaits, source, {}, &MeetingProgram::Await::source);
       await != m.awaits.end() && await->source == source; ++await) {
    Await(meeting, await->member, time, ended);
  }
}

// One more of the arrivals that a member awaits is known.
void Rendezvous::Await(uint32_t meeting, uint32_t member, SimTime time, std::vector<Ended>& ended) {
  Member& state = members_[members_begin_[meeting] + member];
  state.latest = std::max(state.latest, time);
  FORETRACE_CHECK(state.awaited > 0);
  if (--state.awaited > 0) return;
  const auto& [rank, item] = program_.meetings[meeting].members[member];
  ended.push_back({rank, item, state.latest + program_.ranks[rank].items[item].duration});
}

absl::StatusOr<Estimate> Rendezvous::IsolatedDuration(const MeetingProgram& meeting) {
  const TransferSpec& transfer = meeting.transfer;
  if (meeting.communicator == kNoItem || !transfer.split_bytes.empty()) {
    return network_->IsolatedDuration(transfer);
  }
  const Kind kind(meeting.communicator, transfer.op, transfer.point_to_point, transfer.dtype,
                  transfer.bytes.count());
  if (const auto known = isolated_.find(kind); known != isolated_.end()) return known->second;
  FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, network_->IsolatedDuration(transfer));
  isolated_.emplace(kind, estimate);
  return estimate;
}

absl::StatusOr<std::vector<uint32_t>> Rendezvous::AdvanceNetwork(SimTime limit) {
  std::vector<uint32_t> done;
  if (network_ == nullptr || !network_->contends()) return done;
  FORETRACE_ASSIGN_OR_RETURN(const auto completion, network_->Next(limit));
  if (!completion.has_value()) return done;
  FORETRACE_CHECK(completion->transfer < meeting_of_transfer_.size());
  const uint32_t meeting = meeting_of_transfer_[completion->transfer];
  finished_[meeting] = completion->time + program_.meetings[meeting].change.added;
  const uint32_t communicator = program_.meetings[meeting].communicator;
  if (communicator != kNoItem) communicator_free_[communicator] = finished_[meeting];
  done.push_back(meeting);
  return done;
}

void Rendezvous::EndAll(uint32_t meeting, std::vector<Ended>& ended) const {
  const MeetingProgram& m = program_.meetings[meeting];
  for (const auto& [rank, item] : m.members) {
    ended.push_back({rank, item,
                     m.fixed ? active_[meeting] + program_.ranks[rank].items[item].duration
                             : finished_[meeting]});
  }
}

}  // namespace foretrace
