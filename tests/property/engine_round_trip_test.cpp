// A run of the engine, written down as if it had been recorded, is predicted exactly: what is
// inferred from a recording gives back the structure and the costs that made it.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulator/engine/executor.h"
#include "simulator/engine/replay.h"
#include "tests/support/job_script.h"
#include "tests/support/store_copy.h"
#include "tests/support/test_driver.h"

namespace foretrace {
namespace {

CompileOptions FixedLatencies() {
  CompileOptions options;
  Latencies latencies;
  latencies.launch.fill(Us(5));
  latencies.gap.fill(Us(1));
  latencies.event.fill(Us(2));
  options.latencies = latencies;
  options.accelerators = &TestAccelerators();
  return options;
}

SimTime RandomUs(int least, int most) { return Us(*rc::gen::inRange(least, most)); }

// Which calls come on which rank, and what they wait for. Calls and device work of all ranks are
// put down one after the other, so that every edge is feasible and no call returns before the work
// that it waits for; times are replaced later.
class RandomJob {
 public:
  explicit RandomJob(int ranks) : ranks_(ranks), job_(ranks), calls_(ranks) {}

  TraceStore Draw() {
    for (int r = 0; r < ranks_; ++r) {
      std::vector<int32_t> all;
      for (int k = 0; k < ranks_; ++k) all.push_back(k);
      job_.rank(r).Group("world", all);
      Kernel(r);
    }
    const int steps = *rc::gen::inRange(1, 25);
    for (int s = 0; s < steps; ++s) Step(*rc::gen::inRange(0, ranks_));
    for (int r = 0; r < ranks_; ++r) {
      const auto k = *rc::gen::inRange<size_t>(0, calls_[r].size());
      const double middle = calls_[r][k] + 7;
      job_.rank(r).Step(1, {-5, middle}).Step(2, {middle + 1, calls_[r].back() + 10});
    }
    return job_.Build();
  }

 private:
  Span Call(int r) {
    const double at = clock_;
    clock_ += 10;
    calls_[r].push_back(at);
    return {at, at + 4};
  }
  Span Device() {
    const double at = clock_;
    clock_ += 10;
    return {at, at + 5};
  }
  std::string Next(const char* what) { return what + std::to_string(++names_); }
  static int Stream() { return *rc::gen::inRange(7, 9); }

  void Kernel(int r) {
    const Span call = Call(r);
    const Span device = Device();
    job_.rank(r).Kernel(Next("k"), call, Stream(), device, *rc::gen::inRange(1, 3));
  }
  void Step(int r) {
    switch (*rc::gen::inRange(0, 7)) {
      case 0: {
        const std::string name = Next("ar");
        for (int k = 0; k < ranks_; ++k) {
          const Span call = Call(k);
          job_.rank(k).Collective(name, CollectiveOp::kAllReduce, "world", call, 20, Device());
        }
        break;
      }
      case 1: {
        const int to = *rc::gen::inRange(0, ranks_);
        if (to == r) break;
        const std::string name = Next("p2p");
        const Span send = Call(r);
        job_.rank(r).PointToPoint(name, NodeKind::kSend, to, send, 21, Device());
        const Span receive = Call(to);
        job_.rank(to).PointToPoint(name, NodeKind::kRecv, r, receive, 21, Device());
        break;
      }
      case 2:
        job_.rank(r).Call(Next("device sync"), RuntimeCall::kDeviceSynchronize, Call(r));
        break;
      case 3: {
        const std::string name = Next("stream sync");
        job_.rank(r).Call(name, RuntimeCall::kStreamSynchronize, Call(r)).Names(name, -1, Stream());
        break;
      }
      case 4: {
        const Span call = Call(r);
        job_.rank(r).Device(Next("copy"), NodeKind::kMemcpy,
                            static_cast<uint8_t>(MemcpyKind::kDeviceToHostPageable), call, Stream(),
                            {call.start + 1, call.start + 3});
        break;
      }
      case 5: {
        const std::string record = Next("record");
        const std::string wait = Next("wait");
        job_.rank(r)
            .Call(record, RuntimeCall::kEventRecord, Call(r))
            .Call(wait, RuntimeCall::kStreamWaitEvent, Call(r))
            .Names(record, names_, 7)
            .Names(wait, names_, 8);
        break;
      }
      default:
        Kernel(r);
    }
  }

  int ranks_;
  JobScript job_;
  std::vector<std::vector<double>> calls_;  // when they begin, by rank
  double clock_ = 0;
  int names_ = 0;
};

// Costs and skews of the program's own, instead of those of the draft.
void DrawCosts(Program& program) {
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    RankProgram& rank = program.ranks[r];
    rank.start = r == 0 ? SimTime() : RandomUs(0, 300);
    for (const LaneProgram& lane : rank.lanes) {
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        Item& item = rank.items[i];
        if (lane.cpu) {
          item.lead = i == lane.begin ? SimTime() : RandomUs(1, 60);
          const bool mark = item.duration == SimTime();
          if (item.kind == ItemKind::kCall && !mark) item.duration = RandomUs(1, 9);
        } else if (item.kind == ItemKind::kDevice) {
          item.duration = RandomUs(1, 200);
        }
      }
    }
  }
  for (RendezvousProgram& rendezvous : program.rendezvous) {
    rendezvous.awaiting = Awaiting::kAll;
    const SimTime duration = RandomUs(1, 200);
    for (const auto& m : rendezvous.members) {
      Item& item = program.ranks[m.rank].items[m.item];
      item.duration = duration;
    }
  }
}

// The recording of a schedule. Calls that are no items (event records, stream waits) come right
// after the call before them.
TimeEdit Recording(const TraceStore& store, const Program& program, const Schedule& schedule) {
  std::vector<std::vector<RecordedTime>> times(store.ranks().size());
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& trace = store.ranks()[r];
    const RankProgram& rank = program.ranks[r];
    times[r].resize(trace.size());
    std::vector<bool> known(trace.size(), false);
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      const uint32_t n = rank.items[i].node.value;
      // A mark has two items, its begin and its end.
      if (!known[n]) times[r][n].start = schedule.ranks[r].start[i];
      times[r][n].duration = schedule.ranks[r].end[i] - times[r][n].start;
      known[n] = true;
    }
    SimTime at;
    for (uint32_t n = 0; n < trace.size(); ++n) {
      if (trace.kind(NodeIndex(n)) != NodeKind::kRuntimeCall) continue;
      if (known[n]) {
        at = times[r][n].start + times[r][n].duration;
      } else {
        at += SimTime::FromNs(1);
        times[r][n] = {at, SimTime()};
      }
    }
  }
  return [times](uint32_t r, NodeIndex n, RecordedTime& time) { time = times[r][n.value]; };
}

RC_GTEST_PROP(RoundTrip, ARecordedRunIsPredictedExactly, ()) {
  const int ranks = *rc::gen::inRange(1, 4);
  const TraceStore draft = RandomJob(ranks).Draw();
  const CompileOptions options = FixedLatencies();
  auto compiled = Compile(draft, options);
  RC_ASSERT(compiled.ok());
  DrawCosts(compiled->program);
  const auto run = RunStraight(draft, compiled->program, nullptr);
  RC_ASSERT(run.ok());
  const auto recorded = CopyStore(draft, Recording(draft, compiled->program, *run));
  RC_ASSERT(recorded.ok());
  const auto prediction = Predict(*recorded, options, nullptr);
  RC_ASSERT(prediction.ok());
  for (int r = 0; r < ranks; ++r) {
    RC_ASSERT(prediction->schedule.ranks[r].start == run->ranks[r].start);
    RC_ASSERT(prediction->schedule.ranks[r].end == run->ranks[r].end);
    RC_ASSERT(prediction->ranks[r].iterations.size() == 2u);
    for (const PredictedIteration& it : prediction->ranks[r].iterations) {
      RC_ASSERT(it.predicted_end - it.predicted_start == it.recorded_end - it.recorded_start);
    }
  }
}

}  // namespace
}  // namespace foretrace
