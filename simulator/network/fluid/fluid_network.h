#pragma once

#include <deque>
#include <memory>

#include "simulator/network/fluid/fluid_backend.h"
#include "simulator/network/network_model.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/network/transfer_planner.h"

namespace foretrace {

// Flow-level tier with max-min fair sharing: transfers in flight at the same time contend. No
// global state; instances are independent. Durations are kept in RealSeconds inside and rounded to
// SimTime once, on completion.
class FluidNetwork : public NetworkModel {
 public:
  // `topology` must outlive the model.
  FluidNetwork(const Topology& topology, NetworkOptions options);

  std::string_view name() const override { return "fluid"; }
  bool contends() const override { return true; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override;
  absl::StatusOr<TransferHandle> Start(const TransferSpec& spec, SimTime start) override;
  absl::StatusOr<std::optional<Completion>> Next(SimTime limit) override;

  TransferPlanner& planner() { return planner_; }
  int64_t events() const { return backend_.events(); }

 private:
  TransferPlanner planner_;
  ScheduleRunner runner_;
  FluidBackend backend_;
  TransferHandle next_handle_ = 0;
  std::deque<Completion> completed_;
};

}  // namespace foretrace
