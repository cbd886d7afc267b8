#include "simulator/calibrate/memcpy/trace_copies.h"

#include <gtest/gtest.h>

#include "simulator/calibrate/memcpy/memory_fitter.h"
#include "simulator/calibrate/trace_rows.h"

namespace foretrace {
namespace {

BenchmarkRow Copy(int64_t bytes, double us, int64_t step, const char* direction = "htod") {
  BenchmarkRow row;
  row.kind = BenchmarkKind::kMemory;
  row.op = "memcpy";
  row.platform = "v100-sxm2-16gb";
  row.shape = *ShapeKeys::Parse(fmt::format("bytes={};direction={};pinned=1", bytes, direction));
  row.time_us = us;
  row.source = fmt::format("trace rank=0 step={} copy=1", step);
  return row;
}

// A link of 5 GB/s behind 2 us, three sizes a step; copies of the other direction have one size.
std::vector<BenchmarkRow> Steps() {
  std::vector<BenchmarkRow> rows;
  for (int64_t step = 1; step <= 4; ++step) {
    for (const int64_t bytes : {4096, 1 << 20, 16 << 20}) {
      rows.push_back(Copy(bytes, 2 + static_cast<double>(bytes) / 5e3, step));
    }
    rows.push_back(Copy(4, 1, step, "dtoh"));
  }
  return rows;
}

TEST(TraceCopies, OddStepsAreKeptBack) {
  const auto split = MemoryFitter().Split(Steps(), kOddSteps, 1);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.size(), 8u);
  EXPECT_EQ(split->test.size(), 8u);
  for (const BenchmarkRow& row : split->test) EXPECT_NE(row.source.find("step="), row.source.npos);
  const std::vector<BenchmarkRow> unnamed(1);
  EXPECT_FALSE(MemoryFitter().Split(unnamed, kOddRanks, 1).ok());
  EXPECT_FALSE(MemoryFitter().Split(Steps(), "odd", 1).ok());
}

TEST(TraceCopies, ALinkIsFittedWhereSizesSuffice) {
  const auto fitted = MemoryFitter().Fit(Steps(), {});
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  const std::vector<BenchmarkRow> asked = {Copy(4 << 20, 1, 0), Copy(4, 1, 0, "dtoh")};
  const auto evaluated = (*fitted)->Evaluate(asked);
  ASSERT_EQ(evaluated.size(), 1u);  // one size says nothing of a link
  EXPECT_NEAR(evaluated[0].predicted_us, 2 + (4 << 20) / 5e3, 60);
  const std::vector<BenchmarkRow> one = {Copy(4, 1, 0)};
  EXPECT_FALSE(MemoryFitter().Fit(one, {}).ok());
}

}  // namespace
}  // namespace foretrace
