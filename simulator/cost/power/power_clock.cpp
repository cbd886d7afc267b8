#include "simulator/cost/power/power_clock.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

// Streaming from memory draws 324 W beyond idle on an H200, GEMMs at 720 TFLOP/s 583
// (calibration/h200-sxm5-nvswitch/power.yaml).
constexpr double kStreamingShare = 0.556;
// How long the mean looks back: what leaves least of the rates of 3,226 large GEMMs of captured
// jobs on an H100 (scripts/power_clock_study.py; docs/validation.md).
constexpr double kWindowUs = 40e3;
// A clock without a limit is the kernel's own business; this only keeps it finite.
constexpr double kLeastMean = 0.05;

}  // namespace

double PowerShare(SimTime lasting, SimTime streaming, SimTime time) {
  if (time <= SimTime()) return 0;
  return lasting.us() / time.us() + kStreamingShare * std::min(streaming.us() / time.us(), 1.0);
}

double PowerClock::During(SimTime time, double power) const {
  // Of mean(t) = power + (mean(0) - power) exp(-t / window), the mean over t.
  const double windows = time.us() / kWindowUs;
  const double left = windows > 0 ? -std::expm1(-windows) / windows : 1;
  return 1 / std::cbrt(std::max(power + (mean_ - power) * left, kLeastMean));
}

void PowerClock::Run(SimTime time, double power) {
  mean_ = power + (mean_ - power) * std::exp(-time.us() / kWindowUs);
}

}  // namespace foretrace
