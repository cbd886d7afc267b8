#include "simulator/base/intervals.h"

#include <algorithm>

namespace foretrace {
namespace {

// Intervals come stream by stream, each in order: a few sorted runs, which are merged.
void SortRuns(std::vector<Interval>& intervals) {
  constexpr size_t kMaxRuns = 8;
  const auto by_start = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  auto sorted = std::is_sorted_until(intervals.begin(), intervals.end(), by_start);
  for (size_t runs = 1; sorted != intervals.end(); ++runs) {
    if (runs == kMaxRuns) {
      std::sort(intervals.begin(), intervals.end(), by_start);
      return;
    }
    const auto next = std::is_sorted_until(sorted, intervals.end(), by_start);
    std::inplace_merge(intervals.begin(), sorted, next, by_start);
    sorted = next;
  }
}

}  // namespace

std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.start; });
  SortRuns(intervals);
  size_t count = 0;
  for (const Interval& i : intervals) {
    if (count > 0 && i.start <= intervals[count - 1].end) {
      intervals[count - 1].end = std::max(intervals[count - 1].end, i.end);
    } else {
      intervals[count++] = i;
    }
  }
  intervals.resize(count);
  return intervals;
}

SimTime Length(std::span<const Interval> intervals) {
  SimTime sum;
  for (const Interval& i : intervals) sum += i.end - i.start;
  return sum;
}

SimTime LengthOutside(std::span<const Interval> a, std::span<const Interval> b) {
  SimTime outside = Length(a);
  size_t first = 0;
  for (const Interval& i : a) {
    while (first < b.size() && b[first].end <= i.start) ++first;
    for (size_t k = first; k < b.size() && b[k].start < i.end; ++k) {
      outside -= std::min(i.end, b[k].end) - std::max(i.start, b[k].start);
    }
  }
  return outside;
}

}  // namespace foretrace
