#pragma once
// Small constant latencies of a platform, measured on the recording itself over many launches of
// all ranks; or given by the user.

#include <array>
#include <span>
#include <vector>

#include "simulator/hardware/accelerator.h"
#include "simulator/reconstruct/sync_rules.h"

namespace foretrace {

// Launches differ in how long they take to reach the device: a staged copy is prepared first.
enum class LaunchClass : uint8_t {
  kKernel,
  kMemset,
  kCopyPinned,        // pinned or between devices
  kCopyFromPageable,  // host to device, staged
  kCopyToPageable,    // device to host, staged
  kCount,
};
inline constexpr size_t kLaunchClasses = static_cast<size_t>(LaunchClass::kCount);

LaunchClass LaunchClassOf(const RankTrace& rank, NodeIndex device);

// Work that follows work of another stream: kernels that communicate are set up otherwise.
enum class EventClass : uint8_t {
  kCompute,             // neither communicates
  kCommunication,       // communication after its input, or after other communication
  kAfterCommunication,  // other work after communication
  kCount,
};
inline constexpr size_t kEventClasses = static_cast<size_t>(EventClass::kCount);

EventClass EventClassOf(NodeKind producer, NodeKind consumer);

// What work follows on a busy stream: copy engines and multiprocessors take turns otherwise than
// kernels do.
enum class GapClass : uint8_t { kAfterKernel, kAfterCopy, kCount };
inline constexpr size_t kGapClasses = static_cast<size_t>(GapClass::kCount);

inline GapClass GapClassOf(NodeKind before) {
  return before == NodeKind::kMemcpy ? GapClass::kAfterCopy : GapClass::kAfterKernel;
}

struct Latencies {
  // From the begin of a launch call to the begin of its work on an idle stream.
  std::array<SimTime, kLaunchClasses> launch{};
  // Between two pieces of work on a busy stream.
  std::array<SimTime, kGapClasses> gap{};
  // From the end of work on one stream to the begin of work on another that waits for it.
  std::array<SimTime, kEventClasses> event{};
  // How many samples each rests on; 0: the device's file.
  std::array<int64_t, kLaunchClasses> launch_samples{};
  std::array<int64_t, kGapClasses> gap_samples{};
  std::array<int64_t, kEventClasses> event_samples{};

  SimTime launch_of(LaunchClass c) const { return launch[static_cast<size_t>(c)]; }
  SimTime gap_after(NodeKind before) const { return gap[static_cast<size_t>(GapClassOf(before))]; }
  SimTime event_of(EventClass c) const { return event[static_cast<size_t>(c)]; }
};

// As the file of a device states them.
Latencies LatenciesOf(const LaunchLatencies& stated);

// Gathers samples from any number of ranks of one platform.
class LatencyMeter {
 public:
  // Durations of communication kernels contain waiting for peers. Their starts do not, nor does the
  // start of work after their ends.
  void Add(const RankTrace& rank, const RankSync& sync);
  // `stated` where there are too few samples, or what work at most took to begin if that is less.
  Latencies Measure(const LaunchLatencies& stated) const;

 private:
  std::array<std::vector<int64_t>, kLaunchClasses> launch_;
  // While the former are too few: of work whose stream had only just become idle, and of any work,
  // which takes no less than its launch does.
  std::array<std::vector<int64_t>, kLaunchClasses> launch_just_idle_;
  std::array<std::vector<int64_t>, kLaunchClasses> launch_at_most_;
  std::array<std::vector<int64_t>, kGapClasses> gap_;
  std::array<std::vector<int64_t>, kEventClasses> event_;
};

}  // namespace foretrace
