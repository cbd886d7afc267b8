#include "simulator/network/fitted_network.h"

#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<Estimate> FittedNetwork::IsolatedDuration(const TransferSpec& spec) {
  if (measured_) {
    if (const auto estimate = measured_(spec)) {
      FORETRACE_RETURN_IF_ERROR(TransferTime(RealSeconds(estimate->time), spec).status());
      return *estimate;
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(const Choice choice, planner_.Choose(spec));
  // With measured curves at hand, a closed form answers for what they do not cover.
  FORETRACE_ASSIGN_OR_RETURN(const SimTime time, TransferTime(choice.time, spec));
  return Estimate{time, EstimateSource::kAnalytic, measured_ != nullptr};
}

absl::StatusOr<TransferHandle> FittedNetwork::Start(const TransferSpec& spec, SimTime start) {
  FORETRACE_ASSIGN_OR_RETURN(const Estimate estimate, IsolatedDuration(spec));
  running_.insert({start + estimate.time, next_handle_});
  return next_handle_++;
}

absl::StatusOr<std::optional<NetworkModel::Completion>> FittedNetwork::Next(SimTime limit) {
  if (running_.empty() || running_.begin()->first > limit) return std::nullopt;
  const auto [time, handle] = *running_.begin();
  running_.erase(running_.begin());
  return Completion{time, handle};
}

}  // namespace foretrace
