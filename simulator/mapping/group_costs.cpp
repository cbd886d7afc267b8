#include "simulator/mapping/group_costs.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

double RingShare(double n) { return 2 * (n - 1) / n; }

}  // namespace

double GroupCosts::Between(int32_t devices) const {
  return devices <= p_.devices_per_node ? p_.intra_gather.bytes_per_second()
                                        : p_.adapter.bytes_per_second();
}

std::optional<double> GroupCosts::Measured(CollectiveOp op, int32_t ranks, double bytes) const {
  if (p_.measured == nullptr) return std::nullopt;
  const auto time = p_.measured->CollectiveTime(op, ranks, Bytes(static_cast<int64_t>(bytes)));
  return time ? std::optional(time->time.seconds()) : std::nullopt;
}

double GroupCosts::NodeAllReduce(int32_t ranks, double bytes) const {
  if (const auto time = Measured(CollectiveOp::kAllReduce, ranks, bytes)) return *time;
  return RingShare(ranks) * bytes / p_.intra_node.bytes_per_second() +
         p_.collective_latency.seconds();
}

double GroupCosts::NodePasses(int32_t ranks, double bytes) const {
  const auto gather = Measured(CollectiveOp::kAllGather, ranks, bytes);
  const auto scatter = Measured(CollectiveOp::kReduceScatter, ranks, bytes);
  if (gather && scatter) return *gather + *scatter;
  const double longer = p_.intra_node.bytes_per_second() / p_.intra_gather.bytes_per_second();
  return NodeAllReduce(ranks, bytes) * std::max(longer, 1.0);
}

double GroupCosts::TensorReduction(double bytes) const {
  if (m_.tensor <= p_.devices_per_node && m_.sequence_parallel) {
    return NodePasses(m_.tensor, bytes) + 2 * Handovers();
  }
  return TensorAllReduce(bytes);
}

double GroupCosts::TensorAllReduce(double bytes) const {
  if (m_.tensor <= p_.devices_per_node) return NodeAllReduce(m_.tensor, bytes) + Handovers();
  const double node = std::min(p_.adapter.bytes_per_second() * p_.devices_per_node,
                               p_.intra_node.bytes_per_second());
  return RingShare(m_.tensor) * bytes / node + 2 * p_.collective_latency.seconds() + Handovers();
}

double GroupCosts::ExpertAllToAll(double bytes) const {
  return AllToAll(m_.expert, m_.expert_width(), bytes);
}

double GroupCosts::ContextAllToAll(double bytes) const {
  return AllToAll(m_.context, m_.tensor, bytes);
}

double GroupCosts::AllToAll(int32_t ranks, int32_t width, double bytes) const {
  if (width * ranks <= p_.devices_per_node) {
    const auto time = Measured(CollectiveOp::kAllToAll, ranks, bytes);
    if (time) return *time + Handovers();
  }
  const double local = std::clamp(p_.devices_per_node / width, 1, ranks);
  const double inside = bytes * (local - 1) / ranks / p_.intra_gather.bytes_per_second();
  const double outside = bytes * (ranks - local) / ranks / p_.adapter.bytes_per_second();
  return std::max(inside, outside) + p_.collective_latency.seconds() + Handovers();
}

double GroupCosts::Transfer(double bytes) const {
  double time = bytes / m_.tensor / p_.adapter.bytes_per_second() + Handovers();
  if (m_.tensor > 1 && !m_.sequence_parallel) {
    time += bytes * (m_.tensor - 1) / m_.tensor / p_.intra_node.bytes_per_second();
  }
  return time;
}

double GroupCosts::ReplicaAllReduce(double bytes) const {
  if (m_.tensor * m_.replicas() <= p_.devices_per_node && p_.measured != nullptr) {
    return NodeAllReduce(m_.replicas(), bytes);
  }
  return RingPass(CollectiveOp::kReduceScatter, m_.replicas(), m_.tensor, bytes) +
         RingPass(CollectiveOp::kAllGather, m_.replicas(), m_.tensor, bytes);
}

double GroupCosts::SmallAllReduce() const {
  const int32_t ranks = m_.tensor * m_.replicas();
  const int32_t inside = std::min(ranks, p_.devices_per_node);
  const int32_t nodes = (ranks + inside - 1) / inside;
  return 2 * (p_.step_inside.seconds() * (inside - 1) +
              p_.step_outside.seconds() * std::ceil(std::log2(nodes))) +
         Handovers();
}

double GroupCosts::ReduceToShards(double bytes) const {
  const int32_t shards = m_.shards(), copies = m_.replicas() / shards;
  double time = RingPass(CollectiveOp::kReduceScatter, shards, m_.tensor, bytes);
  if (copies > 1) {
    const int32_t span = m_.tensor * shards;
    time += RingPass(CollectiveOp::kReduceScatter, copies, span, bytes / shards) +
            RingPass(CollectiveOp::kAllGather, copies, span, bytes / shards);
  }
  return time;
}

double GroupCosts::RingPass(CollectiveOp op, int32_t ranks, int32_t span, double bytes) const {
  if (ranks > 1 && ranks * span <= p_.devices_per_node) {
    if (const auto time = Measured(op, ranks, bytes)) return *time;
  }
  const int32_t inside = std::clamp(p_.devices_per_node / span, 1, ranks);  // members of a node
  const int32_t nodes = (ranks + inside - 1) / inside;
  const double latency =
      p_.step_inside.seconds() * (ranks - nodes) + p_.step_outside.seconds() * (nodes - 1);
  return RingShare(ranks) / 2 * bytes / RingBandwidth(inside, nodes) + latency;
}

double GroupCosts::RingBandwidth(int32_t inside, int32_t nodes) const {
  const double links = p_.intra_gather.bytes_per_second();
  if (nodes == 1) return links;
  const double adapters = p_.adapter.bytes_per_second() * inside;
  return inside == 1 ? adapters : std::min(adapters, links);
}

}  // namespace foretrace
