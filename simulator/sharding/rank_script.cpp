#include "simulator/sharding/rank_script.h"

#include <utility>

namespace foretrace {
namespace {

// Multi-GPU paper, Algorithm 1, line 21: between kernels of one stream.
constexpr SimTime kStreamGap = SimTime::FromNs(1'000);

}  // namespace

ShardedRankScript::Ref ShardedRankScript::Launch(std::string name) {
  Entry call;
  call.item.kind = ItemKind::kCall;
  call.item.lead = lead_ + (op_launches_ == 0 ? cpu_.t2 : cpu_.t5);
  call.item.duration = cpu_.t4;
  call.name = std::move(name);
  call.node_detail = static_cast<uint8_t>(RuntimeCall::kLaunchKernel);
  lead_ = SimTime();
  ++op_launches_;
  lanes_[kCpu].push_back(std::move(call));
  return Last(kCpu);
}

ShardedRankScript::Ref ShardedRankScript::Kernel(std::string name, WorkPart part, SimTime duration,
                                                 EstimateSource source) {
  Entry kernel;
  kernel.issuer = Launch("cudaLaunchKernel");
  kernel.item.kind = ItemKind::kDevice;
  kernel.item.lead = kStreamGap;
  kernel.item.issue_lag = cpu_.t4.ScaledBy(0.5);  // line 21: half of the launch call
  kernel.item.duration = duration;
  kernel.item.source = source;
  kernel.waits = std::exchange(awaited_, {});
  kernel.name = std::move(name);
  kernel.node_kind = NodeKind::kKernel;
  kernel.part = part;
  lanes_[kCompute].push_back(std::move(kernel));
  return Last(kCompute);
}

ShardedRankScript::Ref ShardedRankScript::Communicate(CommStep step, WorkPart part,
                                                      SimTime negotiation) {
  Entry comm;
  comm.issuer = Launch("cudaLaunchKernelExC");
  comm.item.kind = ItemKind::kComm;
  comm.item.lead = kStreamGap;
  comm.item.issue_lag = cpu_.t4.ScaledBy(0.5) + negotiation;
  if (const Ref computed = Last(kCompute); computed.valid()) comm.waits.push_back(computed);
  comm.name = std::string(Name(step));
  comm.node_kind = NodeKind::kCollective;
  comm.node_detail = static_cast<uint8_t>(OpOf(step));
  comm.part = part;
  comm.step = step;
  // Lines 12 to 15: both streams are brought to the same time before a communication.
  if (const Ref before = Last(kCommunication);
      semantics_ == JobSemantics::kAlgorithm1 && before.valid()) {
    awaited_.push_back(before);
  }
  lanes_[kCommunication].push_back(std::move(comm));
  return Last(kCommunication);
}

void ShardedRankScript::Await(Ref work) {
  if (work.valid()) awaited_.push_back(work);
}

void ShardedRankScript::Block(std::string name, Ref work) {
  if (semantics_ == JobSemantics::kAlgorithm1 || !work.valid()) return;
  Entry call;
  call.item.kind = ItemKind::kBlocking;
  call.item.lead = lead_ + cpu_.t5;
  lead_ = SimTime();
  ++op_launches_;
  call.waits.push_back(work);
  call.holds_end = true;
  call.name = std::move(name);
  call.node_detail = static_cast<uint8_t>(RuntimeCall::kEventSynchronize);
  lanes_[kCpu].push_back(std::move(call));
}

}  // namespace foretrace
