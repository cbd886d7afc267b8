#include "simulator/network/transfer_planner.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// NCCL runs this many of a rank's sends and receives at a time; further peers wait for a round.
constexpr int32_t kPeersPerRound = 8;
constexpr int32_t kMaxTreeChunks = 32;

bool RingOp(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kReduceScatter;
}

int32_t CeilLog2(int32_t n) {
  return n <= 1 ? 0 : static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(n - 1)));
}

}  // namespace

std::string Describe(const TransferSpec& spec) {
  if (spec.point_to_point) {
    return fmt::format("send of {} bytes from rank {} to rank {}", spec.bytes.count(),
                       spec.members.empty() ? -1 : spec.members.front(),
                       spec.members.empty() ? -1 : spec.members.back());
  }
  return fmt::format("{} of {} bytes on {} ranks", Name(spec.op), spec.bytes.count(),
                     spec.members.size());
}

absl::StatusOr<TransferPlanner::Job> TransferPlanner::Check(const TransferSpec& spec) {
  if (spec.bytes.count() < 0) return InvalidInput("{}: negative size", Describe(spec));
  if (spec.point_to_point && spec.members.size() != 2) {
    return InvalidInput("{}: a send needs exactly a sender and a receiver, got {} ranks",
                        Describe(spec), spec.members.size());
  }
  if (!spec.point_to_point && spec.op == CollectiveOp::kUnknown) {
    return InvalidInput("{}: the collective is not known", Describe(spec));
  }
  auto communicator = communicators_.Get(spec.members);
  if (!communicator.ok()) {
    return InvalidInput("{}: {}", Describe(spec), std::string(communicator.status().message()));
  }
  return Job{spec, *std::move(communicator)};
}

double TransferPlanner::StepLatency(const Communicator& c, const ProtocolCost& cost) const {
  return (1 - c.ring_inter_share) * c.ring_latency_intra * cost.intra_latency +
         c.ring_inter_share * c.ring_latency_inter * cost.inter_latency;
}

void TransferPlanner::Consider(const Job&, Choice candidate, double seconds, Choice& best) const {
  if (options_.protocol != Protocol::kCount && options_.protocol != candidate.protocol) return;
  if (options_.algorithm != Algorithm::kAuto && options_.algorithm != candidate.algorithm) return;
  candidate.seconds = seconds;
  if (best.algorithm == Algorithm::kAuto || seconds < best.seconds) best = candidate;
}

void TransferPlanner::ConsiderRing(const Job& job, Choice& best) const {
  const Communicator& c = *job.communicator;
  const int32_t n = c.size();
  const int32_t steps = job.spec.op == CollectiveOp::kAllReduce ? 2 * (n - 1) : n - 1;
  const auto bytes = static_cast<double>(job.spec.bytes.count());
  for (Protocol protocol : kNcclProtocols) {
    Choice candidate{Algorithm::kRing, protocol};
    candidate.cost =
        RingCost(protocol, topology_.spec().library.generation, c.nodes, c.ranks_per_node);
    candidate.cost.launch += topology_.spec().library.launch.seconds();
    const double bandwidth =
        std::min(c.ring_bandwidth * candidate.cost.bandwidth, candidate.cost.max_bandwidth);
    Consider(
        job, candidate,
        candidate.cost.launch + steps * (StepLatency(c, candidate.cost) + bytes / n / bandwidth),
        best);
  }
}

void TransferPlanner::ConsiderTree(const Job& job, Choice& best) const {
  const Communicator& c = *job.communicator;
  const auto bytes = static_cast<double>(job.spec.bytes.count());
  for (Protocol protocol : kNcclProtocols) {
    Choice candidate{Algorithm::kDoubleBinaryTree, protocol};
    candidate.cost = TreeCost(protocol, topology_.spec().library.generation, c.nodes);
    candidate.cost.launch += topology_.spec().library.launch.seconds();
    // A chain inside a node, a binary tree over nodes, there and back; every port carries the data
    // twice (NCCL's tuner: algorithm bandwidth is half of the trees' bus bandwidth).
    const int32_t chain_hops = 2 * (c.ranks_per_node - 1);
    const int32_t tree_hops = 2 * CeilLog2(c.nodes);
    const double latency = chain_hops * c.ring_latency_intra * candidate.cost.intra_latency +
                           tree_hops * c.ring_latency_inter * candidate.cost.inter_latency;
    const double bandwidth =
        std::min(c.tree_bandwidth * candidate.cost.bandwidth, candidate.cost.max_bandwidth);
    const double piece =
        c.channels * TreeChunkBytes(protocol, bytes, c.channels, c.nodes, c.ranks_per_node);
    // Between nodes proxies pass whole pieces on, so the first one fills every hop in turn before
    // the others stream behind it. Chains of one node show no such fill.
    const double fill = c.nodes > 1 ? (chain_hops + tree_hops - 1) * piece / bandwidth : 0;
    Consider(job, candidate, candidate.cost.launch + latency + fill + 2 * bytes / bandwidth, best);
  }
}

// Hopper's NVSwitch reduces in the switch. Two ranks would exchange more than their data.
void TransferPlanner::ConsiderInSwitch(const Job& job, Choice& best) const {
  const Communicator& c = *job.communicator;
  const PlatformSpec& spec = topology_.spec();
  if (spec.library.generation < 2 || c.nodes > 1 || c.size() < 3 ||
      spec.node.interconnect != InterconnectKind::kSwitch) {
    return;
  }
  Choice candidate{Algorithm::kInSwitch, Protocol::kSimple};
  candidate.cost = NvlsCost(c.size());
  candidate.cost.launch += spec.library.launch.seconds();
  const auto bytes = static_cast<double>(job.spec.bytes.count());
  // The first piece is reduced before any is multicast; from then on both directions are busy.
  Consider(job, candidate,
           candidate.cost.launch + (bytes + NvlsPieceBytes(bytes, c.size())) /
                                       (c.ring_bandwidth * candidate.cost.bandwidth),
           best);
}

CollectiveRequest TransferPlanner::Request(const Job& job, Algorithm algorithm,
                                           double bytes) const {
  const Communicator& c = *job.communicator;
  CollectiveRequest request;
  request.op = job.spec.op;
  request.point_to_point = job.spec.point_to_point;
  request.ranks = c.size();
  request.bytes = bytes;
  request.split_bytes = job.spec.split_bytes;
  request.dimensions = c.dimensions;
  if (algorithm == Algorithm::kRing || algorithm == Algorithm::kBidirectionalRing) {
    request.ring_orders = c.ring_orders;
  }
  request.chunks = std::max(1, options_.chunks);
  if (options_.chunks == 0 &&
      (algorithm == Algorithm::kDoubleBinaryTree || job.spec.op == CollectiveOp::kBroadcast ||
       job.spec.op == CollectiveOp::kReduce)) {
    const double piece = c.channels * TreeChunkBytes(Protocol::kSimple, bytes, c.channels, c.nodes,
                                                     c.ranks_per_node);
    request.chunks =
        piece > 0 ? static_cast<int32_t>(std::clamp(bytes / piece, 1.0, double{kMaxTreeChunks}))
                  : 1;
  }
  return request;
}

// Any algorithm as a sum over its steps.
absl::StatusOr<Choice> TransferPlanner::Generic(const Job& job, Algorithm algorithm,
                                                Protocol protocol) const {
  const Communicator& c = *job.communicator;
  Choice choice{algorithm, protocol};
  if (protocol != Protocol::kRaw) {
    choice.cost = PointToPointCost();
    choice.cost.launch += topology_.spec().library.launch.seconds();
    if (job.spec.op == CollectiveOp::kAllToAll && algorithm == Algorithm::kDirect) {
      const int32_t rounds = (c.size() - 2 + kPeersPerRound) / kPeersPerRound;
      choice.cost.launch +=
          std::max(0, rounds - 1) * std::max(c.ring_latency_intra, c.ring_latency_inter);
    }
  }
  const CollectiveRequest request =
      Request(job, algorithm, static_cast<double>(job.spec.bytes.count()));
  FORETRACE_ASSIGN_OR_RETURN(const auto schedule, MakeSchedule(algorithm, request));
  choice.seconds = choice.cost.launch + StepSum(*schedule, c.devices, topology_);
  if (schedule->serial() && schedule->lanes() > schedule->lane_stride()) {
    // Pipelined: StepSum adds the chunks of a step, but only the first waits for every step.
    AlphaBeta net{std::max(c.ring_latency_intra, c.ring_latency_inter), c.ring_bandwidth};
    choice.seconds = choice.cost.launch + schedule->ClosedForm(net);
  }
  return choice;
}

absl::StatusOr<Choice> TransferPlanner::ChooseFor(const Job& job, bool flows_only) {
  const Communicator& c = *job.communicator;
  const TransferSpec& spec = job.spec;
  const bool library = topology_.spec().has_library;
  const Protocol protocol = options_.protocol != Protocol::kCount ? options_.protocol
                            : library                             ? Protocol::kSimple
                                                                  : Protocol::kRaw;
  if (c.size() == 1) return Choice{Algorithm::kDirect, protocol};
  if (spec.point_to_point) return Generic(job, Algorithm::kDirect, protocol);
  Choice best;
  if (library && options_.protocol != Protocol::kRaw && RingOp(spec.op)) {
    ConsiderRing(job, best);
    if (spec.op == CollectiveOp::kAllReduce) {
      ConsiderTree(job, best);
      if (!flows_only) ConsiderInSwitch(job, best);
    }
    if (best.algorithm != Algorithm::kAuto) return best;
  }
  Algorithm algorithm = options_.algorithm;
  if (algorithm == Algorithm::kAuto) {
    const bool composed = topology_.spec().fabric.kind == FabricKind::kDimensions;
    if (RingOp(spec.op)) {
      algorithm = composed && c.dimensions.size() > 1 ? Algorithm::kHierarchical : Algorithm::kRing;
    } else if (spec.op == CollectiveOp::kBroadcast || spec.op == CollectiveOp::kReduce) {
      algorithm = Algorithm::kRing;
    } else if (spec.op == CollectiveOp::kBarrier) {
      algorithm = Algorithm::kDissemination;
    } else {
      algorithm = Algorithm::kDirect;
    }
  }
  if (algorithm == Algorithm::kInSwitch) {
    return InvalidInput(
        "{}: in_switch needs an all-reduce of three ranks or more of one Hopper "
        "node, and the fitted network",
        Describe(spec));
  }
  return Generic(job, algorithm, protocol);
}

absl::StatusOr<Choice> TransferPlanner::Choose(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const Job job, Check(spec));
  return ChooseFor(job, /*flows_only=*/false);
}

absl::StatusOr<TransferPlan> TransferPlanner::Plan(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const Job job, Check(spec));
  FORETRACE_ASSIGN_OR_RETURN(const Choice choice, ChooseFor(job, /*flows_only=*/true));
  const Communicator& c = *job.communicator;
  // A protocol's bandwidth is modelled as more bytes on the wire.
  double rate = choice.cost.bandwidth;
  if (c.ring_bandwidth > 0) {
    rate = std::min(rate, choice.cost.max_bandwidth / c.ring_bandwidth);
  }
  const auto bytes = static_cast<double>(spec.bytes.count()) / rate;
  TransferPlan plan;
  FORETRACE_ASSIGN_OR_RETURN(plan.schedule,
                             MakeSchedule(choice.algorithm, Request(job, choice.algorithm, bytes)));
  if (int64_t{plan.schedule->lanes()} * plan.schedule->ranks() > (int64_t{1} << 30)) {
    return InvalidInput("{}: {} lanes of {} ranks are too many", Describe(spec),
                        plan.schedule->lanes(), plan.schedule->ranks());
  }
  plan.devices = c.devices;
  plan.launch = choice.cost.launch;
  plan.algorithm = choice.algorithm;
  plan.protocol = choice.protocol;
  plan.latency_scale_intra = choice.cost.intra_latency;
  plan.latency_scale_inter = choice.cost.inter_latency;
  return plan;
}

}  // namespace foretrace
