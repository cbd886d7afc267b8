#pragma once
// What a transfer puts on the links of a platform.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/network/schedule_runner.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// Links whose names differ in numbers alone ("node*.gpu*.up") and that are equally fast.
struct LinkKindLoad {
  std::string kind;
  Bandwidth rate;     // of payload
  int64_t links = 0;  // that carry anything
  RealBytes most;     // of payload, of the fullest
  RealBytes all;      // of all of them
  RealBytes mean() const { return all / static_cast<double>(links); }
  // The share of `time` for which the fullest is busy at its rate.
  double busy(SimTime time) const { return time > SimTime() ? most / rate / RealSeconds(time) : 0; }
};

// Calls `carry` with every message of the plan's schedule on every link of its route.
void WalkRoutes(const Topology& topology, const TransferPlan& plan,
                absl::FunctionRef<void(LinkId link, RealBytes bytes)> carry);

// By kind, the busiest first. Errors: more messages than can be routed one by one.
absl::StatusOr<std::vector<LinkKindLoad>> LoadsByKind(const Topology& topology,
                                                      const TransferPlan& plan);

}  // namespace foretrace
