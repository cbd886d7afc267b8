#include "simulator/replay/memory/memory_change.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

// A step of two blocks, each of which keeps 100 bytes for its backward pass and returns 50, and
// leaves a gradient of 60; 1000 bytes were there before.
class MemoryChangeTest : public testing::Test {
 protected:
  MemoryChangeTest() : store_(OneKernel()) {
    extras_.names = {"block_0", "block_1"};
    extras_.frames = {{{1, 5, 30}, 0, true}, {{1, 35, 60}, 1, true}};
    extras_.autograd = {{{1, 70, 200}, 1, true}};
    Event(10, 100, 1), Event(20, 50, 2);
    Event(40, 100, 3), Event(50, 50, 4);
    Event(80, 60, 5), Event(90, -100, 3), Event(100, -50, 4);
    Event(110, 60, 6), Event(120, -100, 1), Event(130, -50, 2);
  }

  static TraceStore OneKernel() {
    JobScript script(1);
    script.rank(0).Kernel("k", {0, 4}, 20, {5, 15});
    return script.Build();
  }

  void Event(int64_t at, int64_t bytes, int64_t address) {
    allocated_ += bytes;
    extras_.memory.push_back({1, at, bytes, allocated_, 0, address, true});
  }

  absl::StatusOr<MemoryPeak> Peak(const std::vector<std::string>& changes) {
    const auto change = MemoryChange::Parse(changes);
    EXPECT_TRUE(change.ok()) << change.status();
    return PeakOf(MemoryRecording(store_, store_.ranks()[0], extras_), *change);
  }

  const TraceStore store_;
  ProfileExtras extras_;
  int64_t allocated_ = 1000;
};

TEST_F(MemoryChangeTest, TheLedgerOfTheRecordedPeak) {
  const auto peak = Peak({});
  ASSERT_TRUE(peak.ok()) << peak.status();
  EXPECT_EQ(peak->ledger.total().count(), 1360);
  EXPECT_EQ(peak->ledger.activations.count(), 300);
  EXPECT_EQ(peak->ledger.gradients.count(), 60);
  EXPECT_EQ(peak->ledger.weights.count(), 120);  // as the gradients
  EXPECT_EQ(peak->ledger.other.count(), 880);    // no optimizer's step is recorded
  EXPECT_EQ(peak->at, SimTime::FromNs(80));
}

TEST_F(MemoryChangeTest, MicroBatchesScaleActivationsAlone) {
  const auto peak = Peak({"micro-batch=x2"});
  ASSERT_TRUE(peak.ok()) << peak.status();
  EXPECT_EQ(peak->ledger.total().count(), 1660);
}

TEST_F(MemoryChangeTest, RecomputationMovesThePeakIntoTheBackwardPass) {
  const auto peak = Peak({"recompute=block_.*"});
  ASSERT_TRUE(peak.ok()) << peak.status();
  // Before the first block's backward pass: its 100 again, what it returned, both gradients.
  EXPECT_EQ(peak->ledger.total().count(), 1270);
  EXPECT_EQ(peak->ledger.recomputed.count(), 100);
  EXPECT_EQ(peak->ledger.activations.count(), 50);
  EXPECT_EQ(peak->ledger.gradients.count(), 120);
  // The second block alone: as high as recorded, when its 100 are there again.
  EXPECT_EQ(Peak({"recompute=block_1"})->ledger.total().count(), 1360);
  EXPECT_FALSE(Peak({"recompute=head"}).ok());
}

TEST_F(MemoryChangeTest, SegmentsRecomputeWithoutNames) {
  // Of 300 bytes two parts of 150 are the two blocks.
  const auto peak = Peak({"segments=2"});
  ASSERT_TRUE(peak.ok()) << peak.status();
  EXPECT_EQ(peak->ledger.total().count(), 1270);
  EXPECT_EQ(peak->ledger.recomputed.count(), 100);
  // In one all is there again before the backward pass frees the first of it.
  EXPECT_EQ(Peak({"segments=1"})->ledger.total().count(), 1360);
  extras_.frames.clear();
  EXPECT_EQ(Peak({"segments=2"})->ledger.total().count(), 1270);
  EXPECT_FALSE(Peak({"segments=4"}).ok());  // each tensor alone is what its part returns
  extras_.autograd.clear();
  EXPECT_FALSE(Peak({"segments=2"}).ok());
}

TEST_F(MemoryChangeTest, ShardingDividesWhatTheStageSays) {
  EXPECT_EQ(Peak({"zero=1/4"})->ledger.total().count(), 1360);
  EXPECT_EQ(Peak({"zero=2/4"})->ledger.total().count(), 1315);
  const auto peak = Peak({"zero=3/4"});
  EXPECT_EQ(peak->ledger.weights.count(), 30);
  EXPECT_EQ(peak->ledger.gathered.count(), 120);
  EXPECT_EQ(peak->ledger.total().count(), 1345);
}

TEST_F(MemoryChangeTest, WithoutGradientsNothingIsToldApart) {
  extras_.autograd.clear();
  EXPECT_EQ(Peak({})->ledger.weights.count(), 1000);
  const auto sharded = Peak({"zero=1/8"});
  ASSERT_FALSE(sharded.ok());
  EXPECT_NE(sharded.status().message().find("gradients"), std::string_view::npos);
}

TEST(MemoryChange, RefusesWhatIsNoChange) {
  for (const char* text :
       {"micro-batch=2", "micro-batch=x0", "micro-batch=xnan", "zero=4/8", "zero=1/1", "zero=1",
        "recompute=", "recompute=(", "segments=0", "segments=x2", "batch=x2", ""}) {
    EXPECT_FALSE(MemoryChange::Parse({text}).ok()) << text;
  }
}

}  // namespace
}  // namespace foretrace
