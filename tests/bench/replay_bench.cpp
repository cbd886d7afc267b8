// Replay speed: executing a compiled job without observers, and the whole way from a trace store to
// reports.

#include <benchmark/benchmark.h>

#include <algorithm>

#include "simulator/engine/executor.h"
#include "simulator/engine/explain.h"
#include "simulator/engine/replay.h"
#include "simulator/report/event_table.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

// One training-like rank: launches, kernels on a compute stream, and an all-reduce every 50 kernels
// whose input is the kernel before it and which the kernel ten later waits for.
RankTraceBuilder::Result MakeRank(int32_t rank, int32_t ranks, int kernels) {
  RankInfo info;
  info.rank = rank;
  info.world_size = ranks;
  info.source = "benchmark";
  RankTraceBuilder builder(info);
  const LaneIndex cpu = builder.AddLane(Lane::Kind::kCpuThread, 1);
  const LaneIndex compute = builder.AddLane(Lane::Kind::kStream, 7);
  const LaneIndex communication = builder.AddLane(Lane::Kind::kStream, 20);
  SimTime at;
  SimTime device;
  for (int k = 0; k < kernels; ++k) {
    at += SimTime::FromNs(6'000);
    const bool collective = k % 50 == 49;
    RankTraceBuilder::NodeSpec call;
    call.kind = NodeKind::kRuntimeCall;
    call.detail = static_cast<uint8_t>(RuntimeCall::kLaunchKernel);
    call.name = "cudaLaunchKernel";
    call.lane = cpu;
    call.start = at;
    call.duration = SimTime::FromNs(4'000);
    call.source_id = static_cast<uint64_t>(2 * k + 1);
    const NodeIndex launch = builder.AddNode(call);
    RankTraceBuilder::NodeSpec work;
    work.kind = collective ? NodeKind::kCollective : NodeKind::kKernel;
    work.detail = collective ? static_cast<uint8_t>(CollectiveOp::kAllReduce) : uint8_t{0};
    work.name = collective ? "ncclKernel_AllReduce" : "gemm";
    work.lane = collective ? communication : compute;
    device = std::max(device + SimTime::FromNs(1'000), at + SimTime::FromNs(8'000));
    work.start = device;
    work.duration = SimTime::FromNs(collective ? 20'000 : 5'000);
    work.source_id = static_cast<uint64_t>(2 * k + 2);
    device += work.duration;
    const NodeIndex node = builder.AddNode(work);
    builder.SetLauncher(node, launch);
    at += call.duration;
  }
  return *builder.Build({});
}

TraceStore MakeStore(int32_t ranks, int kernels) {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
  for (int32_t r = 0; r < ranks; ++r) {
    RankTraceBuilder::Result result = MakeRank(r, ranks, kernels);
    traces.emplace_back(std::move(result.trace), std::move(result.strings));
  }
  return *TraceStore::Assemble(std::move(traces), Diagnostics());
}

void SetRate(benchmark::State& state, uint64_t nodes) {
  state.counters["nodes/s"] =
      benchmark::Counter(static_cast<double>(nodes) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
  state.counters["nodes"] = static_cast<double>(nodes);
}

void BM_ReplayWithoutObserver(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  const auto job = Compile(store, CompileOptions());
  for (auto _ : state) benchmark::DoNotOptimize(RunStraight(store, job->program, nullptr));
  SetRate(state, job->program.item_count());
}
BENCHMARK(BM_ReplayWithoutObserver)->Unit(benchmark::kMillisecond);

// The executor for programs without an order, on one that has an order everywhere.
void BM_ReplayAsDataflow(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  const auto job = Compile(store, CompileOptions());
  for (auto _ : state) benchmark::DoNotOptimize(RunDataflow(store, job->program, nullptr));
  SetRate(state, job->program.item_count());
}
BENCHMARK(BM_ReplayAsDataflow)->Unit(benchmark::kMillisecond);

// Every kernel contends for room on the device, so that all device work (half of the nodes) goes
// through the queue in order of time.
void BM_ReplayWithContention(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  auto job = Compile(store, CompileOptions());
  for (RankProgram& rank : job->program.ranks) {
    rank.contention = true;
    for (Item& item : rank.items) {
      if (item.kind != ItemKind::kDevice) continue;
      item.needs_room = true;
      item.placement_share = 0x8000;
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(RunDataflow(store, job->program, nullptr));
  SetRate(state, job->program.item_count());
}
BENCHMARK(BM_ReplayWithContention)->Unit(benchmark::kMillisecond);

// Lanes that run what is ready first, as for symbolic traces: everything goes through the queue.
void BM_ReplayWhatIsReady(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  auto job = Compile(store, CompileOptions());
  for (RankProgram& rank : job->program.ranks) {
    for (LaneProgram& lane : rank.lanes) lane.ready_order = true;
  }
  for (auto _ : state) benchmark::DoNotOptimize(RunDataflow(store, job->program, nullptr));
  SetRate(state, job->program.item_count());
}
BENCHMARK(BM_ReplayWhatIsReady)->Unit(benchmark::kMillisecond);

void BM_Compile(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  for (auto _ : state) benchmark::DoNotOptimize(Compile(store, CompileOptions()));
  SetRate(state, store.node_count());
}
BENCHMARK(BM_Compile)->Unit(benchmark::kMillisecond);

// Run and explain to an observer that keeps every event.
void BM_ReplayWithObserver(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  const auto job = Compile(store, CompileOptions());
  for (auto _ : state) {
    const auto schedule = RunStraight(store, job->program, nullptr);
    EventTable table(store);
    EngineObserver* observers[] = {&table};
    Explain(store, job->program, *schedule, observers);
    benchmark::DoNotOptimize(table.size());
  }
  SetRate(state, job->program.item_count());
}
BENCHMARK(BM_ReplayWithObserver)->Unit(benchmark::kMillisecond);

// Compile, run, explain to an observer that keeps every event.
void BM_PredictWithObserver(benchmark::State& state) {
  const TraceStore store = MakeStore(8, 125'000);
  for (auto _ : state) {
    EventTable table(store);
    EngineObserver* observers[] = {&table};
    benchmark::DoNotOptimize(Predict(store, CompileOptions(), nullptr, observers));
  }
  SetRate(state, store.node_count());
}
BENCHMARK(BM_PredictWithObserver)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
