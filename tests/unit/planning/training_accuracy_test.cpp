// Measured jobs against predictions to which nothing was fitted, with the calibrations as shipped.

#include <gtest/gtest.h>

#include <filesystem>

#include "simulator/planning/mappings/training_validation.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

TrainingValidation Validate(const std::string& rows, bool fit_stacks = false) {
  MappingValidationOptions options;
  options.rows = rows;
  options.fit_stacks = fit_stacks;
  const auto result = ValidateTrainingRows(options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(TrainingValidation());
}

TEST(TrainingAccuracyTest, NemoOnH100) {
  const std::string rows = RealData("training_rows/dgxc_h100.csv");
  FORETRACE_SKIP_WITHOUT(rows);
  const TrainingValidation result = Validate(rows, true);
  EXPECT_EQ(result.summary.count, 145u);
  EXPECT_EQ(result.refused, 2u);  // a batch of 1,204 for 16 replicas
  EXPECT_LE(result.summary.mape_percent, 4.7);
  EXPECT_LE(result.fitted_summary.mape_percent, 5.05);
}

TEST(TrainingAccuracyTest, FsdpOnA100) {
  const std::string rows = RealData("training_rows/mosaicml_a100_40gb.csv");
  FORETRACE_SKIP_WITHOUT(rows);
  const TrainingValidation result = Validate(rows);
  EXPECT_EQ(result.summary.count, 78u);
  EXPECT_EQ(result.refused, 0u);
  EXPECT_LE(result.summary.mape_percent, 4.05);
}

TEST(TrainingAccuracyTest, TorchtitanOnH100) {
  const std::string rows = RealData("training_rows/torchtitan_llama_8b.csv");
  FORETRACE_SKIP_WITHOUT(rows);
  const TrainingValidation result = Validate(rows);
  EXPECT_EQ(result.refused, 0u);
  EXPECT_LE(result.summary.mape_percent, 5.65);
}

TEST(TrainingAccuracyTest, MegatronOnV100) {
  const std::string rows = RealData("training_rows/bloom_v100.csv");
  FORETRACE_SKIP_WITHOUT(rows);
  const TrainingValidation result = Validate(rows);
  EXPECT_LE(result.refused, 11u);  // degrees, layers that cannot have been run
  EXPECT_LE(result.summary.mape_percent, 22.5);
}

// Jobs from papers, which no number was set from (docs/mapping-accuracy.md).
TEST(TrainingAccuracyTest, JobsFromPapers) {
  const TrainingValidation result =
      Validate(std::string(FORETRACE_SOURCE_DIR) + "/tests/data/mappings/papers.csv");
  EXPECT_EQ(result.summary.count, 8u);
  EXPECT_EQ(result.refused, 0u);
  EXPECT_LE(result.summary.mape_percent, 8.8);
}

}  // namespace
}  // namespace foretrace
