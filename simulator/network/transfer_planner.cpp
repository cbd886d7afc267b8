#include "simulator/network/transfer_planner.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/fluid/run_alone.h"

namespace foretrace {
namespace {

// NCCL runs this many of a rank's sends and receives at a time; further peers wait for a round.
constexpr int32_t kPeersPerRound = 8;
bool RingOp(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kReduceScatter;
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

absl::StatusOr<SimTime> TransferTime(RealSeconds time, const TransferSpec& spec) {
  constexpr RealSeconds kLongest(86'400);
  if (time >= RealSeconds() && time <= kLongest) return SimTime::FromSeconds(time.seconds());
  return Infeasible("{}: takes {:.3g} s, more than the day that can be simulated", Describe(spec),
                    time.seconds());
}

absl::StatusOr<SimTime> CompletionTime(RealSeconds time) {
  constexpr RealSeconds kLongest(26 * 86'400.0);
  if (time <= kLongest) return SimTime::FromSeconds(time.seconds());
  return Infeasible(
      "the simulated communication ends after {:.3g} s, more than the 26 days that can "
      "be simulated; check the sizes of the collectives",
      time.seconds());
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

// The share of the links' rate that the protocol leaves for payload.
double TransferPlanner::PayloadShare(const Communicator& c, const Choice& choice) const {
  const Bandwidth links =
      choice.algorithm == Algorithm::kDoubleBinaryTree ? c.tree_bandwidth : c.ring_bandwidth;
  const double share = choice.cost.share;
  return links > Bandwidth() ? std::min(share, choice.cost.max_bandwidth / links) : share;
}

// What a protocol leaves of the links, the share `payload`, is modelled as more bytes on the wire.
CollectiveRequest TransferPlanner::Request(const Job& job, const Choice& choice,
                                           double payload) const {
  const Communicator& c = *job.communicator;
  const Algorithm algorithm = choice.algorithm;
  CollectiveRequest request;
  request.op = job.spec.op;
  request.point_to_point = job.spec.point_to_point;
  request.ranks = c.size();
  request.bytes = RealBytes(job.spec.bytes) / payload;
  request.split_bytes = job.spec.split_bytes;
  if (payload != 1) {
    for (int64_t& split : request.split_bytes)
      split = std::llround(static_cast<double>(split) / payload);
  }
  request.dimensions = c.dimensions;
  request.chunks = std::max(1, options_.chunks);
  const bool tree = algorithm == Algorithm::kDoubleBinaryTree;
  const bool rooted = PassesWhole(job.spec.op);
  const bool ring = algorithm == Algorithm::kRing || algorithm == Algorithm::kBidirectionalRing;
  if (tree || (ring && rooted)) {
    request.ring_orders = c.chain_orders;
  } else if (ring) {
    request.ring_orders = c.ring_orders;
  }
  if (tree && choice.protocol != Protocol::kRaw) request.nodes = c.node_of;
  if (tree || rooted || algorithm == Algorithm::kInSwitch) {
    const bool in_switch = algorithm == Algorithm::kInSwitch;
    request.piece = (in_switch ? kSwitchPieces : 1) * PieceBytes(job, choice) / payload;
  }
  return request;
}

// Adding up the links of more messages takes minutes.
absl::Status TransferPlanner::CheckWork(const Job& job, Algorithm algorithm,
                                        const CollectiveSchedule& schedule) const {
  constexpr int64_t kMostMessages = int64_t{1} << 24;
  if (schedule.BytesOfEveryPair()) return absl::OkStatus();  // as a part of the pairs
  int64_t different = 0;
  for (int32_t step = 0; step < schedule.steps(); ++step) {
    different += schedule.SameStep(step) == step ? 1 : 0;
  }
  const int64_t messages = schedule.flows() / std::max(schedule.steps(), 1) * different;
  if (messages <= kMostMessages) return absl::OkStatus();
  return Infeasible(
      "{} by algorithm {}: {} messages of which no two are alike are more than can be added up "
      "({}); use fewer ranks or another algorithm",
      Describe(job.spec), Name(algorithm), messages, kMostMessages);
}

// The link of a device's NIC; null: the platform has no network of NICs.
const LinkType* TransferPlanner::Nic() const {
  const PlatformSpec& spec = topology_.spec();
  if (spec.fabric.link == kNoLinkType) return nullptr;
  return &spec.links[static_cast<size_t>(spec.fabric.link)];
}

// The same to one peer on another node.
RealSeconds TransferPlanner::CopyingOfSend(const Job& job, const SplitMessage& message) const {
  const CollectiveLibrary& library = topology_.spec().library;
  if (Nic() == nullptr) return {};
  const Bandwidth nic = Nic()->payload_rate();
  const Bandwidth one = library.channel == Bandwidth()
                            ? library.network_channel
                            : NetworkSendRate(library.channel, library.network_channel, nic,
                                              !job.spec.point_to_point);
  if (one == Bandwidth()) return {};
  return message.channels * message.part / SharedRate(message.channels, one, nic);
}

// What copying takes the channels of grouped sends; 0: not known. `exchange`: the share of the
// NVLinks that is reached.
RealSeconds TransferPlanner::CopyingOfSends(const Job& job, const PairSplit& split, int32_t peers,
                                            double exchange) const {
  const auto time = [&](const SplitMessage& message) {
    return CopyingOf(job, message, peers, exchange);
  };
  const RealSeconds own = time({split.channels, split.part});
  if (split.held_channels == 0) return own;
  return std::max(own, time({split.held_channels, split.held_part}));
}

RealSeconds TransferPlanner::CopyingOf(const Job& job, const SplitMessage& message, int32_t peers,
                                       double exchange) const {
  const Communicator& c = *job.communicator;
  const CollectiveLibrary& library = topology_.spec().library;
  if (c.nodes > 1 && peers == 1) return CopyingOfSend(job, message);
  if (library.channel == Bandwidth()) return {};
  if (c.nodes > 1) {
    // An all-to-all sends to itself too. Channels have several peers at a time: while a step of one
    // is on its way they copy another's.
    return PairRounds(message.channels, c.size(), c.channels) * message.part /
           SendRate(library.channel, true);
  }
  const Bandwidth each = SendRate(library.channel, !job.spec.point_to_point);
  const Bandwidth port = PortRate() * exchange;
  const int32_t parts = peers * message.channels;
  return parts * message.part / SharedRate(std::min(kMaxChannels, parts), each, port);
}

// Charges a choice of grouped sends, which take the links the time `links`, with the share of
// these that channels leave, and with the copy out of the last step's buffer, which nothing
// overlaps. A send one way ends where its data is in the receiver's buffers. Returns what the links
// then take.
RealSeconds TransferPlanner::SendsOverChannels(const Job& job, RealSeconds links,
                                               Choice& choice) const {
  const Communicator& c = *job.communicator;
  const TransferSpec& spec = job.spec;
  const CollectiveLibrary& library = topology_.spec().library;
  const bool both_ways = !spec.point_to_point;
  const bool all = both_ways && spec.op == CollectiveOp::kAllToAll;
  const bool pairs = all || spec.point_to_point || spec.op == CollectiveOp::kSendRecv;
  if (spec.bytes.count() == 0 || !pairs) return links;
  const int32_t peers = all ? c.size() - 1 : 1;
  const RealBytes bytes = RealBytes(spec.bytes) / (all ? c.size() : 1);
  const bool by_nic = library.release >= kChannelsByNicSince && Nic() != nullptr;
  const PairSplit split =
      SplitPair(bytes, c.size(), c.nodes, c.channels, by_nic ? ChannelsOfNic(Nic()->bandwidth) : 0,
                library.release < kTwoChannelsSince ? 1 : 2);
  if (both_ways && library.channel > Bandwidth()) {
    choice.cost.launch += split.step / SendRate(library.channel, true);
  }
  const double exchange = c.nodes == 1 && peers > 1 ? library.exchange : 1;
  const RealSeconds latency = std::min(links, std::max(c.ring_latency_intra, c.ring_latency_inter));
  const RealSeconds sending =
      std::max((links - latency) / exchange, CopyingOfSends(job, split, peers, exchange));
  if (sending > RealSeconds()) choice.cost.share = (links - latency) / sending;
  return latency + sending;
}

// Any algorithm as a sum over its steps.
absl::StatusOr<Choice> TransferPlanner::Generic(const Job& job, Algorithm algorithm,
                                                Protocol protocol) const {
  const Communicator& c = *job.communicator;
  Choice choice{algorithm, protocol};
  const bool library = protocol != Protocol::kRaw;
  if (library) {
    choice.cost = PointToPointCost();
    choice.cost.launch += RealSeconds(topology_.spec().library.launch);
    if (job.spec.op == CollectiveOp::kAllToAll && algorithm == Algorithm::kDirect) {
      const int32_t rounds = (c.size() - 2 + kPeersPerRound) / kPeersPerRound;
      choice.cost.launch +=
          std::max(0, rounds - 1) * std::max(c.ring_latency_intra, c.ring_latency_inter);
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto schedule, MakeSchedule(algorithm, Request(job, choice, 1)));
  FORETRACE_RETURN_IF_ERROR(CheckWork(job, algorithm, *schedule));
  RealSeconds steps = StepSum(*schedule, c.devices, topology_);
  if (library && algorithm == Algorithm::kDirect) {
    steps = SendsOverChannels(job, steps, choice);
  }
  choice.time = choice.cost.launch + FillTime(*schedule, c.devices, topology_, {}) + steps;
  if (schedule->serial() && schedule->lanes() > 1) {
    // Pipelined: StepSum adds the chunks of a step, but only the first waits for every step.
    AlphaBeta net{std::max(c.ring_latency_intra, c.ring_latency_inter), c.ring_bandwidth};
    choice.time = choice.cost.launch + schedule->ClosedForm(net);
  }
  return choice;
}

absl::StatusOr<std::vector<Choice>> TransferPlanner::Candidates(const Job& job) const {
  const Communicator& c = *job.communicator;
  const TransferSpec& spec = job.spec;
  const bool library = topology_.spec().has_library;
  const Protocol protocol = options_.protocol != Protocol::kCount ? options_.protocol
                            : library                             ? Protocol::kSimple
                                                                  : Protocol::kRaw;
  if (c.size() == 1) return std::vector<Choice>{{Algorithm::kDirect, protocol}};
  std::vector<Choice> out;
  const bool by_library = library && !spec.point_to_point && options_.protocol != Protocol::kRaw;
  if (by_library && PassesWhole(spec.op)) {
    ConsiderChain(job, out);
    if (!out.empty()) return out;
  }
  if (by_library && RingOp(spec.op)) {
    ConsiderRing(job, out);
    if (spec.op == CollectiveOp::kAllReduce) {
      ConsiderTree(job, out);
      ConsiderInSwitch(job, out);
    }
    if (!out.empty()) return out;
  }
  if (options_.algorithm == Algorithm::kInSwitch && !spec.point_to_point) {
    return InvalidInput(
        "{}: in_switch needs an all-reduce of three ranks or more of one Hopper node with an "
        "NVLink switch",
        Describe(spec));
  }
  absl::Status refused;
  for (const Algorithm algorithm : Known(job, protocol)) {
    const absl::StatusOr<Choice> generic = Generic(job, algorithm, protocol);
    if (generic.ok()) {
      out.push_back(*generic);
    } else if (refused.ok()) {
      refused = generic.status();
    }
  }
  if (out.empty()) return refused;
  return out;
}

// Algorithms that move what is asked for: the one that was named, NCCL's, or without a library all
// that could be the fastest.
std::vector<Algorithm> TransferPlanner::Known(const Job& job, Protocol protocol) const {
  const Communicator& c = *job.communicator;
  const CollectiveOp op = job.spec.op;
  if (job.spec.point_to_point) return {Algorithm::kDirect};
  if (options_.algorithm != Algorithm::kAuto) return {options_.algorithm};
  const bool raw = protocol == Protocol::kRaw;
  const bool rooted = PassesWhole(op);
  if (op == CollectiveOp::kBarrier) return {Algorithm::kDissemination};
  if (rooted && !raw) return {Algorithm::kRing};
  if (rooted) return {Algorithm::kRing, Algorithm::kBinomial};
  if (!RingOp(op)) return {Algorithm::kDirect};
  std::vector<Algorithm> known = {Algorithm::kRing};
  if (c.dimensions.size() > 1) known.push_back(Algorithm::kHierarchical);
  const bool pairs = std::has_single_bit(static_cast<uint32_t>(c.size()));
  if (pairs || op == CollectiveOp::kAllReduce) known.push_back(Algorithm::kHalvingDoubling);
  if (op == CollectiveOp::kAllReduce) known.push_back(Algorithm::kDoubleBinaryTree);
  return known;
}

absl::StatusOr<Choice> TransferPlanner::Choose(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const Job job, Check(spec));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<Choice> candidates, Candidates(job));
  return *std::min_element(candidates.begin(), candidates.end(),
                           [](const Choice& a, const Choice& b) { return a.time < b.time; });
}

absl::StatusOr<TransferPlan> TransferPlanner::PlanFor(const Job& job, const Choice& choice) const {
  const Communicator& c = *job.communicator;
  TransferPlan plan;
  plan.payload = PayloadShare(c, choice);
  FORETRACE_ASSIGN_OR_RETURN(plan.schedule,
                             MakeSchedule(choice.algorithm, Request(job, choice, plan.payload)));
  plan.devices = c.devices;
  const LatencyScale scale{choice.cost.intra_latency, choice.cost.inter_latency};
  plan.launch = choice.cost.launch + FillTime(*plan.schedule, c.devices, topology_, scale);
  plan.algorithm = choice.algorithm;
  plan.protocol = choice.protocol;
  plan.latency_scale_intra = choice.cost.intra_latency;
  plan.latency_scale_inter = choice.cost.inter_latency;
  return plan;
}

absl::StatusOr<TransferPlan> TransferPlanner::Plan(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const Job job, Check(spec));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<Choice> candidates, Candidates(job));
  if (candidates.size() == 1) return PlanFor(job, candidates.front());
  const auto known =
      chosen_.find({job.communicator.get(), spec.op, AddsByBytes(spec.dtype), spec.bytes.count()});
  if (known != chosen_.end()) return PlanFor(job, candidates[known->second]);
  FORETRACE_ASSIGN_OR_RETURN(PlannedRun best, Fastest(job, candidates));
  return std::move(best.plan);
}

absl::StatusOr<PlannedRun> TransferPlanner::PlanAndRun(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const Job job, Check(spec));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<Choice> candidates, Candidates(job));
  return Fastest(job, candidates);
}

absl::StatusOr<PlannedRun> TransferPlanner::Fastest(const Job& job,
                                                    const std::vector<Choice>& candidates) {
  PlannedRun best;
  size_t chosen = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    PlannedRun trial;
    FORETRACE_ASSIGN_OR_RETURN(trial.plan, PlanFor(job, candidates[i]));
    FORETRACE_ASSIGN_OR_RETURN(trial.run, RunAlone(topology_, trial.plan, true, options_.progress));
    if (best.plan.schedule != nullptr && trial.run.time >= best.run.time) continue;
    best = std::move(trial);
    chosen = i;
  }
  chosen_[{job.communicator.get(), job.spec.op, AddsByBytes(job.spec.dtype),
           job.spec.bytes.count()}] = chosen;
  return best;
}

}  // namespace foretrace
