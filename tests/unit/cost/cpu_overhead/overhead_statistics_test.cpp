#include "simulator/cost/cpu_overhead/overhead_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/support/job_script.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// Two ops; the second begins 10 us after the first has ended.
//   a [10, 40)   launch x [14, 18), launch z [25, 30)
//   b [50, 60)   launch w [52, 55)
TraceStore TwoOps() {
  JobScript job(1);
  job.rank(0)
      .Op("a", {10, 40})
      .Kernel("x", {14, 18}, 7, {20, 21})
      .Kernel("z", {25, 30}, 7, {31, 32})
      .Op("b", {50, 60})
      .Kernel("w", {52, 55}, 7, {58, 59});
  return job.Build();
}

OverheadStatistics Extracted(const OverheadFilter& filter = nullptr) {
  return OverheadStatistics::Extract(TwoOps(), AcceleratorCatalog(), SyncCosts(), filter);
}

TEST(OverheadMoments, MeanAndDeviationOfThePopulation) {
  OverheadMoments moments;
  EXPECT_EQ(moments.mean_us(), 0);
  EXPECT_EQ(moments.std_us(), 0);
  for (const double us : {2.0, 4.0, 9.0}) moments.Add(us);
  // Mean 5; squares of what is left: 9, 1, 16, of which the mean is 26/3.
  EXPECT_DOUBLE_EQ(moments.mean_us(), 5);
  EXPECT_NEAR(moments.std_us(), std::sqrt(26.0 / 3), 1e-12);
}

TEST(OverheadStatistics, DivideTheCpuTimeBetweenLaunches) {
  const OverheadStatistics found = Extracted();
  // What comes before the first launch may have begun before the recording: no sample.
  EXPECT_EQ(found.global(OverheadKind::kT5).count, 1);
  EXPECT_EQ(found.Mean(OverheadKind::kT5, "a"), Us(7));   // 18 to 25
  EXPECT_EQ(found.Mean(OverheadKind::kT3, "a"), Us(10));  // 30 to 40
  EXPECT_EQ(found.Mean(OverheadKind::kT1, "b"), Us(10));  // 40 to 50, before b
  EXPECT_EQ(found.Mean(OverheadKind::kT2, "b"), Us(2));   // 50 to 52
  EXPECT_EQ(found.global(OverheadKind::kT4).count, 3);
  EXPECT_EQ(found.Mean(OverheadKind::kT4, "launch x"), Us(4));
}

TEST(OverheadStatistics, OpsNeverSeenHaveTheMeanOfAll) {
  EXPECT_EQ(Extracted().Mean(OverheadKind::kT4, "launch of something else"), Us(4));
}

// What a blocking call costs after the work that it awaits is the run's to say, not overhead.
//   launch x [14, 18)   x [20, 30)   synchronise [19, 36)   launch z [40, 43)
TEST(OverheadStatistics, BlockingCallsCostWhatTheRunSays) {
  JobScript job(1);
  job.rank(0)
      .Op("a", {10, 60})
      .Kernel("x", {14, 18}, 7, {20, 30})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {19, 36})
      .Kernel("z", {40, 43}, 7, {45, 46});
  const TraceStore store = job.Build();
  const auto before_z = [&](const SyncCosts& costs) {
    const OverheadStatistics found =
        OverheadStatistics::Extract(store, AcceleratorCatalog(), costs, nullptr);
    // Besides the microsecond from launch x to the call.
    return found.global(OverheadKind::kT5).sum_us - 1;
  };
  EXPECT_NEAR(before_z({Us(3), Us(6)}), 4, 1e-9);  // 30 + 6 to 40
  EXPECT_NEAR(before_z({Us(3), Us(2)}), 8, 1e-9);  // 30 + 2 to 40
}

TEST(OverheadStatistics, TakeWhatTheFilterLetsPass) {
  EXPECT_TRUE(Extracted([](int32_t rank, int64_t) { return rank != 0; }).empty());
  EXPECT_FALSE(Extracted([](int32_t, int64_t step) { return step < 0; }).empty());
}

TEST(OverheadStatistics, ReadBackFromTheirFile) {
  const OverheadStatistics found = Extracted();
  const TempFolder folder;
  const std::string path = folder.path() + "/overheads.yaml";
  std::ofstream(path) << found.ToYaml({{"source", "a test"}});
  const auto read = OverheadStatistics::Load(path);
  ASSERT_TRUE(read.ok()) << read.status();
  for (size_t k = 0; k < static_cast<size_t>(OverheadKind::kCount); ++k) {
    const auto kind = static_cast<OverheadKind>(k);
    EXPECT_EQ(read->global(kind).count, found.global(kind).count);
    EXPECT_NEAR(read->global(kind).std_us(), found.global(kind).std_us(), 1e-9);
    EXPECT_EQ(read->by_op(kind).size(), found.by_op(kind).size());
  }
  EXPECT_EQ(read->Mean(OverheadKind::kT5, "a"), Us(7));
}

TEST(OverheadStatistics, FilesOfAnotherKindOrSchemaOrUnitAreRefused) {
  const TempFolder folder;
  const std::string path = folder.path() + "/overheads.yaml";
  const auto message = [&](std::string_view from, std::string_view to) {
    std::string text = Extracted().ToYaml({});
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    std::ofstream(path) << text.replace(at, from.size(), to);
    return std::string(OverheadStatistics::Load(path).status().message());
  };
  EXPECT_THAT(message("cpu_overheads", "embedding"), HasSubstr("not a file of CPU overheads"));
  EXPECT_THAT(message("schema: 1", "schema: 9"), HasSubstr("schema 9 is not known"));
  EXPECT_THAT(message("unit: us", "unit: ms"), HasSubstr("unit is ms; only us is read"));
  EXPECT_THAT(message("T4:", "T44:"), HasSubstr("section T4 is missing"));
  EXPECT_THAT(message("a: [7, 0, 1]", "a: [7, -1, 1]"), HasSubstr("none negative"));
}

}  // namespace
}  // namespace foretrace
