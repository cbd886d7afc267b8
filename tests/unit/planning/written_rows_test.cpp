// A table of jobs as people write them, none of which was run: all are judged, and none with
// numbers that no device reaches.

#include <gtest/gtest.h>

#include <fstream>

#include "simulator/planning/mappings/training_validation.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

TrainingValidation Validate(const std::string& file) {
  MappingValidationOptions options;
  options.rows = file;
  const auto result = ValidateTrainingRows(options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(TrainingValidation());
}

TEST(WrittenRowsTest, AreAllJudged) {
  const TrainingValidation result =
      Validate(std::string(FORETRACE_SOURCE_DIR) + "/tests/data/mappings/written_rows.csv");
  EXPECT_EQ(result.rows.size(), 34u);
  for (const JudgedRow& judged : result.rows) {
    EXPECT_EQ(judged.row.refused, "") << judged.row.name;
    EXPECT_GT(judged.predicted, SimTime()) << judged.row.name;
    // A run fits, but for what software keeps less than is predicted.
    EXPECT_LT(judged.memory_gib, 1.25 * judged.device_gib) << judged.row.name;
  }
}

// Six micro-batches on four stages of five chunks, between four and eight.
TEST(WrittenRowsTest, GroupsThatAreNotWhole) {
  const TempFolder folder;
  const std::string path = folder.path() + "/groups.csv";
  const auto seconds = [&](int batch) {
    std::ofstream(path) << "model,seq,gpus,gpu,tp,pp,vp,micro_batch,global_batch,precision,"
                           "framework,step_s\nllama3-70b,8192,32,H200,8,4,5,1,"
                        << batch << ",bf16,NeMo,1\n";
    const TrainingValidation result = Validate(path);
    EXPECT_EQ(result.rows.at(0).row.refused, "");
    return result.rows.at(0).predicted.seconds();
  };
  EXPECT_NEAR(seconds(6), (seconds(4) + seconds(8)) / 2, 1e-9);
}

}  // namespace
}  // namespace foretrace
