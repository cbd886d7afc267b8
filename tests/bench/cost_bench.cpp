// Lookup and loading of calibrated collectives. Budgets: an estimate under 200 ns, loading a
// calibration under 50 ms.

#include <benchmark/benchmark.h>

#include <cmath>
#include <string>

#include "simulator/calibrate/collective/collective_fit.h"
#include "simulator/cost/collective/collective_file.h"

namespace foretrace {
namespace {

// 100 sweeps of 80 knots each: more than any committed file.
std::vector<CollectiveModel> Models() {
  std::vector<CollectiveModel> models;
  for (int i = 0; i < 100; ++i) {
    CurveSpec spec;
    spec.bus_factor = 1.5;
    spec.start_up_us = 20;
    spec.sigmoid = {1.2, 21, 0.6, 1.1};
    for (int k = 0; k < 80; ++k) spec.knots.push_back({12 + 0.25 * k, 0.01 * ((k * 7) % 5)});
    CollectiveModel model;
    model.op = i < 50 ? CollectiveOp::kAllReduce : CollectiveOp::kAllToAll;
    model.ranks = 2 + 3 * (i % 50);
    model.source = "bench";
    model.min_bytes = Bytes(4096);
    model.max_bytes = Bytes(int64_t{1} << 31);
    model.curve = *CollectiveCurve::Create(spec);
    models.push_back(std::move(model));
  }
  return models;
}

CalibrationHeader Header() {
  CalibrationHeader header;
  header.kind = "collective";
  header.platform = "bench";
  header.interconnect = Interconnect::kSwitch;
  return header;
}

void BM_ResolvedLookup(benchmark::State& state) {
  const CollectiveCalibration calibration(Header(), Models());
  // 8 ranks are measured; 10 lie between two measured numbers.
  const auto ranks = static_cast<int32_t>(state.range(0));
  const CollectiveEstimator estimator = calibration.Resolve(CollectiveOp::kAllReduce, ranks, 1);
  int64_t bytes = 5000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(estimator.Time(Bytes(bytes)));
    bytes = bytes * 17 % 1000000007 + 4096;
  }
}
BENCHMARK(BM_ResolvedLookup)->Arg(8)->Arg(10);

void BM_ResolveAndLookup(benchmark::State& state) {
  const CollectiveCalibration calibration(Header(), Models());
  int64_t bytes = 5000;
  for (auto _ : state) {
    const auto estimator = calibration.Resolve(CollectiveOp::kAllToAll, 10, 1);
    benchmark::DoNotOptimize(estimator.Time(Bytes(bytes)));
    bytes = bytes * 17 % 1000000007 + 4096;
  }
}
BENCHMARK(BM_ResolveAndLookup);

void BM_LoadCalibration(benchmark::State& state) {
  const std::string text = HeaderYaml(Header()) + CollectiveModelsYaml(Models());
  for (auto _ : state) {
    const auto calibration = ParseCollectiveCalibration("bench.yaml", text);
    if (!calibration.ok()) state.SkipWithError(std::string(calibration.status().message()).c_str());
  }
  state.counters["bytes"] = static_cast<double>(text.size());
}
BENCHMARK(BM_LoadCalibration)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foretrace
