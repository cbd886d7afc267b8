// How fast operators are placed on backends.
#include <benchmark/benchmark.h>

#include "tests/support/random_placements.h"

namespace foretrace {
namespace {

// 200 operators, four backends.
void PlaceOperators(benchmark::State& state) {
  std::mt19937_64 random(200);
  const OperatorView dag = RandomDag(random, 200);
  const std::vector<KernelChoice> choices = RandomChoices(random, dag, 4);
  for (auto _ : state) benchmark::DoNotOptimize(PlaceOps(dag, choices, kPublishedLaunch));
  state.counters["kernels"] = static_cast<double>(choices.size());
}
BENCHMARK(PlaceOperators);

}  // namespace
}  // namespace foretrace
