// What a call of the step predictor takes (simulator/planning/serving/step_predictor.h).
#include <benchmark/benchmark.h>

#include <memory>

#include "simulator/planning/serving/step_predictor.h"

namespace foretrace {
namespace {

std::shared_ptr<const serve::StepModel> Predictor(benchmark::State& state, const char* model,
                                                  const char* parallel) {
  ServingOptions options;
  options.model = model;
  options.platform = "dgx-h200";
  if (*parallel != 0) options.parallel = parallel;
  auto steps = MakeStepPredictor(options);
  if (!steps.ok()) {
    state.SkipWithError(steps.status().ToString().c_str());
    return nullptr;
  }
  return *std::move(steps);
}

// Batches of sizes that were asked for before.
void KnownSizes(benchmark::State& state) {
  const auto steps = Predictor(state, "llama3.1-8b", "");
  if (steps == nullptr) return;
  serve::StepBatch batch;
  batch.prefills = {{512, 0}, {700, 300}};
  for (int i = 0; i < 64; ++i) batch.AddDecode(1000 + i);
  for (auto _ : state) benchmark::DoNotOptimize(steps->Time(batch));
}
BENCHMARK(KnownSizes);

// Batches every size of which is new, with sums over eight ranks.
void NewSizes(benchmark::State& state) {
  const auto steps = Predictor(state, "llama3.1-70b", "tp8");
  if (steps == nullptr) return;
  int i = 0;
  for (auto _ : state) {
    state.PauseTiming();
    serve::StepBatch batch;
    batch.prefills = {{600 + 3 * (i % 2000), 7 * i % 9000}};
    for (int j = 0; j <= 31 * i % 200; ++j) batch.AddDecode(100 + (37 * j + 13 * i) % 3000);
    ++i;
    state.ResumeTiming();
    benchmark::DoNotOptimize(steps->Time(batch));
  }
}
BENCHMARK(NewSizes)->Iterations(2000);

}  // namespace
}  // namespace foretrace
