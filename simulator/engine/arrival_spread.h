#pragma once
// How far apart ranks come to what they do together, and how much later the last of more would
// come.

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

// Arrivals at one kind of rendezvous, each against the mean of its rendezvous. What lies beyond
// their upper quartile is taken for exponential with the mean excess over it (peaks over a
// threshold), what lies below as it was seen. Ranks are independent of each other.
class ArrivalSpread {
 public:
  // By how much the last of more ranks comes later.
  struct Later {
    SimTime expected;  // mean of the last
    SimTime late;      // in one of twenty cases it comes later still
  };

  // Arrivals of one rendezvous.
  void Add(std::span<const SimTime> arrivals);
  // One rank alone: how long it waited for the last of `members`, itself included.
  void AddWait(SimTime wait, int32_t members);

  // Whether it says anything of further ranks: those of generated traces come at one instant.
  bool shown() const;

  // How much later than the last of those that came, at `last` from their mean, the last of all
  // comes where `more` ranks join them; zero where nothing was added.
  Later After(SimTime last, int32_t more) const;

 private:
  struct Tail;
  Tail TailOf(const std::vector<double>& sorted) const;

  std::vector<double> offsets_;  // us, from the mean of all ranks, at hand or not
  double scales_ = 0;            // us, of exponential arrivals, summed over waits
  int64_t waits_ = 0;
};

}  // namespace foretrace
