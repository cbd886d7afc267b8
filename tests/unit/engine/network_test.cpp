// Rendezvous that a network model decides, with and without contention, and symbolic traces.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

#include "simulator/engine/executor.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// One wire that moves a byte in a nanosecond and is shared equally by the transfers on it, or given
// to each in full.
class SharedWire : public NetworkModel {
 public:
  explicit SharedWire(bool contends) : contends_(contends) {}
  std::string_view name() const override { return "shared wire"; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override {
    return Estimate{SimTime::FromNs(spec.bytes.count()), EstimateSource::kAnalytic, false};
  }
  bool contends() const override { return contends_; }
  absl::StatusOr<TransferHandle> Start(const TransferSpec& spec, SimTime start) override {
    EXPECT_GE(start, now_);
    flows_.push_back({start, static_cast<double>(spec.bytes.count()) * 1000.0, false});
    return static_cast<TransferHandle>(flows_.size() - 1);
  }
  absl::StatusOr<std::optional<Completion>> Next(SimTime limit) override {
    while (true) {
      std::vector<size_t> active;
      SimTime event = limit;
      for (size_t f = 0; f < flows_.size(); ++f) {
        if (flows_[f].done) continue;
        if (flows_[f].start <= now_) {
          active.push_back(f);
        } else {
          event = std::min(event, flows_[f].start);
        }
      }
      const auto share = static_cast<double>(active.size());
      std::optional<size_t> first;
      for (const size_t f : active) {
        if (!first || flows_[f].left < flows_[*first].left) first = f;
      }
      if (first) {
        const SimTime end =
            now_ + SimTime::FromPs(static_cast<int64_t>(flows_[*first].left * share + 0.5));
        if (end <= event) {
          Drain(active, end);
          flows_[*first].done = true;
          return Completion{end, static_cast<TransferHandle>(*first)};
        }
      }
      if (event == SimTime::Max() || (event == limit && event <= now_)) return std::nullopt;
      Drain(active, event);
      if (event == limit) return std::nullopt;
    }
  }

 private:
  struct Flow {
    SimTime start;
    double left = 0;  // picoseconds on the wire alone
    bool done = false;
  };
  void Drain(const std::vector<size_t>& active, SimTime until) {
    for (const size_t f : active) {
      flows_[f].left -=
          static_cast<double>((until - now_).ps()) / static_cast<double>(active.size());
    }
    now_ = std::max(now_, until);
  }
  bool contends_;
  SimTime now_ = SimTime();
  std::vector<Flow> flows_;
};

// Two streams, each with an all-reduce of 100,000 bytes: 100 us alone.
JobScript TwoCollectives() {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("a", {0, 1})
        .Group("b", {0, 1})
        .Collective("x", CollectiveOp::kAllReduce, "a", {0, 4}, 20, {9, 19}, 100'000)
        .Collective("y", CollectiveOp::kAllReduce, "b", {50, 54}, 21, {59, 69}, 100'000);
  }
  return job;
}

CompileOptions Modelled() {
  CompileOptions options = RoundLatencies();
  options.model_communication = true;
  return options;
}

TEST(Network, IsolatedTransfersTakeTheModelsTime) {
  JobScript job = TwoCollectives();
  SharedWire wire(false);
  const Outcome outcome = Simulate(job, Modelled(), &wire);
  EXPECT_RAN(outcome, 0, "x", 5, 105);
  EXPECT_RAN(outcome, 1, "y", 55, 155);
}

TEST(Network, ABusyCommunicatorIsNamedAsWhatHoldsItsNextTransferUp) {
  class Causes : public EngineObserver {
   public:
    void OnNode(const NodeEvent& event) override { events.push_back(event); }
    std::vector<NodeEvent> events;
  };
  JobScript job = TwoCollectives();
  SharedWire wire(false);
  Causes causes;
  // One communicator, whose transfers no stream puts in order.
  const Outcome outcome = Simulate(job, Modelled(), &wire, &causes, [](Program& program) {
    for (RendezvousProgram& rendezvous : program.rendezvous) rendezvous.communicator = 0;
  });
  EXPECT_RAN(outcome, 0, "x", 5, 105);
  EXPECT_RAN(outcome, 0, "y", 55, 205);  // on the wire from 105 on
  const NodeIndex x = FindNode(outcome.store, 0, "x"), y = FindNode(outcome.store, 0, "y");
  size_t busy = 0;
  for (const NodeEvent& event : causes.events) {
    if (event.node.node == x) {
      EXPECT_EQ(event.end_cause, WaitCause::kNetwork);
    } else if (event.node.node == y) {
      EXPECT_EQ(event.end_cause, WaitCause::kCommunicatorBusy);
      EXPECT_EQ(event.active_start, Us(105));
      EXPECT_EQ(event.end_binding.node, x);
      EXPECT_EQ(event.end_binding.rank, event.node.rank);
      ++busy;
    }
  }
  EXPECT_EQ(busy, 2u);  // on both ranks
}

// Two collectives of no length wait for a long one of their communicator, all of which end at 115:
// it is what held both up, not each the other.
TEST(Network, TransfersOfNoLengthHoldUpNothing) {
  class Causes : public EngineObserver {
   public:
    void OnNode(const NodeEvent& event) override { events.push_back(event); }
    std::vector<NodeEvent> events;
  };
  class Whole : public SharedWire {  // microseconds
   public:
    Whole() : SharedWire(false) {}
    absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override {
      return Estimate{Us(static_cast<double>(spec.bytes.count() / 1000)), EstimateSource::kAnalytic,
                      false};
    }
  };
  JobScript job(2);
  // The streams of the short ones come first on rank 1, that of the long one on rank 0.
  job.rank(1)
      .Kernel("first of 20", {0, 4}, 20, {9, 49})
      .Kernel("first of 21", {5, 9}, 21, {14, 54});
  for (int r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("a", {0, 1})
        .Group("b", {0, 1})
        .Group("c", {0, 1})
        .Collective("long", CollectiveOp::kAllReduce, "a", {10, 14}, 22, {19, 29}, 100'000)
        .Collective("y", CollectiveOp::kAllReduce, "b", {50, 54}, 20, {59, 69}, 1)
        .Collective("z", CollectiveOp::kAllReduce, "c", {55, 58}, 21, {63, 69}, 1);
  }
  Whole wire;
  Causes causes;
  const Outcome outcome = Simulate(job, Modelled(), &wire, &causes, [](Program& program) {
    for (RendezvousProgram& rendezvous : program.rendezvous) rendezvous.communicator = 0;
  });
  EXPECT_RAN(outcome, 0, "long", 15, 115);
  EXPECT_RAN(outcome, 0, "y", 55, 115);
  EXPECT_RAN(outcome, 0, "z", 60, 115);
  size_t held = 0;
  for (const NodeEvent& event : causes.events) {
    if (event.end_cause != WaitCause::kCommunicatorBusy) continue;
    EXPECT_EQ(event.end_binding.node, FindNode(outcome.store, event.node.rank, "long"));
    ++held;
  }
  EXPECT_EQ(held, 4u);  // on both ranks
}

TEST(Network, ConcurrentTransfersContend) {
  JobScript job = TwoCollectives();
  SharedWire wire(true);
  const Outcome outcome = Simulate(job, Modelled(), &wire);
  // x alone for 50 us, then both at half speed: x's other half takes 100 us, to 155. y then has
  // half of its bytes left: 50 us more.
  EXPECT_RAN(outcome, 0, "x", 5, 155);
  EXPECT_RAN(outcome, 1, "x", 5, 155);
  EXPECT_RAN(outcome, 0, "y", 55, 205);
}

TEST(Network, BothExecutorsAgreeUnderContention) {
  JobScript job = TwoCollectives();
  const TraceStore store = job.Build();
  const auto compiled = Compile(store, Modelled());
  ASSERT_TRUE(compiled.ok());
  SharedWire first(true);
  SharedWire second(true);
  const auto straight = RunStraight(store, compiled->program, &first);
  const auto dataflow = RunDataflow(store, compiled->program, &second);
  ASSERT_TRUE(straight.ok() && dataflow.ok());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(straight->ranks[r].start, dataflow->ranks[r].start);
    EXPECT_EQ(straight->ranks[r].end, dataflow->ranks[r].end);
  }
}

// Rank 1's part of the first communication, x, changes.
Outcome SimulateChanged(bool contends, DurationChange change) {
  JobScript job = TwoCollectives();
  SharedWire wire(contends);
  return Simulate(job, Modelled(), &wire, nullptr, [&](Program& program) {
    const ItemSet of_rank_1 = SelectItems(program, [](uint32_t rank, const Item& item) {
      return rank == 1 && item.kind == ItemKind::kComm && item.rendezvous == 0;
    });
    ChangeDurations(program, of_rank_1, change);
  });
}

TEST(WhatIf, ScalesAndLengthensTheModelsTime) {
  // One member asks for it, so all wait for it: 100 us x 2 + 7.
  const Outcome outcome = SimulateChanged(false, {2, Us(7)});
  EXPECT_RAN(outcome, 0, "x", 5, 212);
  EXPECT_RAN(outcome, 0, "y", 55, 155);
}

TEST(WhatIf, TheSlowestMemberCounts) {
  // Rank 1 would take half the time, rank 0 takes what it took.
  const Outcome outcome = SimulateChanged(false, {0.5, SimTime()});
  EXPECT_RAN(outcome, 0, "x", 5, 105);
}

TEST(WhatIf, ScalesBytesWhereTransfersContend) {
  // x has 200,000 bytes. Alone to 55, half speed beside y (to 255: 100 of 150 us of x's left
  // drained while y's 100 are), then x's last 50 us, and 7 us more.
  const Outcome outcome = SimulateChanged(true, {2, Us(7)});
  EXPECT_RAN(outcome, 0, "y", 55, 255);
  EXPECT_RAN(outcome, 1, "x", 5, 312);
}

TEST(Network, NeedsASize) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("a", {0, 1})
        .Collective("x", CollectiveOp::kAllReduce, "a", {0, 4}, 20, {9, 19}, 0);
  }
  const TraceStore store = job.Build();
  SharedWire wire(false);
  const auto prediction = Predict(store, Modelled(), &wire);
  ASSERT_FALSE(prediction.ok());
  EXPECT_THAT(prediction.status().message(), HasSubstr("the message size is not recorded"));
}

// Durations by the last letter of a name: "a3" takes 3 us.
class ByName : public CostModel {
 public:
  std::string_view name() const override { return "by name"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override {
    const std::string_view text = store.name(rank, node);
    if (text.back() == '?') return std::nullopt;
    return Estimate{Us(text.back() - '0'), EstimateSource::kAnalytic, false};
  }
};

struct SymbolicRank {
  explicit SymbolicRank(int32_t rank) : script(rank, 1) {
    stream = script.builder().AddLane(Lane::Kind::kStream, 7);
    other = script.builder().AddLane(Lane::Kind::kStream, 8);
  }
  NodeIndex Add(std::string_view name, bool on_other = false) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kKernel;
    spec.name = name;
    spec.lane = on_other ? other : stream;
    spec.source_id = ++id;
    return script.builder().AddNode(spec);
  }
  TraceStore Build() {
    script.builder().info().has_times = false;
    RankTraceBuilder::Options options;
    options.sort_by_start = false;
    options.infer_nesting = false;
    auto built = script.builder().Build(options);
    FORETRACE_CHECK(built.ok());
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
    ranks.emplace_back(std::move(built->trace), std::move(built->strings));
    auto store = TraceStore::Assemble(std::move(ranks), {});
    FORETRACE_CHECK(store.ok());
    return *std::move(store);
  }
  RankScript script;
  LaneIndex stream;
  LaneIndex other;
  uint64_t id = 0;
};

Outcome SimulateSymbolic(SymbolicRank& rank) {
  TraceStore store = rank.Build();
  const ByName costs;
  CompileOptions options;
  options.durations = &costs;
  auto prediction = Predict(store, options, nullptr);
  FORETRACE_CHECK(prediction.ok());
  return {std::move(store), *std::move(prediction)};
}

TEST(Symbolic, ALaneRunsWhatIsReadyFirst) {
  SymbolicRank rank(0);
  // In file order p4, c1, d2; c waits for p on the other lane, so d goes before it.
  const NodeIndex p = rank.Add("p4", true);
  const NodeIndex c = rank.Add("c1");
  rank.Add("d2");
  rank.script.builder().AddDependency(c, p, DependencyKind::kData);
  const Outcome outcome = SimulateSymbolic(rank);
  EXPECT_TRUE(outcome.prediction.job.symbolic);
  EXPECT_RAN(outcome, 0, "p4", 0, 4);
  EXPECT_RAN(outcome, 0, "d2", 0, 2);
  EXPECT_RAN(outcome, 0, "c1", 4, 5);
}

TEST(Symbolic, OfWhatWaitsALaneRunsTheFirstInProgramOrder) {
  SymbolicRank rank(0);
  // As with two microbatches: c is the earlier one's next step, ready at 1 (after p), b belongs to
  // the later one and was ready at 0. The lane is busy with a until 3, then takes c.
  const NodeIndex p = rank.Add("p1", true);
  const NodeIndex c = rank.Add("c2");
  rank.Add("a3");
  rank.Add("b2");
  rank.script.builder().AddDependency(c, p, DependencyKind::kData);
  const Outcome outcome = SimulateSymbolic(rank);
  EXPECT_RAN(outcome, 0, "a3", 0, 3);
  EXPECT_RAN(outcome, 0, "c2", 3, 5);
  EXPECT_RAN(outcome, 0, "b2", 5, 7);
}

TEST(Symbolic, WhatGetsReadyAtOneTimeRunsInProgramOrder) {
  SymbolicRank rank(0);
  // c (after p) and d (after x) get ready at 1, when x frees the lane; x ends before p in the file.
  const NodeIndex c = rank.Add("c2");
  const NodeIndex x = rank.Add("x1");
  const NodeIndex d = rank.Add("d2");
  const NodeIndex p = rank.Add("p1", true);
  rank.script.builder().AddDependency(c, p, DependencyKind::kData);
  rank.script.builder().AddDependency(d, x, DependencyKind::kData);
  const Outcome outcome = SimulateSymbolic(rank);
  EXPECT_RAN(outcome, 0, "c2", 1, 3);
  EXPECT_RAN(outcome, 0, "d2", 3, 5);
}

TEST(Symbolic, ALaneRunsOneAtATime) {
  SymbolicRank rank(0);
  rank.Add("a3");
  rank.Add("b2");
  const Outcome outcome = SimulateSymbolic(rank);
  EXPECT_RAN(outcome, 0, "a3", 0, 3);
  EXPECT_RAN(outcome, 0, "b2", 3, 5);
}

TEST(Symbolic, NodesWithoutAModelAreListed) {
  SymbolicRank rank(0);
  rank.Add("a3");
  rank.Add("what?");
  const Outcome outcome = SimulateSymbolic(rank);
  EXPECT_RAN(outcome, 0, "what?", 3, 3);
  ASSERT_EQ(outcome.prediction.job.missing.size(), 1u);
  EXPECT_EQ(outcome.prediction.job.missing[0].node, FindNode(outcome.store, 0, "what?"));
}

}  // namespace
}  // namespace foretrace
