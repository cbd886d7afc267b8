#pragma once
// Where the devices of a plan are, and which of them send to which.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/plan/job_plan.h"

namespace foretrace {

struct PlanLayout {
  struct Place {
    int32_t stage = 0, device = 0;  // within the stage
  };
  std::vector<Place> of_rank;
  std::vector<std::vector<int32_t>> set_of;  // by group and rank; -1: in none
  size_t marks = 0;                          // that steps leave

  explicit PlanLayout(const JobPlan& plan);
};

// Messages of one edge in one direction, as one device sends or receives them.
struct EdgeMessages {
  size_t edge = 0;
  bool forward = true, sends = false;
  int32_t chunk = 0;  // of this end
  int32_t unit = 1;   // samples in one
  std::vector<int32_t> peers;
};

// Of the device at a place. Replicas that have samples in common exchange. Of a replica's devices,
// which have the same tensors, the one of the receiver's place (modulo their number) sends.
std::vector<EdgeMessages> MessagesOf(const JobPlan& plan, const PlanLayout::Place& at);

}  // namespace foretrace
