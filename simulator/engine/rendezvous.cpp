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
  expected_.assign(n, 0);
  active_.assign(n, SimTime::Min());
  finished_.assign(n, SimTime());
  source_.assign(n, EstimateSource::kRecorded);
  extrapolated_.assign(n, 0);
  uint32_t communicators = 0;
  for (size_t m = 0; m < n; ++m) {
    for (const auto& member : program.meetings[m].members) {
      if (!program.ranks[member.rank].items[member.item].eager) ++expected_[m];
    }
    if (program.meetings[m].communicator != kNoItem) {
      communicators = std::max(communicators, program.meetings[m].communicator + 1);
    }
  }
  communicator_free_.assign(communicators, SimTime::Min());
}

absl::StatusOr<bool> Rendezvous::Arrive(uint32_t meeting, SimTime time) {
  active_[meeting] = std::max(active_[meeting], time);
  FORETRACE_CHECK(arrived_[meeting] < expected_[meeting]);
  if (++arrived_[meeting] < expected_[meeting]) return false;
  const MeetingProgram& m = program_.meetings[meeting];
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

SimTime Rendezvous::EndOf(uint32_t meeting, const Item& item) const {
  if (program_.meetings[meeting].fixed) return active_[meeting] + item.duration;
  return finished_[meeting];
}

}  // namespace foretrace
