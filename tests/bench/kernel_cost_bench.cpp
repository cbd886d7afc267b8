// How fast a kernel estimate comes from a loaded calibration (goal: under 200 ns on average) and how
// fast a calibration loads (goal: under 50 ms).
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "simulator/cost/kernel/kernel_file.h"

namespace foretrace {
namespace {

const std::string kFile =
    std::string(FORETRACE_SOURCE_DIR) + "/calibration/a100-pcie-40gb/kernels.yaml";

// Shapes that all differ, so that nothing can be remembered.
std::vector<KernelWork> Shapes(OperatorCall::Shape (*make)(int64_t)) {
  std::vector<KernelWork> list;
  for (int64_t i = 0; i < 512; ++i) {
    list.push_back(Kernels({make(i), DType::kFloat32, Direction::kForward})[0]);
  }
  return list;
}

void Predict(benchmark::State& state, const std::vector<KernelWork>& shapes) {
  const auto loaded = LoadKernelModels(kFile);
  if (!loaded.ok()) {
    state.SkipWithError(std::string(loaded.status().message()).c_str());
    return;
  }
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(loaded->models.Predict(shapes[at++ % 512], Precision::kFloat32));
  }
}

void BM_Gemm(benchmark::State& state) {
  Predict(state, Shapes([](int64_t i) -> OperatorCall::Shape {
            return LinearOp{256 + 37 * i, 512 + 64 * (i % 7), 1024 + 8 * i};
          }));
}
void BM_LayerNorm(benchmark::State& state) {
  Predict(state, Shapes([](int64_t i) -> OperatorCall::Shape {
            return LayerNormOp{1000 + 13 * i, 512 + 4 * i};
          }));
}
void BM_Elementwise(benchmark::State& state) {
  Predict(state, Shapes([](int64_t i) -> OperatorCall::Shape {
            return ElementwiseOp{100000 + 9999 * i, 100000 + 9999 * i};
          }));
}
// The mix of an iteration of training: mostly element-wise kernels and copies, a third GEMMs.
void BM_Mix(benchmark::State& state) {
  auto mix = Shapes([](int64_t i) -> OperatorCall::Shape {
    if (i % 3 == 0) return LinearOp{256 + 37 * i, 512 + 64 * (i % 7), 1024 + 8 * i};
    if (i % 6 == 1) return LayerNormOp{1000 + 13 * i, 512 + 4 * i};
    return ElementwiseOp{100000 + 9999 * i, 100000 + 9999 * i};
  });
  Predict(state, mix);
}
void BM_Load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(LoadKernelModels(kFile));
}
BENCHMARK(BM_Gemm);
BENCHMARK(BM_LayerNorm);
BENCHMARK(BM_Elementwise);
BENCHMARK(BM_Mix);
BENCHMARK(BM_Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace

