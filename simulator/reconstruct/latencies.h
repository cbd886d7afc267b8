#pragma once
// Small constant latencies of a platform, measured on the recording itself over many launches of
// all ranks; or given by the user.

#include <array>
#include <span>
#include <vector>

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

struct Latencies {
  // From the begin of a launch call to the begin of its work on an idle stream.
  std::array<SimTime, kLaunchClasses> launch{SimTime::FromNs(8'000), SimTime::FromNs(8'000),
                                             SimTime::FromNs(9'000), SimTime::FromNs(10'000),
                                             SimTime::FromNs(12'000)};
  // Between two pieces of work on a busy stream.
  SimTime gap = SimTime::FromNs(1'200);
  // From the end of work on one stream to the begin of work on another that waits for it.
  SimTime event = SimTime::FromNs(2'000);
  // How many samples each rests on; 0: the default above.
  std::array<int64_t, kLaunchClasses> launch_samples{};
  int64_t gap_samples = 0;
  int64_t event_samples = 0;

  SimTime launch_of(LaunchClass c) const { return launch[static_cast<size_t>(c)]; }
};

// Gathers samples from any number of ranks of one platform.
class LatencyMeter {
 public:
  // Communication kernels give no samples: their recorded times contain waiting.
  void Add(const RankTrace& rank, const RankSync& sync);
  Latencies Measure() const;

 private:
  std::array<std::vector<int64_t>, kLaunchClasses> launch_;
  std::vector<int64_t> gap_;
  std::vector<int64_t> event_;
};

}  // namespace foretrace
