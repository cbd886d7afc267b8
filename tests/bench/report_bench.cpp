// Cost of the reports per executed node. "All observers" is BM_TellEngineEvents plus BM_Report.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/report/prediction_report.h"
#include "simulator/report/timeline.h"
#include "simulator/trace/builder.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

constexpr int kRanks = 8;
constexpr int kOps = 60000;  // per rank: an op, a launch, and a kernel or a collective each

struct Job {
  std::unique_ptr<TraceStore> store;
  std::vector<NodeEvent> events;
  std::vector<std::vector<IterationWindow>> windows;
};

std::pair<RankTrace, std::unique_ptr<StringPool>> MakeRank(int rank) {
  RankInfo info;
  info.rank = rank;
  RankTraceBuilder b(info);
  const LaneIndex thread = b.AddLane(Lane::Kind::kCpuThread, 1);
  const LaneIndex compute = b.AddLane(Lane::Kind::kStream, 7);
  const LaneIndex comm = b.AddLane(Lane::Kind::kStream, 20);
  const auto add = [&](NodeKind kind, int detail, const std::string& name, LaneIndex lane,
                       int64_t start_ns, int64_t ns) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.detail = static_cast<uint8_t>(detail);
    spec.name = name;
    spec.lane = lane;
    spec.start = SimTime::FromNs(start_ns);
    spec.duration = SimTime::FromNs(ns);
    return b.AddNode(spec);
  };
  for (int i = 0; i < kOps; ++i) {
    const int64_t t = int64_t{i} * 10000;
    add(NodeKind::kCpuOp, 0, fmt::format("aten::op{}", i % 50), thread, t, 9000);
    const NodeIndex launch =
        add(NodeKind::kRuntimeCall, 1, "cudaLaunchKernel", thread, t + 2000, 4000);
    const bool collective = i % 20 == 19;
    const NodeIndex device =
        collective ? add(NodeKind::kCollective, static_cast<int>(CollectiveOp::kAllReduce),
                         "ncclKernel_AllReduce", comm, t + 7000, 9000)
                   : add(NodeKind::kKernel, 0, fmt::format("volta_sgemm_{}", i % 100), compute,
                         t + 7000, 9000);
    b.SetLauncher(device, launch);
    if (collective) {
      CommAttr attr;
      attr.group = b.Intern("world");
      b.SetComm(device, attr);
    }
  }
  auto built = b.Build({});
  FORETRACE_CHECK(built.ok());
  return {std::move(built->trace), std::move(built->strings)};
}

// Events as the recording has them, each bound by the one before it on its lane, by its launch, or,
// for every other collective, by the next rank.
Job MakeJob() {
  Job job;
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (int r = 0; r < kRanks; ++r) ranks.push_back(MakeRank(r));
  auto store = TraceStore::Assemble(std::move(ranks), {});
  FORETRACE_CHECK(store.ok());
  job.store = std::make_unique<TraceStore>(*std::move(store));
  for (RankIndex r = 0; r < kRanks; ++r) {
    const RankTrace& rank = job.store->ranks()[r];
    std::vector<NodeIndex> last(3);
    uint32_t collectives = 0;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (rank.kind(n) == NodeKind::kCpuOp) continue;
      NodeEvent e;
      e.node = {r, n};
      e.lane = rank.lane(n);
      e.start = e.active_start = rank.start(n);
      e.end = rank.end(n);
      const bool launched = rank.launcher(n).valid() && i % 2 == 0;
      e.cause = launched ? WaitCause::kLaunch : WaitCause::kProgramOrder;
      e.binding = {r, launched ? rank.launcher(n) : last[e.lane.value]};
      if (rank.kind(n) == NodeKind::kCollective) {
        e.rendezvous = collectives++;
        if (r % 2 == 0) {
          e.active_start += SimTime::FromNs(1000);
          e.end_cause = WaitCause::kCollectiveArrival;
          e.end_binding = {r + 1, n};
        }
      }
      last[e.lane.value] = n;
      job.events.push_back(e);
    }
    const SimTime end = SimTime::FromNs(int64_t{kOps} * 10000);
    job.windows.push_back({{0, SimTime(), end, SimTime(), end}});
  }
  return job;
}

void SetRate(benchmark::State& state, const Job& job) {
  state.SetItemsProcessed(static_cast<int64_t>(job.events.size()) * state.iterations());
}

void BM_TellEngineEvents(benchmark::State& state) {
  const Job job = MakeJob();
  for (auto _ : state) {
    EventTable table(*job.store);
    for (const NodeEvent& e : job.events) table.OnNode(e);
    benchmark::DoNotOptimize(table.size());
  }
  SetRate(state, job);
}
BENCHMARK(BM_TellEngineEvents)->Unit(benchmark::kMillisecond);

void BM_Report(benchmark::State& state) {
  const Job job = MakeJob();
  EventTable table(*job.store);
  for (const NodeEvent& e : job.events) table.OnNode(e);
  for (auto _ : state) {
    benchmark::DoNotOptimize(BuildPredictionReport(table, job.windows, {}));
  }
  SetRate(state, job);
}
BENCHMARK(BM_Report)->Unit(benchmark::kMillisecond);

void BM_Timeline(benchmark::State& state, const char* suffix) {
  const Job job = MakeJob();
  EventTable table(*job.store);
  for (const NodeEvent& e : job.events) table.OnNode(e);
  const TempFolder folder;
  const std::string path = folder.path() + "/timeline" + suffix;
  TimelineOptions options;
  options.recorded = false;
  for (auto _ : state) {
    const auto writer = MakeTimelineWriter(path);
    WriteTimeline(table, options, *writer);
    FORETRACE_CHECK(writer->Close().ok());
  }
  state.counters["MB"] = static_cast<double>(std::filesystem::file_size(path)) * 1e-6;
  SetRate(state, job);
}
BENCHMARK_CAPTURE(BM_Timeline, plain, ".json")->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(BM_Timeline, gzip, ".json.gz")->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(BM_Timeline, perfetto, ".pftrace")->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace foretrace
