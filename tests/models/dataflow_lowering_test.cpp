// The closed form of an iteration on dataflow and other chips equals the engine's replay of the
// lowered plan.
#include <gtest/gtest.h>

#include <random>

#include "simulator/dataflow/mapping_plan.h"
#include "simulator/dataflow/workloads.h"
#include "simulator/engine/replay.h"
#include "simulator/plan/lowering.h"

namespace foretrace::dataflow {
namespace {

SimTime Replayed(const Workload& workload, const System& system, const MappedWorkload& mapped) {
  const auto plan = PlanOf(workload, system, mapped);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const auto store = Lower(*plan, {});
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return {};
  const auto prediction = Predict(*store, {}, nullptr);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  return prediction.ok() ? prediction->schedule.makespan : SimTime();
}

System Chips(int64_t tensor, int64_t stages, int64_t replicas, Execution execution, double gbps) {
  System s;
  s.name = "chips";
  s.chip = {"chip", 512, 16, 16, 1.5, Bytes(64'000'000), execution, 0, 0, 0};
  s.memory = {"hbm", Bandwidth::GBps(1000), Bytes(96'000'000'000), 0, 0};
  for (const auto& [size, role] :
       {std::pair(tensor, Role::kTensor), std::pair(stages, Role::kPipeline),
        std::pair(replicas, Role::kData)}) {
    if (size == 1) continue;
    s.dimensions.push_back({{NetworkKind::kSwitch, size, Bandwidth::GBps(gbps), false}, {}, role});
  }
  return s;
}

// Times are rounded to picoseconds, kernel by kernel. Slow links make transfers longer than stages
// are; then 1F1B fills its pipeline otherwise than the closed form has it, so that links are fast.
TEST(DataflowLowering, EqualsTheClosedForm) {
  std::mt19937 random(23);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int compared = 0, piped = 0, behind = 0;
  for (int round = 0; round < 200 && compared < 40; ++round) {
    const int64_t stages = int64_t{1} << pick(0, 2);
    TransformerSizes sizes = {
        1024, 16, 128, 512 << pick(0, 2), 8 * pick(1, 2), 8.0 * pick(1, 2), pick(0, 4) > 0};
    if (pick(0, 1) == 1) sizes.vocabulary = 10'000;
    const System system =
        Chips(1 << pick(0, 1), stages, 1 << pick(0, 1),
              pick(0, 1) == 1 ? Execution::kDataflow : Execution::kKernelByKernel, 200);
    if (system.dimensions.empty()) continue;
    SearchLimits limits;
    limits.micro_batch = 1;
    limits.megatron = SearchLimits::Megatron::kTensor;
    if (sizes.train) {
      limits.recompute = static_cast<Recompute>(pick(0, 2));
      limits.scheme.chunks = stages > 1 && pick(0, 1) == 1 ? 2 : 1;
      limits.scheme.zero = pick(0, 1);
      limits.scheme.overlap_gradients = pick(0, 1) == 1;
    }
    const Workload workload = MakeTransformer(sizes);
    const auto mapped = Optimise(workload, system, {}, limits);
    if (!mapped.ok()) continue;
    ++compared;
    piped += mapped->mapping.pipeline > 1 ? 1 : 0;
    behind += limits.scheme.overlap_gradients ? 1 : 0;
    const double replayed = Replayed(workload, system, *mapped).seconds() * 1e9;
    EXPECT_NEAR(replayed, mapped->time.total.ns(), 1e-6 * mapped->time.total.ns())
        << "round " << round << " stages " << stages << " chunks " << limits.scheme.chunks
        << " zero " << limits.scheme.zero << " overlap " << limits.scheme.overlap_gradients
        << " trains " << sizes.train << " vocabulary " << sizes.vocabulary;
  }
  EXPECT_EQ(compared, 40);
  EXPECT_GT(piped, 10);
  EXPECT_GT(behind, 5);
}

}  // namespace
}  // namespace foretrace::dataflow
