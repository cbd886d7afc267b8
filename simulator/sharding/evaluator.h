#pragma once
// The simulated iteration time of plans.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/sharding/job.h"
#include "simulator/sharding/memory.h"
#include "simulator/sharding/template_job.h"

namespace foretrace {

// What the sharders see of the simulator.
class PlanEvaluator {
 public:
  virtual ~PlanEvaluator() = default;
  // Of one iteration, all ranks starting together. The plan is one that CheckPlan accepts; whether
  // it fits in memory is not looked at.
  virtual absl::StatusOr<SimTime> IterationTime(const ShardingPlan& plan) = 0;
  virtual int64_t evaluated() const = 0;
};

// One rank of a simulated iteration. The parts of its time add up to the iteration: computing; not
// computing while a transfer it takes part in runs; while it waits for other ranks at a collective;
// and the rest, in which the CPU has not issued work or nothing is left to do.
struct RankLoad {
  std::array<SimTime, static_cast<size_t>(WorkPart::kCount)> busy{};  // transfers without waiting
  SimTime computing;
  SimTime exposed_transfer;
  SimTime waiting;
  SimTime idle;
  // Communication while nothing is computed (report/overlap.h).
  SimTime exposed() const { return exposed_transfer + waiting; }
  double lookups = 0;
  Bytes sent, received;  // in all collectives of the tables, forward and backward
};

struct PlanEvaluation {
  SimTime iteration;
  std::vector<RankLoad> ranks;
  // Summed over ranks: device work and transfers by where their durations come from, and the CPU
  // (which the task states, or statistics).
  std::array<SimTime, static_cast<size_t>(EstimateSource::kCount)> by_source{};
  SimTime extrapolated;  // of these, lookups and transfers beyond what was calibrated
  // Longest over mean of the ranks' lookup time (forward and backward).
  double lookup_imbalance = 1;
  std::array<Bytes, static_cast<size_t>(CommStep::kCount)> bytes{};
};

// The models that a task is simulated with.
struct ShardingModels {
  std::shared_ptr<const KernelModels> kernels;
  EmbeddingModels embedding;
  std::shared_ptr<const LookupStack> stack;  // null: lookups and collectives of torchrec
  std::shared_ptr<const CollectiveCalibration> collectives;  // may be null
  PlatformSpec platform;
  std::shared_ptr<const TraceStore> capture;  // a template for all plans; null: simulated alone
  CollectiveForm form = CollectiveForm::kCalibrated;
  JobSemantics semantics = JobSemantics::kFull;
};

// The ranks that decide how long an iteration takes, where all collectives are of the world: those
// of which no other has both longer lookups forward and backward. Ranks run the same program, in
// which nothing starts earlier when work takes longer, so that no item of another rank ends after
// that of one of these and no collective waits for it: the simulated time is the same to the bit
// without it. All ranks where that does not hold, or where more than kMostDecisiveRanks decide.
inline constexpr size_t kMostDecisiveRanks = 8;
std::vector<uint32_t> DecisiveRanks(const PlanWork& work);

// Builds the program of each shape of plans once, and then sets durations. The same plan gives the
// same bits in any order of asking. Not thread-safe; independent evaluators are.
class SimulatedEvaluator : public PlanEvaluator {
 public:
  // `task` must outlive the evaluator. With a capture, plans are of whole and column-wise tables
  // (Errors: the task allows others, or what TemplateJob refuses).
  static absl::StatusOr<std::unique_ptr<SimulatedEvaluator>> Create(const ShardingTask& task,
                                                                    ShardingModels models);

  absl::StatusOr<SimTime> IterationTime(const ShardingPlan& plan) override;
  int64_t evaluated() const override { return evaluated_; }
  absl::StatusOr<PlanEvaluation> Evaluate(const ShardingPlan& plan);

  // The job as the plan sets it, for reports; valid until the next call.
  absl::StatusOr<const ShardedJob*> Prepare(const ShardingPlan& plan);

  // The iteration that IterationTime gives the time of, as traces that replay to the same time.
  absl::StatusOr<TraceStore> Traces(const ShardingPlan& plan);

  // Null without a capture.
  const TemplateJob* capture() const { return template_.get(); }
  const DenseWork& dense() const { return dense_; }
  LookupCosts& lookups() { return lookups_; }
  CollectiveTimes& collectives() { return *collectives_; }
  int32_t ranks_per_node() const { return collectives_->ranks_per_node(); }

 private:
  SimulatedEvaluator(const ShardingTask& task, ShardingModels models,
                     std::unique_ptr<CollectiveTimes> collectives);
  absl::StatusOr<ShardedJob*> Prepare(const PlanWork& work, std::span<const uint32_t> ranks);
  SimTime TableStep(int64_t parameters);
  absl::StatusOr<PlanEvaluation> EvaluateInCapture(const PlanWork& work);

  const ShardingTask& task_;
  ShardingModels models_;
  std::unique_ptr<CollectiveTimes> collectives_;
  LookupCosts lookups_;
  DenseWork dense_;
  // By shape and number of ranks simulated; 0: all.
  std::array<std::array<std::optional<ShardedJob>, kMostDecisiveRanks + 1>, PlanShape::kCount>
      jobs_;
  std::vector<uint32_t> all_ranks_;
  std::unique_ptr<TemplateJob> template_;
  int64_t evaluated_ = 0;
};

}  // namespace foretrace
