#pragma once
// The device memory of one rank as its profile recorded it: allocations and frees, and what they
// happened in.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/importers/profile_extras.h"
#include "simulator/replay/attribution/span_index.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// What memory was allocated in.
enum class MemoryPhase : uint8_t {
  kBefore,     // before the recording: parameters and what else was there
  kForward,    // outside of the others: activations
  kBackward,   // within a backward operator: gradients
  kOptimizer,  // within an optimizer's step: its state
  kCount,
};
std::string_view Name(MemoryPhase phase);

// An allocation with its free, by the order of the recorded events.
struct MemoryBlock {
  static constexpr int64_t kNever = int64_t{1} << 62;
  int64_t from = -1;       // event; -1: before the recording
  int64_t until = kNever;  // event
  int64_t bytes = 0;
};

class MemoryRecording {
 public:
  using Event = ProfileExtras::Memory;

  // `extras` has memory of the device.
  MemoryRecording(const TraceStore& store, const RankTrace& rank, const ProfileExtras& extras);

  const RankTrace& rank() const { return rank_; }
  std::span<const Event* const> events() const { return events_; }  // of the device, by time
  SimTime TimeOf(const Event& event) const { return Relative(event.at_ns); }
  // Events say how much is allocated in all.
  bool has_totals() const { return totals_; }
  // Events say what they free.
  bool paired() const { return paired_; }
  // A backward pass was recorded; an optimizer's step was.
  bool trains() const { return !backward_.entries().empty(); }
  bool optimizes() const { return optimizes_; }

  // Of paired recordings. What was there before and never freed is not among them.
  std::vector<MemoryBlock> Blocks() const;

  MemoryPhase PhaseOf(const Event& event) const;
  std::string OpOf(const Event& event) const;      // innermost; empty: none
  std::string ModuleOf(const Event& event) const;  // with those around it; empty: none
  // Whether an operator or range around it has a name that begins so.
  bool Within(const Event& event, std::string_view prefix) const;
  // When the backward pass of the event's step ends.
  std::optional<SimTime> EndOfBackward(const Event& event) const;  // none: no pass

  // A module's call or a range.
  struct Call {
    std::string_view name;
    SimTime end;
    uint32_t id = 0;  // of modules and ranges each
    bool module = false;
  };
  // Those around the event, the outermost first: modules, then ranges.
  std::vector<Call> CallsAround(const Event& event) const;

 private:
  SimTime Relative(int64_t ns) const { return SimTime::FromNs(ns - rank_.info().origin_ns); }
  SpanIndex Ops() const;
  SpanIndex Modules() const;
  SpanIndex Backward() const;

  const TraceStore& store_;
  const RankTrace& rank_;
  const ProfileExtras& extras_;
  const SpanIndex ops_, modules_, backward_;
  std::vector<const Event*> events_;
  std::map<int64_t, SimTime> backward_end_;  // by step
  bool totals_ = false, paired_ = false, optimizes_ = false;
};

}  // namespace foretrace
