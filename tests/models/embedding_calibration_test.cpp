// The shipped calibrations of lookups against the public traces that they were fitted to.

#include <gtest/gtest.h>

#include <filesystem>

#include "simulator/calibrate/calibrate.h"
#include "simulator/calibrate/embedding/embedding_fitter.h"
#include "simulator/calibrate/embedding/trace_lookups.h"
#include "simulator/importers/import.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

std::string Shipped(const std::string& platform) {
  return std::string(FORETRACE_SOURCE_DIR) + "/calibration/" + platform + "/embedding.yaml";
}

absl::StatusOr<BenchmarkTable> Extract(const std::vector<std::string>& paths) {
  ImportOptions options;
  options.jobs = 1;
  auto store = ImportTraces(paths, options);
  if (!store.ok()) return store.status();
  return LookupTable(*store, "trace");
}

// The file says what it predicts its own rows with.
void ExpectErrorsOf(const std::string& platform, const BenchmarkTable& table) {
  const auto loaded = LoadEmbeddingModels(Shipped(platform));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->header.in_sample && loaded->header.held_out);
  ASSERT_FALSE(loaded->header.sources.empty());
  for (const auto& source : loaded->header.sources) {
    EXPECT_TRUE(source.contains("source") && source.contains("commit") &&
                source.contains("licence") && source.contains("trace"));
  }
  CalibrateOptions options;
  options.calibration = Shipped(platform);
  options.made_test_tables = {table};
  const auto report = RunCalibrate(EmbeddingFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  const ErrorSummary& errors = report->models.back().errors;
  EXPECT_EQ(errors.count, loaded->header.in_sample->count);
  EXPECT_NEAR(errors.mape_percent, loaded->header.in_sample->mape_percent, 0.01);
  EXPECT_EQ(report->models.back().extrapolated_count, 0u);
}

TEST(ShippedEmbeddingCalibration, OfV100) {
  const std::string kineto = RealData("param-et_replay/dlrm_kineto.tar.gz");
  if (!std::filesystem::exists(kineto)) GTEST_SKIP() << kineto << " is not there";
  const auto table = Extract({kineto, RealData("param-et_replay/dlrm_pytorch_et.tar.gz")});
  ASSERT_TRUE(table.ok()) << table.status();
  // 8 ranks x (sharded and copied lookups) x (forward, backward, sort).
  EXPECT_EQ(table->rows.size(), 48u);
  // Rank 3: 13,312 indices for 3 tables of 128 samples, 640,209,296 weights of 48 columns.
  const auto row = std::find_if(table->rows.begin(), table->rows.end(), [](const BenchmarkRow& r) {
    return r.source.find("rank=3 ") != std::string::npos;
  });
  ASSERT_NE(row, table->rows.end());
  EXPECT_EQ(row->shape.Int("tables"), 3);
  EXPECT_EQ(row->shape.Int("b"), 128);
  EXPECT_EQ(row->shape.Text("d"), "16");
  EXPECT_EQ(row->time_us, 66);
  EXPECT_EQ(row->platform, "v100-sxm2-32gb");
  ExpectErrorsOf("v100-sxm2-nvlink", *table);
}

TEST(ShippedEmbeddingCalibration, OfA100) {
  const std::string trace = RealData("hta-traces/trace_diff/control");
  if (!std::filesystem::exists(trace)) GTEST_SKIP() << trace << " is not there";
  const auto table = Extract({trace});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows.size(), 36u);  // 6 steps x (122 tables, 1 table) x 3
  ExpectErrorsOf("a100-sxm4-nvswitch", *table);
}

}  // namespace
}  // namespace foretrace
