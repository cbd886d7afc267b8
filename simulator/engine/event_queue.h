#pragma once
// A queue of events in a total order that the events define.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/time.h"

namespace foretrace {

// Event: small, copied; has a member `time`, and operator< that is a strict total order with time
// first. A heap of four children a node: half as deep as a binary one, and the children of a node
// lie side by side in memory.
template <typename Event>
class EventQueue {
 public:
  void Push(const Event& event) {
    size_t at = heap_.size();
    heap_.push_back(event);
    while (at > 0) {
      const size_t parent = (at - 1) / kChildren;
      if (!(event < heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  const Event& Top() const { return heap_.front(); }
  // Time never runs backwards: popping an event earlier than the last one is a broken invariant.
  Event Pop() {
    const Event first = heap_.front();
    FORETRACE_CHECK(first.time >= now_);
    now_ = first.time;
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) SinkFromTop(last);
    return first;
  }
  // The time of the last event popped.
  SimTime now() const { return now_; }

 private:
  static constexpr size_t kChildren = 4;

  // Fills the hole at the top, where `event` goes if nothing is earlier.
  void SinkFromTop(const Event& event) {
    const size_t count = heap_.size();
    size_t at = 0;
    while (true) {
      const size_t begin = at * kChildren + 1;
      if (begin >= count) break;
      const size_t end = std::min(begin + kChildren, count);
      size_t least = begin;
      for (size_t child = begin + 1; child < end; ++child) {
        least = heap_[child] < heap_[least] ? child : least;
      }
      if (!(heap_[least] < event)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = event;
  }

  std::vector<Event> heap_;
  SimTime now_ = SimTime::Min();
};

}  // namespace foretrace
