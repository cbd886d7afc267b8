#pragma once
// How many tokens and experts the most loaded of the devices has that share experts, where some
// experts are more popular than others.

#include <cstdint>
#include <map>
#include <tuple>

namespace foretrace::serve {

struct ExpertSharing {
  int64_t experts = 1, devices = 1, top_k = 1;
  int64_t tokens = 1;   // over all devices, before each goes to top_k experts
  double exponent = 0;  // of the power law that popularity follows; 0: all are alike
};

// Of the most loaded device, in the mean over draws of who is popular.
struct ExpertLoad {
  double tokens = 1;   // that it computes, a token once for each of its experts
  double experts = 1;  // that get any
  double fullest = 1;  // tokens of the expert with most
};

// As aiconfigurator draws the loads that it times (collector/helper.py, power_law_logits_v3):
// popularity between 1 and 0.8 of the tokens, or between 0.01 and 2 where there are no more tokens
// than experts, rounded, and the device with most tokens is the one that is timed. Remembers what
// it was asked; draws are the same every time.
class ExpertLoads {
 public:
  ExpertLoad Of(const ExpertSharing& sharing);

 private:
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, double>, ExpertLoad> known_;
};

}  // namespace foretrace::serve
