#pragma once
// From a transfer to a runnable plan: which algorithm and protocol, over which rings, with which
// start-up cost. All network tiers plan alike; they differ in how they run the plan.

#include <cstdint>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/network/communicator.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/network/nccl_channels.h"
#include "simulator/network/nccl_tuning.h"
#include "simulator/network/network_model.h"
#include "simulator/network/schedule_runner.h"

namespace foretrace {

struct NetworkOptions {
  Algorithm algorithm = Algorithm::kAuto;
  int32_t chunks = 0;  // 0: one, or enough to pipeline where the algorithm does
  // kCount: chosen by size as NCCL does where the platform names a library, else raw.
  Protocol protocol = Protocol::kCount;
  FlowProgress progress = {};  // of runs of a plan alone
};

// An algorithm and protocol for one transfer, with the closed-form time.
struct Choice {
  Algorithm algorithm = Algorithm::kAuto;
  Protocol protocol = Protocol::kRaw;
  ProtocolCost cost;
  RealSeconds time;  // on an idle network
};

struct PlannedRun {
  TransferPlan plan;
  PlanRun run;
};

// Not thread-safe. The topology must outlive it.
//
// Where the library has a choice, the fitted tier takes what its closed forms find fastest, and the
// tiers that run flows take what is fastest when run alone: `auto` compares what it will simulate.
class TransferPlanner {
 public:
  TransferPlanner(const Topology& topology, NetworkOptions options)
      : topology_(topology), options_(std::move(options)), communicators_(topology) {}

  const Topology& topology() const { return topology_; }
  const NetworkOptions& options() const { return options_; }
  // The closed form; what the `fitted` tier answers where nothing was measured.
  absl::StatusOr<Choice> Choose(const TransferSpec& spec);
  // For the tiers that run flows.
  absl::StatusOr<TransferPlan> Plan(const TransferSpec& spec);
  // The same, and how it runs alone.
  absl::StatusOr<PlannedRun> PlanAndRun(const TransferSpec& spec);

 private:
  // In-switch reduction passes pieces through three stages: into the buffers that the switch reads,
  // through the switch, and out of the buffers that it writes. One fills them, one drains them.
  static constexpr double kSwitchPieces = 2;

  struct Job {
    const TransferSpec& spec;
    std::shared_ptr<const Communicator> communicator;
  };
  absl::StatusOr<Job> Check(const TransferSpec& spec);
  // What the library could do, with closed-form times; never empty.
  absl::StatusOr<std::vector<Choice>> Candidates(const Job& job) const;
  Choice OnRing(const Job& job, Protocol protocol) const;
  void ConsiderRing(const Job& job, std::vector<Choice>& out) const;
  void ConsiderChain(const Job& job, std::vector<Choice>& out) const;
  void ConsiderTree(const Job& job, std::vector<Choice>& out) const;
  void ConsiderInSwitch(const Job& job, std::vector<Choice>& out) const;
  // Of a device's NVLinks into its switch.
  Bandwidth PortRate() const;
  Bandwidth Adder(const Job& job) const;
  Bandwidth RingRate(const Job& job) const;
  double ShareOfChannels(const Communicator& c, Bandwidth links) const;
  double ShareOfRing(const Job& job) const;
  const LinkType* Nic() const;
  bool Allowed(const Choice& candidate) const;
  absl::Status CheckWork(const Job& job, Algorithm algorithm,
                         const CollectiveSchedule& schedule) const;
  std::vector<Algorithm> Known(const Job& job, Protocol protocol) const;
  // What channels have of a message to one peer, each.
  struct SplitMessage {
    int32_t channels = 1;
    RealBytes part;
  };
  RealSeconds CopyingOfSend(const Job& job, const SplitMessage& message) const;
  RealSeconds CopyingOf(const Job& job, const SplitMessage& message, int32_t peers,
                        double exchange) const;
  RealSeconds CopyingOfSends(const Job& job, const PairSplit& split, int32_t peers,
                             double exchange) const;
  RealSeconds SendsOverChannels(const Job& job, RealSeconds links, Choice& choice) const;
  absl::StatusOr<Choice> Generic(const Job& job, Algorithm algorithm, Protocol protocol) const;
  // Of the candidates, the one that is fastest when run alone.
  absl::StatusOr<PlannedRun> Fastest(const Job& job, const std::vector<Choice>& candidates);
  absl::StatusOr<TransferPlan> PlanFor(const Job& job, const Choice& choice) const;
  CollectiveRequest Request(const Job& job, const Choice& choice, double payload) const;
  RealBytes PieceBytes(const Job& job, const Choice& choice) const;
  double PayloadShare(const Communicator& c, const Choice& choice) const;
  RealSeconds StepLatency(const Communicator& c, const ProtocolCost& cost) const;

  const Topology& topology_;
  NetworkOptions options_;
  CommunicatorCache communicators_;
  // Which of its candidates a transfer was run with, by communicator, operation, whether it adds by
  // bytes, and size.
  absl::flat_hash_map<std::tuple<const Communicator*, CollectiveOp, bool, int64_t>, size_t> chosen_;
};

// The time of a transfer; one of more than a day is refused, long before SimTime ends.
absl::StatusOr<SimTime> TransferTime(RealSeconds time, const TransferSpec& spec);
// An instant of a simulation of many transfers; one after 26 days is refused.
absl::StatusOr<SimTime> CompletionTime(RealSeconds time);
// "all_reduce of 1048576 bytes on 8 ranks", for messages.
std::string Describe(const TransferSpec& spec);

}  // namespace foretrace
