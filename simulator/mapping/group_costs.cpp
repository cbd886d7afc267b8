#include "simulator/mapping/group_costs.h"

#include "simulator/base/check.h"
#include "simulator/base/real_sizes.h"

namespace foretrace {

std::optional<SimTime> GroupCosts::Measured(CollectiveOp op, const SpacedGroup& group,
                                            double bytes) const {
  if (p_.measured == nullptr || group.ranks * group.span > p_.devices_per_node) {
    return std::nullopt;
  }
  const auto time = p_.measured->CollectiveTime(op, group.ranks, WholeBytes(bytes));
  return time ? std::optional(time->time) : std::nullopt;
}

SimTime GroupCosts::KnownTime(const absl::StatusOr<SimTime>& time) const {
  if (time.ok()) return *time;
  status_.Update(time.status());
  return SimTime();
}

SimTime GroupCosts::AtShare(SimTime time, SimTime least, double share) const {
  return least + (time - least).ScaledBy(1 / share);
}

SimTime GroupCosts::Collective(CollectiveOp op, SpacedGroup group, double bytes) const {
  if (group.ranks < 2) return SimTime();
  if (const auto time = Measured(op, group, bytes)) return *time;
  FORETRACE_CHECK(p_.exchanges != nullptr);
  const SimTime time = KnownTime(p_.exchanges->Collective(op, group, WholeBytes(bytes)));
  const bool inside = group.ranks * group.span <= p_.devices_per_node;
  const double share = inside ? p_.node_share : p_.nic_share;
  if (share == 1) return time;
  return AtShare(time, KnownTime(p_.exchanges->Collective(op, group, Bytes())), share);
}

SimTime GroupCosts::TensorReduction(double bytes) const {
  const auto pass = [&](CollectiveOp op) { return Exchange(ShardGroup::kTensor, op, bytes); };
  if (!m_.sequence_parallel) return pass(CollectiveOp::kAllReduce);
  return pass(CollectiveOp::kAllGather) + pass(CollectiveOp::kReduceScatter);
}

// Ranks of a tensor-parallel group are neighbours.
SpacedGroup GroupCosts::RanksOf(ShardGroup group) const {
  if (group == ShardGroup::kContext) return {m_.context, m_.tensor};
  if (group == ShardGroup::kExpert) return {m_.expert, m_.expert_width()};
  if (group == ShardGroup::kTokens) return {m_.tensor * m_.context, 1};
  return {m_.tensor, 1};
}

SimTime GroupCosts::Exchange(ShardGroup group, CollectiveOp op, double bytes) const {
  return Collective(op, RanksOf(group), bytes) + Handovers();
}

// A ring's step writes into the next device's buffer what it has read of its own: with what arrives
// there each byte is read once and written twice, or read twice and written once where it is added
// (src/device/all_gather.h, reduce_scatter.h). Grouped sends read what they send besides.
HeldDevice GroupCosts::Held(CollectiveOp op, SpacedGroup group, double bytes, SimTime time) const {
  constexpr double kAccesses = 3, kOfSends = 4;
  HeldDevice held;
  if (group.ranks < 2 || p_.exchanges == nullptr) return held;
  const absl::StatusOr<int32_t> channels = p_.exchanges->Channels(op, group);
  if (!channels.ok()) {
    status_.Update(channels.status());
    return held;
  }
  held.multiprocessors = *channels;
  if (time <= SimTime()) return held;
  const bool sends = op == CollectiveOp::kAllToAll || op == CollectiveOp::kSendRecv;
  const double passes = op == CollectiveOp::kAllReduce ? 2 : 1;
  const double others = static_cast<double>(group.ranks - 1) / group.ranks;
  const double passed = op == CollectiveOp::kSendRecv ? bytes : passes * others * bytes;
  held.memory = Bandwidth::BytesPerSecond((sends ? kOfSends : kAccesses) * passed / time.seconds());
  return held;
}

double GroupCosts::TimesBeside(const PassKernels& kernels, const HeldDevice& held) const {
  if (held.multiprocessors > 0 && p_.measured != nullptr && !kernels.empty()) {
    return kernels.TimesBeside(p_.measured->Shared(), held);
  }
  if (held.multiprocessors <= 0 || p_.multiprocessors <= held.multiprocessors) {
    return 1 + p_.overlap_slowdown;
  }
  return p_.multiprocessors / (p_.multiprocessors - held.multiprocessors);
}

SimTime GroupCosts::ContextHop(double bytes) const {
  return Collective(CollectiveOp::kSendRecv, {m_.context, m_.tensor}, bytes);
}

SimTime GroupCosts::Transfer(double bytes, bool gradient) const {
  FORETRACE_CHECK(p_.exchanges != nullptr);
  const int32_t distance = m_.devices() / m_.pipeline;
  const bool whole = gradient && p_.whole_gradient_messages;
  SimTime time =
      KnownTime(p_.exchanges->Send(distance, WholeBytes(whole ? bytes : bytes / m_.tensor)));
  const double share = m_.devices() <= p_.devices_per_node ? p_.node_share : p_.nic_share;
  if (share != 1) time = AtShare(time, KnownTime(p_.exchanges->Send(distance, Bytes())), share);
  // Two neighbours reach their messages to one another at the same time.
  if (p_.transfers_in_turn) time += time;
  if (m_.sequence_parallel) return time + Handovers();
  // With the gradient what the stage had sent on is gathered too, which its backward pass begins
  // with (DeepSpeed, runtime/pipe/engine.py, _exec_backward_pass).
  const int gathers = (whole ? 0 : 1) + (gradient && p_.transfers_in_turn ? 1 : 0);
  const SimTime gather = Collective(CollectiveOp::kAllGather, {m_.tensor, 1}, bytes);
  return time + SimTime::FromPs(gathers * gather.ps()) + Handovers();
}

SimTime GroupCosts::SmallAllReduce() const {
  constexpr double kFew = 64;
  return Collective(CollectiveOp::kAllReduce, {m_.tensor * m_.replicas(), 1}, kFew) + Handovers();
}

LayerExchange GroupCosts::ReduceToShards(double bytes, SpacedGroup shards, CollectiveOp op) const {
  const SpacedGroup copies{m_.shard_groups(), shards.span * shards.ranks};
  LayerExchange exchange;
  exchange.bytes = WholeBytes(bytes);
  exchange.op = op;
  exchange.time = Collective(op, shards, bytes);
  if (copies.ranks < 2) return exchange;
  exchange.share = WholeBytes(bytes / shards.ranks);
  exchange.copies = Collective(CollectiveOp::kAllReduce, copies, bytes / shards.ranks);
  return exchange;
}

bool GroupCosts::ByOtherLinks(SpacedGroup shards) const {
  return shards.ranks * shards.span <= p_.devices_per_node &&
         shards.ranks * shards.span * m_.shard_groups() > p_.devices_per_node;
}

}  // namespace foretrace
