#pragma once
// Sets of moments: what streams do at the same time counts once.

#include <span>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

struct Interval {
  SimTime start;
  SimTime end;
};
// Sorted, disjoint and non-empty intervals with the same union.
std::vector<Interval> Union(std::vector<Interval> intervals);
// Total length of disjoint intervals.
SimTime Length(std::span<const Interval> intervals);
// Length of the part of `a` that `b` does not cover; both as Union returns them.
SimTime LengthOutside(std::span<const Interval> a, std::span<const Interval> b);

}  // namespace foretrace
