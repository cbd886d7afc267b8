#pragma once
// How far releases of one software stack differ on one job.

#include <span>
#include <string>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/mapping/training_rows.h"

namespace foretrace {

struct ReleaseSpread {
  std::string job;  // model, devices, mapping
  int32_t releases = 0;
  SimTime least, most;
  double percent() const { return 100 * (most.seconds() / least.seconds() - 1); }
};

// Of rows that are alike but for the release, wherever there is more than one; the widest first.
std::vector<ReleaseSpread> ReleaseSpreads(std::span<const TrainingRow* const> rows);

// In a sentence; empty where there are none.
std::string Describe(std::span<const ReleaseSpread> spreads);

}  // namespace foretrace
