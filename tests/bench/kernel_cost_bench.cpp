// How fast a kernel estimate comes from a loaded calibration (goal: under 200 ns on average over
// the kernels of a job) and how fast a calibration loads (goal: under 50 ms). BM_First*: shapes
// that were not asked for before; BM_Iteration: all kernels of an iteration, first ones included.
#include <benchmark/benchmark.h>

#include <span>
#include <string>
#include <vector>

#include "simulator/cost/kernel/kernel_file.h"

namespace foretrace {
namespace {

const std::string kFile =
    std::string(FORETRACE_SOURCE_DIR) + "/calibration/a100-pcie-40gb/kernels.yaml";

std::vector<KernelWork> Shapes(OperatorCall::Shape (*make)(int64_t)) {
  std::vector<KernelWork> list;
  for (int64_t i = 0; i < 512; ++i) {
    list.push_back(Kernels({make(i), DType::kFloat32, Direction::kForward})[0]);
  }
  return list;
}

// Every estimate of `works`, from models that have answered nothing yet.
void Predict(benchmark::State& state, const std::vector<KernelWork>& works) {
  const auto loaded = LoadKernelModels(kFile);
  if (!loaded.ok()) {
    state.SkipWithError(std::string(loaded.status().message()).c_str());
    return;
  }
  const std::span<const KernelModel> models = loaded->models.models();
  for (auto _ : state) {
    state.PauseTiming();
    const KernelModels fresh(loaded->models.device(), {models.begin(), models.end()});
    state.ResumeTiming();
    for (const KernelWork& work : works) {
      benchmark::DoNotOptimize(fresh.Predict(work, Precision::kFloat32));
    }
  }
  state.counters["per_estimate"] = benchmark::Counter(
      static_cast<double>(works.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Forward and backward of a GPT of 48 layers at 2,048 tokens and 1,600 channels.
std::vector<KernelWork> GptIteration() {
  constexpr int64_t kTokens = 2048, kWidth = 1600, kHeads = 25, kLayers = 48;
  const auto elementwise = [](int64_t elements, int64_t operands) {
    return ElementwiseOp{elements, operands * elements};
  };
  const std::vector<OperatorCall::Shape> layer = {
      LayerNormOp{kTokens, kWidth},
      LinearOp{kTokens, 3 * kWidth, kWidth, true},
      AttentionOp{2, kHeads, kHeads, kTokens / 2, kTokens / 2, kWidth / kHeads, true, false},
      LinearOp{kTokens, kWidth, kWidth, true},
      elementwise(kTokens * kWidth, 2),
      LayerNormOp{kTokens, kWidth},
      LinearOp{kTokens, 4 * kWidth, kWidth, true},
      elementwise(4 * kTokens * kWidth, 1),
      LinearOp{kTokens, kWidth, 4 * kWidth, true},
      elementwise(kTokens * kWidth, 2)};
  std::vector<KernelWork> works;
  for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
    for (int64_t i = 0; i < kLayers; ++i) {
      for (const OperatorCall::Shape& shape : layer) {
        for (const KernelWork& work : Kernels({shape, DType::kFloat32, pass})) {
          works.push_back(work);
        }
      }
    }
  }
  return works;
}

void BM_FirstGemm(benchmark::State& state) {
  Predict(state, Shapes([](int64_t i) -> OperatorCall::Shape {
            return LinearOp{256 + 37 * i, 512 + 64 * (i % 7), 1024 + 8 * i};
          }));
}
void BM_FirstLayerNorm(benchmark::State& state) {
  Predict(state, Shapes([](int64_t i) -> OperatorCall::Shape {
            return LayerNormOp{1000 + 13 * i, 512 + 4 * i};
          }));
}
void BM_FirstElementwise(benchmark::State& state) {
  Predict(state, Shapes([](int64_t i) -> OperatorCall::Shape {
            return ElementwiseOp{100000 + 9999 * i, 100000 + 9999 * i};
          }));
}
void BM_Iteration(benchmark::State& state) { Predict(state, GptIteration()); }
void BM_Load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(LoadKernelModels(kFile));
}
BENCHMARK(BM_FirstGemm)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_FirstLayerNorm)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_FirstElementwise)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Iteration)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
