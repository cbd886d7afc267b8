#pragma once
// Collectives of larger groups than recorded: what they take, and how much later the last member
// comes.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/engine/edit.h"
#include "simulator/network/network_model.h"

namespace foretrace {

// The members of a group of that size: the first of those there are, and more at their distance.
std::vector<int32_t> ResizedGroup(const std::vector<int32_t>& members, int32_t size);
// The same in a job that grows with it: with ranks in even steps, as Megatron numbers pipeline
// stages outside of data parallelism, those of later stages come after the grown groups of earlier
// ones ({4, 6} of two stages become {8, 10, 12, 14}, not {4, 6, 8, 10}).
std::vector<int32_t> GrownGroup(const std::vector<int32_t>& members, int32_t size);

// Members, those without a trace included.
int32_t GroupSize(const MatchedCommunicator& communicator);

// How much longer collectives take in groups of another size, by the network. What each rank sends
// stays in all-to-alls; what the root has grows with the group in gathers and scatters; anything
// else moves the same bytes. Sends and receives stay as they are.
class GroupResizer {
 public:
  // `job_grows`: all groups of data parallelism do together, so that ranks get other numbers.
  GroupResizer(const TraceStore& store, const CompiledJob& job, NetworkModel* network,
               bool job_grows = false)
      : store_(store), job_(job), network_(network), job_grows_(job_grows) {}

  // Of rendezvous `index` in a group of `size`; 1 where that is what it has. Errors: groups of one;
  // what the network refuses.
  absl::StatusOr<TimeRatio> Ratio(uint32_t index, int32_t size);
  // What the network says that it takes in a group of `size` whose members come together.
  absl::StatusOr<Estimate> Transfer(uint32_t index, int32_t size);

 private:
  using Kind = std::tuple<uint32_t, CollectiveOp, int64_t, int32_t>;  // communicator, bytes, size

  const TraceStore& store_;
  const CompiledJob& job_;
  NetworkModel* network_;
  bool job_grows_;
  std::map<Kind, Estimate> known_;
};

// Which arrival of the last of more ranks is taken (engine/arrival_spread.h).
// kAtHand: none comes after the last of those at hand.
enum class LastArrival : uint8_t { kAtHand, kExpected, kLate };

// What the arrivals of a rendezvous are the last of.
enum class ArrivalsOf : uint8_t {
  kGroup,    // all members: durations hold the waiting for those without a trace
  kPresent,  // those with a trace alone (AbsentRanks::kNeverLast)
};

struct GroupGrowth {
  uint32_t communicator = 0;
  int32_t from = 0, to = 0;
  int64_t rendezvous = 0;
  SimTime transfers_before, transfers_after;  // sums over rendezvous
  SimTime later;
  // Nothing at hand shows how far apart its ranks come: LastArrival::kLate supposes a rank
  // that takes longer by kSlowestRank for what it does between them.
  bool supposed = false;
};

// By how much the performance of GPUs of one model in one cluster differ: 8 %, at most 22, in the
// mean over applications (Sinha et al., Not All GPUs Are Created Equal, SC 2022, arXiv:2208.11035).
// Hosts are supposed to differ no more.
constexpr double kSlowestRank = 0.22;

// The communicators for which `sizes` says more than 0 have so many members. `arrivals` is the
// schedule of `program`, whose ranks stand for all that do the same: further ranks come as they do,
// the last of them as `last` says. Members without a trace have to be compiled as
// AbsentRanks::kAlike or, with ArrivalsOf::kPresent, kNeverLast. `network` may be null where no
// group changes its size.
absl::StatusOr<std::vector<GroupGrowth>> GrowGroups(const TraceStore& store, const CompiledJob& job,
                                                    const std::vector<int32_t>& sizes,
                                                    const Schedule& arrivals, ArrivalsOf whose,
                                                    LastArrival last, NetworkModel* network,
                                                    Program& program);

}  // namespace foretrace
