#pragma once
// Executes collective schedules on a flow backend: issues each rank's sends when the schedule's
// rule allows, and finds out when a transfer is complete. Many transfers run at once and contend.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/network/collective/schedule.h"
#include "simulator/network/flow_backend.h"
#include "simulator/network/nccl_tuning.h"

namespace foretrace {

// A transfer ready to run.
struct TransferPlan {
  std::shared_ptr<const CollectiveSchedule> schedule;
  std::vector<DeviceId> devices;  // of each rank of the schedule
  RealSeconds launch;             // before the streams: start-up, and filling pipelines
  // Factors on route latencies, within a node and between nodes (protocols differ in them).
  double latency_scale_intra = 1;
  double latency_scale_inter = 1;
  Algorithm algorithm = Algorithm::kAuto;
  Protocol protocol = Protocol::kRaw;
  // Payload in a byte of the schedule, whose messages are longer by what the protocol adds and by
  // what it leaves of a link's time.
  double payload = 1;
};

class ScheduleRunner : public FlowSink {
 public:
  struct Finished {
    RealSeconds time;
    uint32_t transfer;
  };

  // The backend reports to this runner; set it before the first Begin.
  void set_backend(FlowBackend* backend) { backend_ = backend; }

  // Starts `plan` at `time` (not before the backend's now); `transfer` names it from then on.
  void Begin(uint32_t transfer, TransferPlan plan, RealSeconds time);
  // Transfers that have completed since the last call of Take.
  std::vector<Finished> TakeFinished();
  bool has_finished() const { return !finished_.empty(); }
  size_t running() const { return by_name_.size(); }
  // One line that names the transfers still running and a rank that waits; for stall errors.
  std::string DescribeRunning() const;

  void OnDrained(uint32_t token) override;
  void OnDelivered(uint32_t token) override;
  void OnTimer(uint32_t token) override;

 private:
  // Of one rank in one lane.
  struct State {
    int32_t next = 0;       // the step to issue next
    int32_t missing = 0;    // messages of step next-1 still to arrive
    int32_t undrained = 0;  // own sends of step next-1 still under way
  };
  struct Transfer {
    uint32_t name = 0;
    TransferPlan plan;
    int32_t ranks = 0;
    int32_t lanes = 0;
    int32_t steps = 0;
    bool serial = false;
    std::vector<State> states;  // lane x rank
    int64_t open = 0;           // states that are not done
    // Messages that arrived before their step was issued, by (state, step).
    absl::flat_hash_map<uint64_t, int32_t> early;
  };
  struct Message {
    uint32_t slot;   // of the transfer
    uint32_t state;  // of the sender
    int32_t to;
    int32_t step;
  };

  void Advance(uint32_t slot, int32_t lane, int32_t rank);
  void AdvanceLane(uint32_t slot, int32_t lane, int32_t rank);
  bool Issue(uint32_t slot, Transfer& transfer, int32_t lane, int32_t rank, State& state);
  void Finish(uint32_t slot);

  FlowBackend* backend_ = nullptr;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<uint32_t> free_slots_;
  absl::flat_hash_map<uint32_t, uint32_t> by_name_;
  std::vector<Message> messages_;
  std::vector<uint32_t> free_messages_;
  std::vector<Finished> finished_;
  std::vector<Send> sends_;
};

}  // namespace foretrace
