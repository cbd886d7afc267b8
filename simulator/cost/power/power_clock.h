#pragma once
// The clock that a board's power limit leaves its kernels, by what ran in the last tens of
// milliseconds.

#include "simulator/base/time.h"

namespace foretrace {

// Power beyond idle, 1: what GEMMs draw one after the other at the rate that the board lets last.
// Of a kernel of `time` whose FLOP take `lasting` at that rate, and whose bytes take `streaming` at
// the memory's bandwidth.
double PowerShare(SimTime lasting, SimTime streaming, SimTime time);

// Drivers hold a mean of the board's power at its limit. Power beyond idle goes with the clock
// times the voltage squared, so about with the clock's cube: where the mean would be m at the
// lasting clock, the clock is m^(-1/3) of it. Over a whole job that mean is what counts; within a
// step, GEMMs after lighter kernels run faster than those after many of their like.
class PowerClock {
 public:
  // `before`: the mean of what ran until now.
  explicit PowerClock(double before) : mean_(before) {}

  // The clock against the one that lasts, in the mean over `time`, from now on, at such power.
  double During(SimTime time, double power) const;
  void Run(SimTime time, double power);

 private:
  double mean_;
};

}  // namespace foretrace
