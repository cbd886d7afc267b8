#pragma once
// How busy the links of a platform are in a predicted run.

#include <string>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

// One transfer's part of a link's bandwidth, as its mean: its bytes over the link, by the time from
// the last arrival to the end.
struct LinkUse {
  SimTime start;
  SimTime end;
  double share = 0;
};

struct LinkLoad {
  std::string name;  // as the topology calls it
  std::vector<LinkUse> uses;
};

}  // namespace foretrace
