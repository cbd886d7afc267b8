// How fast mappings are evaluated, and stage graphs found.
#include <benchmark/benchmark.h>

#include <vector>

#include "simulator/search/graphpipe.h"
#include "simulator/search/mapping_search.h"
#include "simulator/search/workload_problem.h"
#include "simulator/workload/multi_branch.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

TransformerConfig Gpt3() {
  TransformerConfig c;
  c.hidden = 12288;
  c.layers = 96;
  c.heads = 96;
  c.vocabulary = 51200;
  c.sequence = 2048;
  return c;
}

// Every mapping of GPT-3 175B on 512 devices that fits in 80 GB, one after the other, none pruned.
void EvaluateGpt3(benchmark::State& state) {
  MappingSpace space;
  space.devices = 512;
  space.global_batch = 1536;
  const IterationEvaluator evaluator(Gpt3(), FlatCluster(), Bytes(80'000'000'000));
  std::vector<ParallelMapping> fitting;
  for (const ParallelMapping& m : EnumerateMappings(Gpt3(), space)) {
    if (evaluator.Memory(m) <= Bytes(80'000'000'000)) fitting.push_back(m);
  }
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(evaluator.Evaluate(fitting[next]));
    next = (next + 1) % fitting.size();
  }
  state.counters["mappings"] = static_cast<double>(fitting.size());
  state.counters["evaluations/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(EvaluateGpt3)->MinTime(2);

// All of the candidates, ranked and pruned, on one thread: most are bounded, not evaluated.
void SearchGpt3(benchmark::State& state) {
  MappingSpace space;
  space.devices = 512;
  space.global_batch = 1536;
  const IterationEvaluator evaluator(Gpt3(), FlatCluster(), Bytes(80'000'000'000));
  const std::vector<ParallelMapping> candidates = EnumerateMappings(Gpt3(), space);
  const EvaluateBatch evaluate = OnThreads(evaluator, 1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(SearchExhaustively(evaluator, evaluate, candidates, {}));
  }
  state.counters["candidates"] = static_cast<double>(candidates.size());
}
BENCHMARK(SearchGpt3)->Unit(benchmark::kMillisecond);

// GraphPipe's three models on 32 devices of Summit's kind (table 3.1).
void PartitionOn32(benchmark::State& state) {
  PartitionDevice device;
  device.flop_rate = FlopRate::Teraflops(15.7 * 0.8);
  device.memory_bandwidth = Bandwidth::GBps(900 * 0.8);
  device.network = Bandwidth::GBps(12.5 * 0.9);
  device.overhead = SimTime::FromUs(30);
  device.memory = Bytes(int64_t{16} << 30);
  device.devices = 32;
  const auto workload = state.range(0) == 0   ? BuildMultiModalTransformer({})
                        : state.range(0) == 1 ? BuildDlrm({})
                                              : BuildCandleUno({});
  const int32_t batch = state.range(0) == 0 ? 512 : state.range(0) == 1 ? 2048 : 32768;
  const GraphPipeProblem problem = GraphPipeProblemOf(*workload, device, batch);
  for (auto _ : state) benchmark::DoNotOptimize(PartitionGraphPipe(problem));
  state.SetLabel(workload->name);
}
BENCHMARK(PartitionOn32)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
