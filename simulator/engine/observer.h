#pragma once
// What the engine tells about a run. Observers see const events and cannot change timing.

#include <cstdint>
#include <string_view>

#include "simulator/base/estimate.h"
#include "simulator/base/time.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Why a node did not start earlier than it did.
enum class WaitCause : uint8_t {
  kNone,               // first on its lane
  kProgramOrder,       // its lane was busy with the node before it
  kLaunch,             // the CPU had not issued it yet
  kDependency,         // work on another lane of the same rank
  kCollectiveArrival,  // other members of its collective, or the partner of a send/recv
  kNetwork,            // the transfer itself
  kCpuBlock,           // CPU held by a synchronising call or blocking copy
  kDeviceRoom,         // kernels of other streams still had blocks to place
  kLaunchQueue,        // the stream's launch queue was full
  kStartSkew,          // the rank started later than the first
  kCommunicatorBusy,   // all had arrived, but its communicator had a transfer to finish first
  kCount,
};
std::string_view Name(WaitCause cause);

// Position in TraceStore::ranks(), not the rank number.
using RankIndex = uint32_t;

struct NodeRef {
  RankIndex rank = 0;
  NodeIndex node;  // invalid: none
};

// One executed node: a runtime call on a CPU thread, or device work on a stream.
struct NodeEvent {
  NodeRef node;
  LaneIndex lane;
  SimTime start;
  // Communication: when the last member arrived and the transfer proper began; else equal to start.
  SimTime active_start;
  SimTime end;
  EstimateSource source = EstimateSource::kRecorded;
  bool extrapolated = false;  // see Estimate
  // What bound the start, and the node whose progress it waited for (invalid: none). For a blocked
  // CPU call and for communication, `end_binding` is what it waited for after its start: the last
  // member's arrival, or the transfer that its communicator had to finish first.
  WaitCause cause = WaitCause::kNone;
  NodeRef binding;
  WaitCause end_cause = WaitCause::kNone;
  NodeRef end_binding;
  // Communication: equal for the members of one collective or one paired send/recv and distinct
  // between them; kNoRendezvous: not known, or not communication.
  uint32_t rendezvous = kNoRendezvous;

  static constexpr uint32_t kNoRendezvous = 0xffffffffu;
};

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // Per lane in order of time; over lanes in a deterministic but otherwise unspecified order.
  virtual void OnNode(const NodeEvent& event) = 0;
};

}  // namespace foretrace
