// Kernels beside collectives whose data move, on a device whose kernels then wait 10 us (rings) or
// 4 us (sends) and whose links carry 1 GB/s: 1,000 bytes a microsecond.
#include "simulator/engine/fences.h"

#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

const DeviceLinks kLinks{"test", 1, Bandwidth::GBps(1), {Us(10), Us(4)}};

// Every kernel takes 5 us by a model.
class FiveMicroseconds : public CostModel {
 public:
  std::string_view name() const override { return "five"; }
  std::optional<Estimate> Predict(const TraceStore&, const RankTrace&, NodeIndex) const override {
    return Estimate{Us(5), EstimateSource::kAnalytic, false};
  }
};

// The collective starts at 5 and takes 100 us of waiting and moving data. Kernels start 5 us after
// their calls, at 10, 50 and 90.
JobScript Job(CollectiveOp op, int64_t bytes) {
  JobScript job(1);
  job.rank(0)
      .Collective("comm", op, "world", {0, 4}, 8, {5, 105}, bytes)
      .Kernel("early", {5, 9}, 7, {10, 15})
      .Kernel("middle", {45, 49}, 7, {50, 55})
      .Kernel("late", {85, 89}, 7, {90, 95})
      .Group("world", {0, 1});
  return job;
}

Outcome Modelled(JobScript job, const CompileOptions& base = RoundLatencies(),
                 bool with_fences = true) {
  static const FiveMicroseconds model;
  CompileOptions options = base;
  options.allow_missing_ranks = true;
  options.links = kLinks;
  if (options.durations == nullptr) options.durations = &model;
  TraceStore store = job.Build();
  CompiledJob compiled = *Compile(store, options);
  if (!with_fences) LeaveOut(Ingredient::kFences, compiled);
  Prediction prediction = *ReplayWithFences(store, std::move(compiled), nullptr);
  return {std::move(store), std::move(prediction)};
}

TEST(Fences, SendsMoveDataFirst) {
  // 20,000 bytes: from 5 to 25.
  const Outcome outcome = Modelled(Job(CollectiveOp::kAllToAll, 20'000));
  EXPECT_RAN(outcome, 0, "early", 10, 19);
  EXPECT_RAN(outcome, 0, "middle", 50, 55);
  EXPECT_RAN(outcome, 0, "late", 90, 95);
}

TEST(Fences, RingsMoveDataLastAndReduceThemTwice) {
  // 10,000 bytes, around twice: from 85 to 105.
  const Outcome outcome = Modelled(Job(CollectiveOp::kAllReduce, 10'000));
  EXPECT_RAN(outcome, 0, "early", 10, 15);
  EXPECT_RAN(outcome, 0, "middle", 50, 55);
  EXPECT_RAN(outcome, 0, "late", 90, 105);
  EXPECT_EQ(outcome.prediction.job.program.ranks[0].fenced.size(),
            outcome.prediction.job.program.ranks[0].items.size());
}

TEST(Fences, LeftOut) {
  EXPECT_RAN(Modelled(Job(CollectiveOp::kAllReduce, 10'000), RoundLatencies(), false), 0, "late",
             90, 95);
}

TEST(Fences, GoWithTheDurationsThatTheyWereAddedTo) {
  Outcome outcome = Modelled(Job(CollectiveOp::kAllReduce, 10'000));
  RemoveFences(outcome.prediction.job.program);
  for (const Item& item : outcome.prediction.job.program.ranks[0].items) {
    if (item.kind != ItemKind::kDevice) continue;
    EXPECT_EQ(item.duration, Us(5));
  }
}

// A recorded kernel contains what it waited: it takes less where the collective has moved away.
TEST(Fences, RecordedKernelsChangeByTheDifference) {
  JobScript job = Job(CollectiveOp::kAllReduce, 10'000);
  job.rank(0).Kernel("after", {200, 204}, 7, {205, 220});
  CompileOptions options = RoundLatencies();
  options.allow_missing_ranks = true;
  options.links = kLinks;
  TraceStore store = job.Build();
  CompiledJob compiled = *Compile(store, options);
  const Prediction recorded = *ReplayWithFences(store, compiled, nullptr);
  compiled.recorded_fences = FencesOf(store, recorded);
  const NodeIndex late = FindNode(store, 0, "late"), comm = FindNode(store, 0, "comm");
  ASSERT_EQ(compiled.recorded_fences[0].size(), 1u);
  EXPECT_EQ(compiled.recorded_fences[0][0], std::pair(late, Us(10)));
  RankProgram& rank = compiled.program.ranks[0];
  for (Item& item : rank.items) {
    if (item.node == late) item.duration = Us(15);  // as recorded beside the collective
    if (item.node == comm) item.duration = Us(60);  // ends at 65 now, moves data from 45
  }
  Prediction moved = *ReplayWithFences(store, std::move(compiled), nullptr);
  const Outcome outcome{std::move(store), std::move(moved)};
  EXPECT_RAN(outcome, 0, "middle", 50, 65);
  EXPECT_RAN(outcome, 0, "late", 90, 95);
  EXPECT_RAN(outcome, 0, "after", 205, 220);
}

}  // namespace
}  // namespace foretrace
