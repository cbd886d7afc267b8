#pragma once
// Throughput of a model on many accelerators of one design: layers are scheduled on the cores
// (core_schedule.h), and placed on the accelerators (search/phaze.h).

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/architect/core_schedule.h"
#include "simulator/architect/estimate.h"
#include "simulator/search/phaze.h"
#include "simulator/workload/workload.h"

namespace foretrace {

struct TrainingSetup {
  int32_t devices = 1;
  int32_t global_batch = 1;
  Bytes hbm;
  std::vector<int32_t> widths = {1};
  std::vector<int32_t> micro_batches = {1};
  double optimizer_factor = 0;  // bytes of its state for each of the parameters; 0: SGD
  ScheduleLimits limits;
};

// A model at every width and micro-batch of a setup that it allows.
struct ArchitectModel {
  std::string name;
  std::vector<SlicedModel> slices;
};
// Errors: those of SliceModel, or SliceWorkload, where no width and micro-batch is possible.
absl::StatusOr<ArchitectModel> PrepareModel(const TransformerConfig& config,
                                            const TrainingSetup& setup);
// Also at the micro-batch that its calls are of.
absl::StatusOr<ArchitectModel> PrepareModel(const Workload& workload, const TrainingSetup& setup);

// How a model runs on a design.
struct ModelPlan {
  double throughput = 0;  // samples/s of all devices
  PhazePlan placement;
  double mfu = 0;
};

// What scheduling layers came to.
struct ScheduleStatistics {
  int64_t layers = 0;
  int64_t proven = 0;
  double worst_gap = 0;  // of the others, (makespan - bound) / bound

  void Add(const ScheduleStatistics& other);
};

// How long this machine took for the parts of a search (figure 6); differs from run to run.
struct SearchSeconds {
  double estimates = 0;  // times of operators, and bounds of designs
  double schedules = 0;
  double placements = 0;
  double longest_schedule = 0;  // of one layer

  void Add(const SearchSeconds& other);
};

// Evaluates models on one design after another. One thread's.
class DesignEvaluator {
 public:
  DesignEvaluator(const MachineBase& machine, const TrainingSetup& setup)
      : estimator_(machine), machine_(machine), setup_(setup) {}

  void SetDesign(const AcceleratorDesign& design);
  // No plan has a higher throughput: all devices always busy with layers at their bounds.
  double Bound(const ArchitectModel& model);
  // The best plan; plans whose bound is below what was found, or not above `floor`, are left out:
  // no stages where that leaves none. Errors: none fits (infeasible).
  absl::StatusOr<ModelPlan> Evaluate(const ArchitectModel& model, double floor = 0);
  // The plan of a given pipeline depth, width and data parallelism, without memory check, at the
  // best micro-batch. Errors: the model has no such width or depth.
  absl::StatusOr<ModelPlan> EvaluateFixed(const ArchitectModel& model, int32_t stages,
                                          int32_t width, int32_t data_parallel);

  // The placement problem of a model on the design; of use while both are there.
  PhazeProblem ProblemOf(const ArchitectModel& model);

  const ScheduleStatistics& statistics() const { return statistics_; }
  void ResetCounts() { statistics_ = {}; }
  const SearchSeconds& seconds() const { return seconds_; }

 private:
  struct LayerTimes {
    SimTime forward, backward;
  };
  double BoundOf(const SlicedModel& slice);
  absl::StatusOr<LayerTimes> Schedule(const LayerSlice& layer, int32_t width);
  absl::StatusOr<PhazeLayers> LayersOf(const SlicedModel& slice);
  ModelPlan PlanOf(const ArchitectModel& model, PhazePlan placement) const;
  bool FitsAtAll(const SlicedModel& slice) const;
  double Mfu(const SlicedModel& slice, double throughput) const;

  CoreEstimator estimator_;
  MachineBase machine_;
  TrainingSetup setup_;
  AcceleratorDesign design_;
  ScheduleStatistics statistics_;
  SearchSeconds seconds_;
  std::map<const LayerSlice*, LayerTimes> times_;  // on this design
};

}  // namespace foretrace
