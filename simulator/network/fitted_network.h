#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "simulator/network/network_model.h"
#include "simulator/network/transfer_planner.h"

namespace foretrace {

// The tier without contention: a measured curve where there is one, else the closed form of the
// algorithm that the library would choose.
class FittedNetwork : public NetworkModel {
 public:
  // nullopt: not measured.
  using Measured = std::function<std::optional<Estimate>(const TransferSpec&)>;

  // `topology` must outlive the model; `measured` may be empty.
  FittedNetwork(const Topology& topology, NetworkOptions options, Measured measured)
      : planner_(topology, options), measured_(std::move(measured)) {}

  std::string_view name() const override { return "fitted"; }
  bool contends() const override { return false; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override;
  absl::StatusOr<TransferHandle> Start(const TransferSpec& spec, SimTime start) override;
  absl::StatusOr<std::optional<Completion>> Next(SimTime limit) override;

 private:
  TransferPlanner planner_;
  Measured measured_;
  TransferHandle next_handle_ = 0;
  std::set<std::pair<SimTime, TransferHandle>> running_;
};

}  // namespace foretrace
