#pragma once
// What exchanges among a mapping's devices take on a network, each as if all its likes (one for
// every device that is no member) went on at once.

#include <cstdint>

#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace {

// Devices that lie `span` apart; neighbours: 1.
struct SpacedGroup {
  int32_t ranks = 1;
  int32_t span = 1;
};

// What solvers take that know one bandwidth (Piper, Phaze, PipeDream, GraphPipe).
struct FlatLinks {
  Bandwidth node = Bandwidth::GBps(230);  // bus bandwidth of an all-reduce among a node's devices
  Bandwidth nic = Bandwidth::GBps(20);    // of a device to other nodes
  SimTime latency = SimTime::FromUs(30);  // of an all-reduce within a node
};

// What a small exchange takes, and the rate at which a large one passes on more.
struct LinkRate {
  SimTime latency;
  Bandwidth bandwidth;
};

// Of an exchange that passes on `share` of its bytes; `time(bytes)`: a StatusOr<SimTime>. Errors:
// those of it.
template <typename Time>
absl::StatusOr<LinkRate> RateOf(double share, const Time& time) {
  constexpr Bytes kLarge(256 << 20), kSmall(1024);
  LinkRate rate;
  FORETRACE_ASSIGN_OR_RETURN(const SimTime large, time(kLarge));
  FORETRACE_ASSIGN_OR_RETURN(rate.latency, time(kSmall));
  rate.bandwidth = Bandwidth::BytesPerSecond(share * static_cast<double>(kLarge.count()) /
                                             (large - rate.latency).seconds());
  return rate;
}

// Thread-safe.
class ExchangeTimes {
 public:
  virtual ~ExchangeTimes() = default;
  // `bytes`: as TransferSpec::bytes counts them. Errors: what takes longer than can be simulated.
  virtual absl::StatusOr<SimTime> Collective(CollectiveOp op, SpacedGroup group,
                                             Bytes bytes) const = 0;
  // From every device to the one `distance` further.
  virtual absl::StatusOr<SimTime> Send(int32_t distance, Bytes bytes) const = 0;
  // Multiprocessors that each device's kernel of a collective holds, one a channel; 0: not known.
  virtual absl::StatusOr<int32_t> Channels(CollectiveOp /*op*/, SpacedGroup /*group*/) const {
    return 0;
  }
};

}  // namespace foretrace
