#pragma once
// A captured job as the template of plans: its sharded lookups and the all-to-alls around them take
// the plan's durations, everything else stays as recorded.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/sharding/plan_work.h"

namespace foretrace {

// What is replaced. A lookup is a call whose name says so (FBGEMM's, torch's embedding_bag) with
// all its kernels, sorting of indices included; where a capture has FBGEMM's split (model-parallel)
// and dense (copied) lookups, the dense ones stay. Of all-to-alls those before the forward lookup
// carry lengths and indices (the last but one and the last of the iteration), the first after it
// pooled vectors, and the last before the backward lookup their gradients.
class TemplateJob {
 public:
  // Errors, naming the capture: another number of ranks than `gpus`, ranks without lookups, no pair
  // of all-to-alls of pooled vectors and gradients in any iteration.
  static absl::StatusOr<std::unique_ptr<TemplateJob>> Create(
      std::shared_ptr<const TraceStore> store, int32_t gpus);

  // `lookups`: where the plan's lookup times come from.
  void SetWork(const PlanWork& work, EstimateSource lookups);
  void SetRecorded();

  absl::StatusOr<Schedule> Run() const;
  // Of the iteration that stands for all: the median one as recorded, of those with lookups. The
  // slowest rank's, from one step mark to the next, as `predict` reports it, and what its device
  // work outlasts the step by beyond what it does with recorded durations: the CPU may issue a step
  // without waiting for its lookups, but the next step would.
  SimTime IterationTime(const Schedule& schedule) const;
  int64_t iteration() const { return iteration_; }

  const Program& program() const { return job_.program; }
  const TraceStore& store() const { return *store_; }
  // [begin, end) of the iteration on a rank.
  std::pair<SimTime, SimTime> Window(const Schedule& schedule, uint32_t rank) const;
  // How long the device works on what the CPU issued in the iteration after its end.
  SimTime Backlog(const Schedule& schedule, uint32_t rank) const;
  // "lookups: 16 kernels of 8 ranks; all-to-alls: 4 ..., in 1 iteration"
  std::string Describe() const;

 private:
  // Items that share a replaced duration in the proportion of their recorded ones.
  struct Replaced {
    std::vector<uint32_t> items;
    std::vector<SimTime> recorded;
    SimTime total;
    void Add(uint32_t item, SimTime duration) {
      items.push_back(item);
      recorded.push_back(duration);
      total += duration;
    }
  };
  // Of one iteration of one rank.
  struct RankIteration {
    Replaced forward, backward;
    SimTime forward_begin = SimTime::Max(), backward_begin = SimTime::Max();  // recorded
  };
  struct ReplacedRendezvous {
    uint32_t rendezvous = 0;
    CommStep step = CommStep::kCount;
    std::vector<SimTime> recorded;  // by member
  };

  TemplateJob() = default;
  void FindLookups(uint32_t rank);
  void FindRendezvous();
  void ChooseIteration(const Schedule& schedule);
  void Set(uint32_t rank, const Replaced& replaced, SimTime total, EstimateSource source);

  std::shared_ptr<const TraceStore> store_;
  CompiledJob job_;
  std::vector<std::map<int64_t, RankIteration>> ranks_;  // by iteration number
  std::vector<ReplacedRendezvous> rendezvous_;
  int64_t iteration_ = 0;
  std::vector<SimTime> recorded_backlog_;  // by rank
};

}  // namespace foretrace
