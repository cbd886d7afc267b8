// vTrain's table of single-node times is the output of another simulator, exact in the number of
// micro-batches. Its coefficients are recovered by linear least squares, and every row is then
// reproduced through our own 1F1B schedule.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "simulator/plan/pipeline_timing.h"
#include "simulator/planning/mappings/measured_mapping_table.h"

namespace foretrace {
namespace {

std::string Table() {
  const char* env = std::getenv("FORETRACE_REALDATA");
  return std::string(env != nullptr ? env : FORETRACE_SOURCE_DIR "/../shared/realdata") +
         "/vtrain/ground_truth_single.csv";
}

// Numbers for unknowns by key.
class Unknowns {
 public:
  size_t operator()(std::array<int64_t, 6> key) {
    return index_.emplace(key, index_.size()).first->second;
  }
  size_t size() const { return index_.size(); }

 private:
  std::map<std::array<int64_t, 6>, size_t> index_;
};

// Solves the normal equations; a vanishing ridge settles what no row determines.
std::vector<double> LeastSquares(const std::vector<std::map<size_t, double>>& rows,
                                 const std::vector<double>& values, size_t n) {
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1, 0.0));
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const auto& [i, x] : rows[r]) {
      for (const auto& [j, y] : rows[r]) a[i][j] += x * y;
      a[i][n] += x * values[r];
    }
  }
  for (size_t i = 0; i < n; ++i) a[i][i] += 1e-9;
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < n; ++r) {
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    }
    std::swap(a[c], a[pivot]);
    for (size_t r = 0; r < n; ++r) {
      if (r == c || a[r][c] == 0) continue;
      const double factor = a[r][c] / a[c][c];
      for (size_t k = c; k <= n; ++k) a[r][k] -= factor * a[c][k];
    }
  }
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = a[i][n] / a[i][i];
  return x;
}

// Per (micro-batch, hidden, tensor parallelism): a layer, the embedding, the head, and the weight
// update as offset and per layer; per (hidden, layers a stage, tensor, data, single stage): the
// gradient all-reduce. Messages take bytes / (12.5 GiB/s), vTrain's formula.
TEST(ScheduleOracle, ReproducesEveryRow) {
  if (!std::filesystem::exists(Table()))
    GTEST_SKIP() << Table() << " is absent; set FORETRACE_REALDATA";
  const auto rows = LoadMeasuredMappings(Table(), 51200, Recompute::kNone);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 920u);
  enum { kLayer, kEmbedding, kHead, kUpdate, kUpdateLayer, kReduce };
  Unknowns unknown;
  const auto keys = [&](const MeasuredMapping& r) {
    const ParallelMapping& m = r.mapping;
    std::array<size_t, 6> k{};
    for (int64_t what = 0; what < 5; ++what) {
      k[static_cast<size_t>(what)] = unknown({what, m.micro_batch, r.model.hidden, m.tensor, 0, 0});
    }
    if (m.data > 1) {
      k[kReduce] = unknown({kReduce, r.model.hidden, r.model.layers / m.pipeline, m.tensor, m.data,
                            m.pipeline == 1 ? 1 : 0});
    }
    return k;
  };
  const auto transfer_us = [](const MeasuredMapping& r) {
    return static_cast<double>(r.mapping.micro_batch * r.model.sequence * r.model.hidden * 2) /
           (12.5 * 1073741824.0) * 1e6;
  };
  // 1F1B whose last stage is the slowest: M times the last, once every other, messages there and
  // back.
  std::vector<std::map<size_t, double>> equations;
  std::vector<double> values;
  for (const MeasuredMapping& r : *rows) {
    const ParallelMapping& m = r.mapping;
    const auto k = keys(r);
    const double layers = static_cast<double>(r.model.layers) / m.pipeline;
    const double n = m.microbatches();
    std::map<size_t, double> e;
    e[k[kLayer]] += layers * (n + m.pipeline - 1);
    e[k[kHead]] += n;
    e[k[kEmbedding]] += m.pipeline == 1 ? n : 1;
    e[k[kUpdate]] += 1;
    e[k[kUpdateLayer]] += layers;
    if (m.data > 1) e[k[kReduce]] += 1;
    equations.push_back(e);
    values.push_back(r.measured.us() - 2 * (m.pipeline - 1) * transfer_us(r));
  }
  const std::vector<double> x = LeastSquares(equations, values, unknown.size());

  double worst = 0;
  for (const MeasuredMapping& r : *rows) {
    const ParallelMapping& m = r.mapping;
    const auto k = keys(r);
    const double layers = static_cast<double>(r.model.layers) / m.pipeline;
    TimedPipeline p;
    p.mini_batch = m.microbatches();
    const SimTime transfer = SimTime::FromUs(transfer_us(r));
    for (int32_t s = 0; s < m.pipeline; ++s) {
      double us = layers * x[k[kLayer]];
      if (s == 0) us += x[k[kEmbedding]];
      if (s + 1 == m.pipeline) us += x[k[kHead]];
      const SimTime both = SimTime::FromUs(us), forward = SimTime::FromUs(us / 3);
      p.stages.push_back({1,
                          KFKBSchedule(p.mini_batch, 1, std::min(p.mini_batch, m.pipeline - s)),
                          {forward},
                          {both - forward},
                          {}});
      if (s > 0) p.edges.push_back({s - 1, 0, s, 0, transfer, transfer});
    }
    const auto timing = TimePipeline(p);
    ASSERT_TRUE(timing.ok()) << timing.status();
    double us = timing->end.us() + x[k[kUpdate]] + layers * x[k[kUpdateLayer]];
    if (m.data > 1) us += x[k[kReduce]];
    worst = std::max(worst, std::abs(us - r.measured.us()));
    EXPECT_NEAR(us, r.measured.us(), 1.0) << r.name;
  }
  std::printf("920 rows from %zu coefficients, largest difference %.4f us\n", unknown.size(),
              worst);
  EXPECT_LT(unknown.size(), rows->size() / 3);
}

}  // namespace
}  // namespace foretrace
