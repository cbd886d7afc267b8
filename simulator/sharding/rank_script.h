#pragma once
// Writes down what one rank does in program order: CPU ops that launch work on a stream for
// computation and one for communication. All ranks of a sharded job run the same script.

#include <array>
#include <string>
#include <vector>

#include "simulator/engine/program.h"
#include "simulator/sharding/job.h"

namespace foretrace {

class ShardedRankScript {
 public:
  enum Lane : uint8_t { kCpu, kCompute, kCommunication, kLanes };
  // An item, by its position on its lane.
  struct Ref {
    Lane lane = kLanes;
    uint32_t position = 0;
    bool valid() const { return lane != kLanes; }
  };
  struct Entry {
    Item item;  // without issuer, waits and rendezvous
    Ref issuer;
    std::vector<Ref> waits;  // for their ends
    bool holds_end = false;  // the waits hold the item's end, not its start
    std::string name;
    NodeKind node_kind = NodeKind::kRuntimeCall;
    uint8_t node_detail = 0;
    WorkPart part = WorkPart::kCpu;
    CommStep step = CommStep::kCount;  // communication only
  };

  ShardedRankScript(const CpuOverheads& cpu, JobSemantics semantics)
      : cpu_(cpu), semantics_(semantics) {}

  // Everything launched until the next Op belongs to this framework op.
  void Op() {
    lead_ += (op_launches_ > 0 ? cpu_.t3 : SimTime()) + cpu_.t1;
    op_launches_ = 0;
  }
  Ref Kernel(std::string name, WorkPart part, SimTime duration, EstimateSource source);
  // Starts when all computation issued so far is done, as NCCL's stream waits for the current one,
  // and no earlier than `negotiation` after the call.
  Ref Communicate(CommStep step, WorkPart part, SimTime negotiation = SimTime());
  // Computation issued from now on starts after `work`.
  void Await(Ref work);
  // A call that returns when `work` is done.
  void Block(std::string name, Ref work);

  const std::vector<Entry>& lane(Lane lane) const { return lanes_[lane]; }
  Entry& at(Ref ref) { return lanes_[ref.lane][ref.position]; }

 private:
  Ref Launch(std::string name);
  Ref Last(Lane lane) const {
    return lanes_[lane].empty() ? Ref{} : Ref{lane, static_cast<uint32_t>(lanes_[lane].size() - 1)};
  }

  CpuOverheads cpu_;
  JobSemantics semantics_;
  SimTime lead_;  // since the last call
  int op_launches_ = 0;
  std::vector<Ref> awaited_;  // by the next kernel
  std::array<std::vector<Entry>, kLanes> lanes_;
};

}  // namespace foretrace
