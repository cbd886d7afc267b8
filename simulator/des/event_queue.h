#pragma once
// A queue of events in total order: by time, then priority, then order of insertion.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/time.h"

namespace foretrace {

// Lower priorities come first at equal times. Payload is small and copied.
template <typename Payload>
class EventQueue {
 public:
  struct Event {
    SimTime time;
    uint32_t priority = 0;
    uint64_t sequence = 0;
    Payload payload;
  };

  void Push(SimTime time, uint32_t priority, const Payload& payload) {
    heap_.push_back({time, priority, next_sequence_++, payload});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  const Event& Top() const { return heap_.front(); }
  // Time never runs backwards: popping an event earlier than the last one is a broken invariant.
  Event Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Event event = heap_.back();
    heap_.pop_back();
    FORETRACE_CHECK(event.time >= now_);
    now_ = event.time;
    return event;
  }
  SimTime now() const { return now_; }

 private:
  static bool Later(const Event& a, const Event& b) {
    return std::tie(a.time, a.priority, a.sequence) > std::tie(b.time, b.priority, b.sequence);
  }
  std::vector<Event> heap_;
  uint64_t next_sequence_ = 0;
  SimTime now_ = SimTime::Min();
};

}  // namespace foretrace
