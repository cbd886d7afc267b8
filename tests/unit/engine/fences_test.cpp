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

// Of three of a kind the shortest waited least for absent members: its 60 us are what data take,
// not the 20 that the links allow.
TEST(Fences, DataMoveAsLongAsTheShortestOfSeveralTook) {
  JobScript job = Job(CollectiveOp::kAllToAll, 20'000);
  job.rank(0)
      .Collective("second", CollectiveOp::kAllToAll, "world", {200, 204}, 8, {205, 265}, 20'000)
      .Collective("third", CollectiveOp::kAllToAll, "world", {300, 304}, 8, {305, 405}, 20'000)
      .Kernel("last", {385, 389}, 7, {390, 395});
  const Outcome outcome = Modelled(std::move(job));
  EXPECT_RAN(outcome, 0, "early", 10, 19);
  EXPECT_RAN(outcome, 0, "middle", 50, 59);
  EXPECT_RAN(outcome, 0, "late", 90, 95);
  EXPECT_RAN(outcome, 0, "last", 390, 395);
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

// Eight kernels of 5 us, the five of which that end while the collective's data move (from 105 to
// 205) take `beside`.
JobScript Recorded(double beside) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Collective("comm", CollectiveOp::kAllReduce, "world", {0, 4}, 8, {5, 205}, 50'000);
  for (const double at : {10., 40.}) rank.Kernel("work", {at - 5, at - 1}, 7, {at, at + 5});
  for (const double at : {110., 130., 150., 170., 190.}) {
    rank.Kernel("work", {at - 5, at - 1}, 7, {at, at + beside});
  }
  rank.Kernel("work", {225, 229}, 7, {230, 235}).Group("world", {0, 1});
  return job;
}

CompiledJob CompiledAsRecorded(const TraceStore& store) {
  CompileOptions options = RoundLatencies();
  options.allow_missing_ranks = true;
  options.links = kLinks;
  return *Compile(store, options);
}

// A recorded kernel contains what it waited: it takes less where the collective has moved away.
TEST(Fences, RecordedKernelsChangeByTheDifference) {
  const TraceStore store = Recorded(15).Build();
  CompiledJob compiled = CompiledAsRecorded(store);
  compiled.recorded_fences = FencesOf(store, *ReplayWithFences(store, compiled, nullptr));
  ASSERT_EQ(compiled.recorded_fences.size(), 1u);
  EXPECT_EQ(compiled.recorded_fences[0].size(), 5u);
  const NodeIndex comm = FindNode(store, 0, "comm");
  for (Item& item : compiled.program.ranks[0].items) {
    if (item.node == comm) item.duration = Us(60);  // from 5 to 65, in which its data move
  }
  const Prediction moved = *ReplayWithFences(store, std::move(compiled), nullptr);
  std::vector<SimTime> durations;
  for (const Item& item : moved.job.program.ranks[0].items) {
    if (item.kind == ItemKind::kDevice) durations.push_back(item.duration);
  }
  EXPECT_EQ(durations,
            (std::vector<SimTime>{Us(15), Us(15), Us(5), Us(5), Us(5), Us(5), Us(5), Us(5)}));
}

// Of a device that has them, kernels may still show none; what they contain is then not known.
TEST(Fences, RecordingsThatShowNoneAreLeftAlone) {
  const TraceStore store = Recorded(9).Build();  // 4 us of the 10
  const Prediction recorded = *ReplayWithFences(store, CompiledAsRecorded(store), nullptr);
  EXPECT_TRUE(FencesOf(store, recorded).empty());
}

}  // namespace
}  // namespace foretrace
