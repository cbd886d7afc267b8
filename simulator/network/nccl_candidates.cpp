// What NCCL's own algorithms take, among which the planner chooses.

#include <algorithm>
#include <bit>

#include "simulator/network/transfer_planner.h"

namespace foretrace {
namespace {

int32_t CeilLog2(int32_t n) {
  return n <= 1 ? 0 : static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(n - 1)));
}

// Of the bus bandwidth that links carry, what a protocol leaves.
Bandwidth Attained(Bandwidth links, const ProtocolCost& cost) {
  return std::min(links * cost.share, cost.max_bandwidth);
}

}  // namespace

RealSeconds TransferPlanner::StepLatency(const Communicator& c, const ProtocolCost& cost) const {
  return (1 - c.ring_inter_share) * c.ring_latency_intra * cost.intra_latency +
         c.ring_inter_share * c.ring_latency_inter * cost.inter_latency;
}

Bandwidth TransferPlanner::PortRate() const {
  const PlatformSpec& spec = topology_.spec();
  const LinkType& link = spec.links[static_cast<size_t>(spec.node.interconnect_link)];
  return spec.node.links_per_device * link.payload_rate();
}

bool TransferPlanner::Allowed(const Choice& candidate) const {
  return (options_.protocol == Protocol::kCount || options_.protocol == candidate.protocol) &&
         (options_.algorithm == Algorithm::kAuto || options_.algorithm == candidate.algorithm);
}

// Of units that the type of the job keeps busy; 0: of none.
Bandwidth TransferPlanner::Adder(const Job& job) const {
  if (!AddsByBytes(job.spec.dtype)) return Bandwidth();
  const auto& units = topology_.spec().node.accelerator.units;
  const auto simt = std::ranges::find(units, UnitKind::kSimt, &ComputeUnit::kind);
  return simt == units.end() ? Bandwidth() : ByteAdder(simt->clock_hz);
}

// What all channels of a ring reach over a port, the mean over steps that add and steps that pass
// on alone.
Bandwidth TransferPlanner::RingRate(const Job& job) const {
  const Bandwidth pass = PassRate(topology_.spec().library.channel);
  const auto shared = [&](Bandwidth each) {
    return SharedRate(job.communicator->channels, each, PortRate());
  };
  const Bandwidth passing = shared(pass);
  const bool adds =
      job.spec.op == CollectiveOp::kReduceScatter || job.spec.op == CollectiveOp::kReduce;
  if (!adds && job.spec.op != CollectiveOp::kAllReduce) return passing;
  const Bandwidth adding = shared(AddingRate(pass, Adder(job)));
  const RealBytes byte(1);
  return adds ? adding : 2 * byte / (byte / passing + byte / adding);
}

// Of what the links of a communicator's rings or trees carry, what its channels pass on between
// nodes.
double TransferPlanner::ShareOfChannels(const Communicator& c, Bandwidth links) const {
  const CollectiveLibrary& library = topology_.spec().library;
  if (c.nodes < 2 || library.network_channels == 0) return 1;
  return std::min(1.0, library.network_channels * library.network_channel / links);
}

// Of what a ring's links carry, what its channels reach.
double TransferPlanner::ShareOfRing(const Job& job) const {
  const Communicator& c = *job.communicator;
  const double share = ShareOfChannels(c, c.ring_bandwidth);
  const bool within = topology_.spec().library.channel > Bandwidth() && c.ranks_per_node > 1;
  return within && c.size() > 2 ? std::min(share, RingRate(job) / c.ring_bandwidth) : share;
}

// What rings cost whatever passes along them.
Choice TransferPlanner::OnRing(const Job& job, Protocol protocol) const {
  const Communicator& c = *job.communicator;
  const CollectiveLibrary& library = topology_.spec().library;
  Choice choice{Algorithm::kRing, protocol};
  choice.cost = RingCost(protocol, library.generation, c.nodes, c.ranks_per_node);
  choice.cost.launch += RealSeconds(library.launch);
  choice.cost.share *= ShareOfRing(job);
  return choice;
}

void TransferPlanner::ConsiderRing(const Job& job, std::vector<Choice>& out) const {
  const Communicator& c = *job.communicator;
  const int32_t n = c.size();
  const int32_t steps = job.spec.op == CollectiveOp::kAllReduce ? 2 * (n - 1) : n - 1;
  const RealBytes bytes(job.spec.bytes);
  for (Protocol protocol : kNcclProtocols) {
    Choice candidate = OnRing(job, protocol);
    const Bandwidth channel = topology_.spec().library.channel;
    // Between nodes a proxy sends what is in buffers while the channel receives.
    if (c.nodes == 1) {
      const bool adds = job.spec.op == CollectiveOp::kReduceScatter;
      candidate.cost.launch +=
          LastReceive(bytes / n, c.channels, adds ? AddingRate(channel, Adder(job)) : channel);
    }
    const Bandwidth bandwidth = Attained(c.ring_bandwidth, candidate.cost);
    candidate.time =
        candidate.cost.launch + steps * (StepLatency(c, candidate.cost) + bytes / n / bandwidth);
    if (Allowed(candidate)) out.push_back(candidate);
  }
}

// Broadcast and reduce, for which NCCL has rings alone, in each protocol (tuning.cc), opened at the
// root: hops one after the other, of which the last streams all of it behind the first piece.
void TransferPlanner::ConsiderChain(const Job& job, std::vector<Choice>& out) const {
  const Communicator& c = *job.communicator;
  const int32_t n = c.size();
  const RealBytes bytes(job.spec.bytes);
  for (Protocol protocol : kNcclProtocols) {
    Choice candidate = OnRing(job, protocol);
    const Bandwidth bandwidth = Attained(c.ring_bandwidth, candidate.cost);
    candidate.time = candidate.cost.launch + (n - 1) * StepLatency(c, candidate.cost) +
                     ((n - 2) * PieceBytes(job, candidate) + bytes) / bandwidth;
    if (Allowed(candidate)) out.push_back(candidate);
  }
}

void TransferPlanner::ConsiderTree(const Job& job, std::vector<Choice>& out) const {
  const Communicator& c = *job.communicator;
  const RealBytes bytes(job.spec.bytes);
  for (Protocol protocol : kNcclProtocols) {
    Choice candidate{Algorithm::kDoubleBinaryTree, protocol};
    candidate.cost = TreeCost(protocol, topology_.spec().library.generation, c.nodes);
    candidate.cost.share *= ShareOfChannels(c, c.tree_bandwidth);
    candidate.cost.launch += RealSeconds(topology_.spec().library.launch);
    // A chain inside a node, a binary tree over nodes, there and back; every port carries the data
    // twice (NCCL's tuner: algorithm bandwidth is half of the trees' bus bandwidth).
    const int32_t chain_hops = 2 * (c.ranks_per_node - 1);
    const int32_t tree_hops = 2 * CeilLog2(c.nodes);
    const RealSeconds latency = chain_hops * c.ring_latency_intra * candidate.cost.intra_latency +
                                tree_hops * c.ring_latency_inter * candidate.cost.inter_latency;
    const Bandwidth bandwidth = Attained(c.tree_bandwidth, candidate.cost);
    const RealSeconds fill = (chain_hops + tree_hops - 1) * PieceBytes(job, candidate) / bandwidth;
    candidate.time = candidate.cost.launch + latency + fill + 2 * bytes / bandwidth;
    if (Allowed(candidate)) out.push_back(candidate);
  }
}

void TransferPlanner::ConsiderInSwitch(const Job& job, std::vector<Choice>& out) const {
  const Communicator& c = *job.communicator;
  const PlatformSpec& spec = topology_.spec();
  if (!ReducesInSwitch(c, spec, job.spec.dtype)) return;
  Choice candidate{Algorithm::kInSwitch, Protocol::kSimple};
  candidate.cost = NvlsCost(c.size());
  candidate.cost.launch += RealSeconds(spec.library.launch);
  const RealBytes bytes(job.spec.bytes);
  candidate.time = candidate.cost.launch + (bytes + kSwitchPieces * PieceBytes(job, candidate)) /
                                               (c.ring_bandwidth * candidate.cost.share);
  if (Allowed(candidate)) out.push_back(candidate);
}

// What a pipeline passes on whole, hop by hop.
RealBytes TransferPlanner::PieceBytes(const Job& job, const Choice& choice) const {
  const Communicator& c = *job.communicator;
  const RealBytes bytes(job.spec.bytes);
  if (choice.algorithm == Algorithm::kInSwitch) return NvlsPieceBytes(bytes, c.size());
  if (options_.chunks > 0) return bytes / options_.chunks;
  // Between nodes proxies pass whole pieces on, so the first one fills every hop in turn before the
  // others stream behind it. Trees of one node show no such fill: they are chains of small slices.
  const bool tree = choice.algorithm == Algorithm::kDoubleBinaryTree;
  if (tree && c.nodes == 1 && choice.protocol != Protocol::kRaw) return {};
  const Protocol protocol = choice.protocol == Protocol::kRaw ? Protocol::kSimple : choice.protocol;
  return c.channels * TreeChunkBytes(protocol, bytes, c.channels, c.nodes, c.ranks_per_node);
}

}  // namespace foretrace
