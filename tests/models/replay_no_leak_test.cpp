// Recorded waits must not reach a prediction. In a copy of each trace the recorded duration of
// every synchronisation call and of every blocking copy call, and the waiting part of every
// collective (the start of all members but the last), are replaced; the predicted times must be the
// same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "simulator/engine/replay.h"
#include "simulator/importers/import.h"
#include "simulator/reconstruct/reconstruction.h"
#include "tests/support/real_data.h"
#include "tests/support/store_copy.h"
#include "tests/support/store_equality.h"
#include "tests/support/test_driver.h"

namespace foretrace {
namespace {

// How far each wait is moved: calls from their recorded length (0) to the last end of device work
// within it (-1), or to the next call of the thread (1); arrivals from the recorded one (0) to the
// earliest possible one (-1), or to the last member's (1).
struct Change {
  double calls = 0;
  double arrivals = 0;
};

// No call returns sooner after it began, and after the work that it waited for.
constexpr SimTime kReturn = SimTime::FromNs(5'000);
// Of host and device, at most: work that ended so little later can have been waited for.
constexpr SimTime kClocksApart = SimTime::FromNs(20'000);

// Times at which a wait of one rank could begin and end at the soonest and at the latest.
class Waits {
 public:
  explicit Waits(const TraceStore& store) : store_(store) {
    for (uint32_t r = 0; r < store.ranks().size(); ++r) AddCalls(r);
    AddArrivals();
  }

  TimeEdit Edit(const Change& change) const {
    return [this, change](uint32_t r, NodeIndex n, RecordedTime& time) {
      const Bounds& b = bounds_[r][n.value];
      if (b.is_call && change.calls != 0) {
        const SimTime end = time.start + time.duration;
        const SimTime to = change.calls < 0 ? b.earliest : b.latest;
        time.duration += (to - end).ScaledBy(std::abs(change.calls));
      } else if (b.is_arrival && change.arrivals != 0) {
        const SimTime to = change.arrivals < 0 ? b.earliest : b.latest;
        const SimTime moved = (to - time.start).ScaledBy(std::abs(change.arrivals));
        time.start += moved;
        time.duration -= moved;
      }
    };
  }
  int calls() const { return calls_; }
  int arrivals() const { return arrivals_; }

 private:
  struct Bounds {
    bool is_call = false;
    bool is_arrival = false;
    SimTime earliest;
    SimTime latest;
  };

  void AddCalls(uint32_t r) {
    const RankTrace& rank = store_.ranks()[r];
    const RankReconstruction recording(store_, rank, TestDriver());
    bounds_.emplace_back(rank.size());
    for (const CpuTimeline& timeline : recording.order.timelines) {
      for (size_t k = 0; k < timeline.calls.size(); ++k) {
        const NodeIndex call = timeline.calls[k];
        bool blocking = IsSynchronize(rank.runtime_call(call));
        blocking = blocking || recording.index.HoldsUntilCopied(call);
        if (!blocking || !rank.has_duration(call)) continue;
        Bounds& b = bounds_[r][call.value];
        b.is_call = true;
        b.latest = rank.end(call);
        // A call that returned before the work that it could wait for had ended did not block: that
        // is structure, which calls therefore keep.
        b.earliest = std::min(rank.start(call) + kReturn, rank.end(call));
        for (uint32_t i = 0; i < rank.size(); ++i) {
          const NodeIndex n(i);
          if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
          if (rank.end(n) > rank.end(call) + kClocksApart) continue;
          b.earliest = std::max(b.earliest, std::min(rank.end(n) + kReturn, rank.end(call)));
        }
        if (k + 1 < timeline.calls.size()) {
          b.latest = std::max(b.latest, rank.start(timeline.calls[k + 1]));
        }
        ++calls_;
      }
    }
  }

  // What the stream and the inferred synchronisation allow.
  SimTime EarliestStart(const RankTrace& rank, const RankSync& sync, NodeIndex n) const {
    SimTime earliest = rank.start(rank.launcher(n));
    for (uint32_t i = n.value; i-- > 0;) {
      if (rank.lane(NodeIndex(i)) != rank.lane(n)) continue;
      earliest = std::max(earliest, rank.end(NodeIndex(i)));
      break;
    }
    for (const SyncEdge& e : sync.device_edges) {
      if (e.consumer == n) earliest = std::max(earliest, rank.end(e.producer));
    }
    return std::min(earliest, rank.start(n));
  }

  void AddArrivals() {
    const auto map = MatchCommunicators(store_);
    ASSERT_TRUE(map.ok()) << map.status();
    const std::vector<SimTime> offset = EstimateClockOffsets(store_, *map);
    std::vector<RankSync> syncs;
    for (const RankTrace& rank : store_.ranks()) {
      syncs.push_back(RankReconstruction(store_, rank, TestDriver()).sync);
    }
    for (const MatchedRendezvous& rendezvous : map->rendezvous) {
      if (rendezvous.missing_members > 0) continue;
      SimTime last = SimTime::Min();
      for (const auto& m : rendezvous.members) {
        last = std::max(last, store_.ranks()[m.rank].start(m.node) + offset[m.rank]);
      }
      for (const auto& m : rendezvous.members) {
        const RankTrace& rank = store_.ranks()[m.rank];
        const SimTime start = rank.start(m.node) + offset[m.rank];
        const bool waited = start < last && rank.end(m.node) + offset[m.rank] >= last;
        // Without its launch a node's start is all that is known of its arrival.
        if (!waited || !rank.launcher(m.node).valid()) continue;
        Bounds& b = bounds_[m.rank][m.node.value];
        b.is_arrival = true;
        b.earliest = EarliestStart(rank, syncs[m.rank], m.node);
        b.latest = last - offset[m.rank] - SimTime::FromPs(1);
        ++arrivals_;
      }
    }
  }

  const TraceStore& store_;
  std::vector<std::vector<Bounds>> bounds_;
  int calls_ = 0;
  int arrivals_ = 0;
};

// Start and end of every predicted iteration of every rank, in picoseconds.
// Latencies are given: the start of communication after its input is a sample of them, so that
// moved arrivals change what is measured, and no more.
std::vector<int64_t> PredictedTimes(const TraceStore& store, const Latencies& latencies) {
  CompileOptions options;
  options.allow_missing_ranks = true;
  options.latencies = latencies;
  const auto prediction = Predict(store, options, nullptr);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  std::vector<int64_t> times;
  if (!prediction.ok()) return times;
  for (const PredictedRank& rank : prediction->ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      times.push_back(it.predicted_start.ps());
      times.push_back(it.predicted_end.ps());
    }
  }
  return times;
}

void ExpectNoLeak(const std::vector<std::string>& paths, bool has_arrivals) {
  for (const std::string& path : paths) FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces(paths, {});
  ASSERT_TRUE(store.ok()) << store.status();
  const auto same = CopyStore(*store, nullptr);
  ASSERT_TRUE(same.ok()) << same.status();
  ASSERT_EQ(FirstDifference(*store, *same), "");
  const Waits waits(*store);
  EXPECT_GT(waits.calls(), 0);
  if (has_arrivals) {
    EXPECT_GT(waits.arrivals(), 0);
  }
  CompileOptions options;
  options.allow_missing_ranks = true;
  const auto compiled = Compile(*store, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Latencies& latencies = compiled->reports.front().latencies;
  const std::vector<int64_t> expected = PredictedTimes(*store, latencies);
  for (const Change& change :
       {Change{-0.9, 0}, Change{-0.5, 0}, Change{0.5, 0}, Change{1, 0}, Change{0, -1},
        Change{0, -0.5}, Change{0, 0.5}, Change{0, 1}, Change{-0.7, 0.7}}) {
    SCOPED_TRACE(testing::Message()
                 << "calls " << change.calls << ", arrivals " << change.arrivals);
    const auto copy = CopyStore(*store, waits.Edit(change));
    ASSERT_TRUE(copy.ok()) << copy.status();
    ASSERT_NE(FirstDifference(*store, *copy), has_arrivals || change.calls != 0 ? "" : "-");
    EXPECT_EQ(PredictedTimes(*copy, latencies), expected);
  }
}

TEST(NoLeak, BundledSample) {
  ExpectNoLeak({std::string(FORETRACE_SOURCE_DIR) + "/traces/samples/dlrm_8rank"}, true);
}

TEST(NoLeak, DlrmOnEightRanks) {
  ExpectNoLeak({RealData("param-et_replay/dlrm_kineto.tar.gz"),
                RealData("param-et_replay/dlrm_pytorch_et.tar.gz")},
               true);
}

TEST(NoLeak, TraceDiffControl) { ExpectNoLeak({RealData("hta-traces/trace_diff/control")}, false); }

TEST(NoLeak, ResNet) {
  ExpectNoLeak({RealData("kineto-tb_plugin/"
                         "resnet50_num_workers_0.worker0.1623143089861.pt.trace.json.gz")},
               false);
}

}  // namespace
}  // namespace foretrace
