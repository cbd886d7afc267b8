// What observers are told about causes.
#include <map>
#include <string>

#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

class Recorder : public EngineObserver {
 public:
  void OnNode(const NodeEvent& event) override { events.push_back(event); }
  std::vector<NodeEvent> events;
};

class Told {
 public:
  Told(const Outcome& outcome, const Recorder& recorder) : outcome_(outcome), recorder_(recorder) {}
  const NodeEvent& operator()(uint32_t rank, std::string_view name) const {
    const NodeIndex node = FindNode(outcome_.store, rank, name);
    for (const NodeEvent& e : recorder_.events) {
      if (e.node.rank == rank && e.node.node == node) return e;
    }
    FORETRACE_CHECK(false);
    return recorder_.events.front();
  }
  // "rank name", or "none".
  std::string Text(const NodeRef& ref) const {
    if (!ref.node.valid()) return "none";
    return std::to_string(ref.rank) + " " +
           std::string(outcome_.store.name(outcome_.store.ranks()[ref.rank], ref.node));
  }

 private:
  const Outcome& outcome_;
  const Recorder& recorder_;
};

TEST(Observer, IsToldWhyEachNodeStartedWhenItDid) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 109})
      .Call("record", RuntimeCall::kEventRecord, {4, 5})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {5, 6})
      .Kernel("b", {6, 10}, 8, {112, 122})
      .Names("record", 1, 7)
      .Names("wait", 1, 8)
      .Kernel("c", {12, 16}, 8, {124, 134})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {20, 140});
  Recorder recorder;
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, &recorder);
  const Told told(outcome, recorder);
  EXPECT_EQ(told(0, "launch a").cause, WaitCause::kNone);
  EXPECT_EQ(told(0, "a").cause, WaitCause::kLaunch);
  EXPECT_EQ(told.Text(told(0, "a").binding), "0 launch a");
  EXPECT_EQ(told(0, "b").cause, WaitCause::kDependency);
  EXPECT_EQ(told.Text(told(0, "b").binding), "0 a");
  EXPECT_EQ(told(0, "c").cause, WaitCause::kProgramOrder);
  EXPECT_EQ(told.Text(told(0, "c").binding), "0 b");
  EXPECT_EQ(told(0, "sync").end_cause, WaitCause::kCpuBlock);
  EXPECT_EQ(told.Text(told(0, "sync").end_binding), "0 c");
  EXPECT_EQ(told(0, "b").start, Us(107));
  EXPECT_EQ(told(0, "b").rendezvous, NodeEvent::kNoRendezvous);
}

TEST(Observer, IsToldWhoArrivedLast) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    const double skew = 20.0 * r;
    job.rank(r)
        .Group("world", {0, 1})
        .Collective("ar", CollectiveOp::kAllReduce, "world", {skew, skew + 4}, 20, {9 + skew, 49});
  }
  Recorder recorder;
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, &recorder);
  const Told told(outcome, recorder);
  const NodeEvent& early = told(0, "ar");
  const NodeEvent& late = told(1, "ar");
  EXPECT_EQ(early.active_start, Us(25));
  EXPECT_EQ(early.end_cause, WaitCause::kCollectiveArrival);
  EXPECT_EQ(told.Text(early.end_binding), "1 ar");
  EXPECT_EQ(late.active_start, late.start);
  EXPECT_EQ(late.end_cause, WaitCause::kNetwork);
  EXPECT_EQ(early.rendezvous, late.rendezvous);
  EXPECT_NE(early.rendezvous, NodeEvent::kNoRendezvous);
  EXPECT_EQ(told(1, "launch ar").cause, WaitCause::kStartSkew);
}

TEST(Observer, ChangesNothing) {
  JobScript with(1);
  JobScript without(1);
  for (JobScript* job : {&with, &without}) {
    job->rank(0).Kernel("a", {0, 4}, 7, {9, 19}).Kernel("b", {6, 10}, 7, {22, 42});
  }
  Recorder recorder;
  const Outcome a = Simulate(with, RoundLatencies(), nullptr, &recorder);
  const Outcome b = Simulate(without);
  EXPECT_EQ(a.prediction.schedule.ranks[0].end, b.prediction.schedule.ranks[0].end);
  EXPECT_EQ(recorder.events.size(), 4u);
}

}  // namespace
}  // namespace foretrace
