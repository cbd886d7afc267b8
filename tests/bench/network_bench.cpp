// The budgets of the network room, one core. Peers on the same work: docs of the benchmarks name
// ASTRA-sim's times where they were measured.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "simulator/network/fluid/run_alone.h"
#include "simulator/network/transfer_planner.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

Topology Chips(const std::string& dimensions, int nodes) {
  const auto spec = ParsePlatform(
      fmt::format("name: b\nlinks:\n  l: {{class: network, bandwidth_GBps: 50, latency_us: 0.5, "
                  "source: bench}}\nnode: {{devices: 1}}\nnodes: {}\nfabric: {{kind: dimensions, "
                  "dimensions: [{}]}}\n",
                  nodes, dimensions),
      "b");
  if (!spec.ok()) std::abort();
  return *Topology::Create(*spec);
}

void Run(benchmark::State& state, const Topology& topology, TransferSpec spec,
         NetworkOptions options, bool collapse) {
  for (int32_t r = 0; r < topology.device_count(); ++r) spec.members.push_back(r);
  double flows = 0;
  for (auto _ : state) {
    TransferPlanner planner(topology, options);
    const auto plan = planner.Plan(spec);
    if (!plan.ok()) {
      state.SkipWithError(std::string(plan.status().message()).c_str());
      return;
    }
    const auto run = RunAlone(topology, *plan, collapse);
    if (!run.ok() || run->collapsed != collapse) {
      state.SkipWithError("did not run as meant");
      return;
    }
    flows += static_cast<double>(run->flows);
    benchmark::DoNotOptimize(run->time);
  }
  state.counters["flows"] = benchmark::Counter(flows, benchmark::Counter::kAvgIterations);
  state.counters["flows/s"] = benchmark::Counter(flows, benchmark::Counter::kIsRate);
}

TransferSpec AllReduce() {
  TransferSpec spec;
  spec.op = CollectiveOp::kAllReduce;
  spec.bytes = Bytes(64 << 20);
  return spec;
}

// Rings stream: a flow a hop. Budgets: 512 ranks 0.05 s, 4,096 ranks 0.5 s (ASTRA-sim 2.85 s, 369
// s).
void BM_RingAllReduce(benchmark::State& state) {
  const auto n = static_cast<int>(state.range(0));
  Run(state, Chips(fmt::format("{{kind: ring, size: {}, link: l}}", n), n), AllReduce(),
      {Algorithm::kRing, 4}, false);
}
BENCHMARK(BM_RingAllReduce)
    ->Arg(64)
    ->Arg(512)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// Through a switch, where up and down links couple neighbours.
void BM_RingAllReduceSwitch(benchmark::State& state) {
  const auto n = static_cast<int>(state.range(0));
  Run(state, Chips(fmt::format("{{kind: switch, size: {}, link: l}}", n), n), AllReduce(),
      {Algorithm::kRing, 4}, false);
}
BENCHMARK(BM_RingAllReduceSwitch)->Arg(512)->Unit(benchmark::kMillisecond)->Iterations(1);

// All flows at once. Budget: 512 ranks 0.5 s; 256 ranks 0.1 s (ASTRA-sim 8.3 s for 512).
void BM_AllToAllDirect(benchmark::State& state) {
  const auto n = static_cast<int>(state.range(0));
  TransferSpec spec = AllReduce();
  spec.op = CollectiveOp::kAllToAll;
  Run(state, Chips(fmt::format("{{kind: switch, size: {}, link: l}}", n), n), spec,
      {Algorithm::kDirect, 1}, false);
}
BENCHMARK(BM_AllToAllDirect)->Arg(256)->Arg(512)->Unit(benchmark::kMillisecond);

// 16 x 16 x 16, rings in each dimension. Budget: 1 s (ASTRA-sim 12.3 s).
void BM_Torus4096AllReduce(benchmark::State& state) {
  const std::string ring = "{kind: ring, size: 16, link: l}";
  Run(state, Chips(fmt::format("{0}, {0}, {0}", ring), 4096), AllReduce(),
      {Algorithm::kHierarchical, 1}, false);
}
BENCHMARK(BM_Torus4096AllReduce)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace

BENCHMARK_MAIN();
