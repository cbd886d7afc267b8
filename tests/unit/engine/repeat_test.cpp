#include "simulator/engine/repeat.h"

#include "simulator/engine/step_times.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

// Two steps of 20 us on the CPU, each of which launches 30 us of kernels and waits for nothing.
//   CPU     |0 a b 20|20 a b 40|
//   stream   a [5, 20) b [21, 36) a [37, 52) b [53, 68): gaps of 1 us
JobScript Ahead() {
  JobScript job(1);
  job.rank(0)
      .Step(0, {0, 20})
      .Kernel("a0", {0, 4}, 7, {5, 20})
      .Kernel("b0", {10, 14}, 7, {21, 36})
      .Step(1, {20, 40})
      .Kernel("a1", {20, 24}, 7, {37, 52})
      .Kernel("b1", {30, 34}, 7, {53, 68});
  return job;
}

TEST(StepTimes, AreThreeWhereTheCpuRunsAhead) {
  JobScript job = Ahead();
  const Outcome outcome = Simulate(job);
  const auto steps = MeasureSteps(outcome.store, outcome.prediction);
  ASSERT_EQ(steps.size(), 1u);
  ASSERT_EQ(steps[0].size(), 2u);
  for (const StepTimes* times : {&steps[0][1].predicted, &steps[0][1].recorded}) {
    EXPECT_EQ(times->cpu, Us(20));
    EXPECT_EQ(times->completion, Us(48));  // from 20 to 68
    ASSERT_TRUE(times->period.has_value());
    EXPECT_EQ(*times->period, Us(32));  // from 36 to 68
  }
  EXPECT_FALSE(steps[0][0].predicted.period.has_value());
}

TEST(SteadyState, IsThePaceOfTheDeviceWhereTheCpuRunsAhead) {
  JobScript job = Ahead();
  const Outcome outcome = Simulate(job);
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 1, nullptr);
  ASSERT_TRUE(steady.ok()) << steady.status();
  EXPECT_TRUE(steady->settled);
  EXPECT_EQ(steady->period, Us(32));  // two kernels of 15 us and two gaps of 1
  EXPECT_EQ(steady->cpu_period, Us(20));
}

// As Ahead(), and a rank that takes longer by its CPU alone, but whose work is done before that of
// the other for as many steps as are simulated.
TEST(SteadyState, IsThePaceOfTheSlowestRankThoughAnotherIsDoneLater) {
  JobScript job(2);
  job.rank(0)
      .Step(0, {0, 20})
      .Kernel("a0", {0, 4}, 7, {5, 20})
      .Kernel("b0", {10, 14}, 7, {21, 36})
      .Step(1, {20, 40})
      .Kernel("a1", {20, 24}, 7, {37, 52})
      .Kernel("b1", {30, 34}, 7, {53, 68});
  job.rank(1)
      .Step(0, {0, 34})
      .Kernel("a0", {0, 4}, 7, {5, 20})
      .Step(1, {34, 68})
      .Kernel("a1", {34, 38}, 7, {39, 54});
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr,
                                   [](Program& program) { program.ranks[0].start += Us(1000); });
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 1, nullptr);
  ASSERT_TRUE(steady.ok()) << steady.status();
  EXPECT_EQ(steady->period, Us(34));
}

TEST(SteadyState, IsWithoutTheWorkThatWasInFlightWhenRecordingBegan) {
  // As Ahead(), and a kernel of before runs during the first step.
  JobScript job(1);
  job.rank(0)
      .Step(0, {0, 20})
      .InFlight("f", 7, {1, 12})
      .Kernel("a0", {0, 4}, 7, {13, 28})
      .Kernel("b0", {10, 14}, 7, {29, 44})
      .Step(1, {20, 40})
      .Kernel("a1", {20, 24}, 7, {45, 60})
      .Kernel("b1", {30, 34}, 7, {61, 76});
  const Outcome outcome = Simulate(job);
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 0, nullptr);
  ASSERT_TRUE(steady.ok()) << steady.status();
  EXPECT_EQ(steady->period, Us(32));
}

TEST(SteadyState, IsWithoutTheWaitForWorkThatIsNotRecorded) {
  // As Ahead(), a millisecond later on the device: something else ran until then.
  JobScript job(1);
  job.rank(0)
      .Step(0, {0, 20})
      .Kernel("a0", {0, 4}, 7, {1005, 1020})
      .Kernel("b0", {10, 14}, 7, {1021, 1036})
      .Step(1, {20, 40})
      .Kernel("a1", {20, 24}, 7, {1037, 1052})
      .Kernel("b1", {30, 34}, 7, {1053, 1068});
  const Outcome outcome = Simulate(job);
  EXPECT_EQ(outcome.prediction.schedule.makespan, Us(1068));
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 0, nullptr);
  ASSERT_TRUE(steady.ok()) << steady.status();
  EXPECT_EQ(steady->period, Us(32));
}

TEST(SteadyState, IsThePaceOfTheCpuWhereTheDeviceIsFaster) {
  JobScript job = Ahead();
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr, [](Program& program) {
    ChangeDurations(
        program,
        SelectItems(program,
                    [](uint32_t, const Item& item) { return item.kind == ItemKind::kDevice; }),
        {0.2, SimTime()});
  });
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 1, nullptr);
  ASSERT_TRUE(steady.ok()) << steady.status();
  EXPECT_EQ(steady->period, Us(20));
}

TEST(SteadyState, TheCpuIsThrottledByTheLaunchQueue) {
  JobScript job = Ahead();
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr, [](Program& program) {
    // Launch k waits for the start of kernel k - 2 at 5 + 16 (k - 2) us; the CPU alone would be at
    // 10 k. The queue is full from k = 5 on, within the four steps that are simulated at least.
    program.ranks[0].launch_queue_depth = 2;
  });
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 1, nullptr);
  ASSERT_TRUE(steady.ok()) << steady.status();
  EXPECT_EQ(steady->period, Us(32));
  EXPECT_EQ(steady->cpu_period, Us(32));
}

TEST(SteadyState, NeedsMarksOnEveryRank) {
  JobScript job = Ahead();
  const Outcome outcome = Simulate(job);
  const auto steady = FindSteadyState(outcome.store, outcome.prediction.job.program, 9, nullptr);
  EXPECT_TRUE(absl::IsNotFound(steady.status()));
}

}  // namespace
}  // namespace foretrace
