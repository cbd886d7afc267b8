// A table of jobs as people write them, none of which was run: all are judged, and none with
// numbers that no device reaches.

#include <gmock/gmock.h>
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
  EXPECT_EQ(result.rows.size(), 47u);
  for (const JudgedRow& judged : result.rows) {
    EXPECT_EQ(judged.row.refused, "") << judged.row.name;
    EXPECT_GT(judged.predicted, SimTime()) << judged.row.name;
    // A run fits, but for what software keeps less than is predicted.
    EXPECT_LT(judged.memory_gib, 1.25 * judged.device_gib) << judged.row.name;
  }
}

// Of 79.2 GiB the context and NCCL's buffers take 2 (mapping/reserved_memory.h).
TEST(WrittenRowsTest, OverflowsWithWhatIsBesideTheAllocator) {
  JudgedRow judged;
  judged.device_gib = 79.2;
  judged.reserved_gib = 77.1;
  EXPECT_FALSE(judged.overflows());
  judged.reserved_gib = 77.3;
  EXPECT_TRUE(judged.overflows());
  judged.device_gib = 0;
  EXPECT_FALSE(judged.overflows());
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

// Undated software is no older than the model; what differs from the row, or cannot have been, is
// noted; models cut below their dense layers are judged.
TEST(WrittenRowsTest, WhatRowsLeaveOpen) {
  using testing::Contains;
  using testing::HasSubstr;
  const TempFolder folder;
  const std::string path = folder.path() + "/open.csv";
  std::ofstream(path) << "model,layers,seq,gpus,gpu,gpus_per_node,ep,micro_batch,global_batch,"
                         "precision,framework,sharding,step_s\n"
                         "llama3-8b,,4096,8,H100,,,1,8,bf16,Megatron-LM,ZeRO-1,1\n"
                         "gpt3-1.3b,,2048,8,H100,,,1,8,bf16,Megatron-LM,ZeRO-1,1\n"
                         "llama3-8b,,4096,16,H100,4,,1,16,bf16,NeMo,,1\n"
                         "llama3-70b,,4096,8,H100,,,1,8,bf16,NeMo,DDP,1\n"
                         "deepseek-v3,2,4096,8,B200,,,1,8,bf16,Megatron-Core,ZeRO-1,1\n"
                         "deepseek-v3,2,4096,8,B200,,8,1,8,bf16,Megatron-Core,ZeRO-1,1\n"
                         "deepseek-v3,4,4096,8,B200,,8,1,8,bf16,Megatron-Core,ZeRO-1,1\n"
                         "gpt3-1.3b,,2048,8,A100,,,1,8,bf16,Megatron-LM,ZeRO-1,1\n";
  const TrainingValidation result = Validate(path);
  const auto row = [&](size_t i) { return result.rows.at(i).row; };
  EXPECT_EQ(row(0).release, "2024");
  EXPECT_THAT(row(0).notes, Contains(HasSubstr("as of 2024")));
  // GPT-3 is of 2020, an H100 is not.
  EXPECT_EQ(row(1).release, "2022");
  EXPECT_THAT(row(1).notes, Contains(HasSubstr("as of 2022-10, when there were such devices")));
  EXPECT_EQ(row(7).release, "");
  EXPECT_THAT(row(2).notes, Contains(HasSubstr("nodes of 4 devices are taken to be of 8")));
  EXPECT_THAT(row(3).notes, Contains(HasSubstr("that a device has, in which it ran")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("ran though the tensors are predicted")));
  EXPECT_EQ(row(4).refused, "");
  EXPECT_EQ(row(4).family, "megatron-lm");
  EXPECT_THAT(row(5).refused, HasSubstr("all 2 layers are dense"));
  EXPECT_EQ(row(6).refused, "");
}

// What nobody knows is said in the report, not in rows' notes alone; a month before its year is no
// release before all.
TEST(WrittenRowsTest, WhatIsNotUnderstood) {
  using testing::Contains;
  using testing::HasSubstr;
  const TempFolder folder;
  const std::string path = folder.path() + "/unread.csv";
  std::ofstream(path) << "model,seq,gpus,gpu,tp,micro_batch,global_batch,precision,framework,"
                         "sharding,recompute,date,step_s\n"
                         "llama3-8b,4096,8,H100,2,1,8,bf16,Megatron-LM,ZeRO-9,none,2025-01,1\n"
                         "llama3-8b,4096,8,H100,2,1,8,bf16,Megatron-LM,ZeRO-9,sometimes,01/2025,1\n"
                         "llama3-8b,4096,8,H100,2,1,8,bf16,Megatron-LM,ZeRO-1,none,2025-13,1\n";
  const TrainingValidation result = Validate(path);
  EXPECT_EQ(result.rows.at(1).row.release, "2025");
  EXPECT_EQ(result.rows.at(2).row.release, "2024");  // as of the model
  EXPECT_THAT(result.notes,
              Contains(HasSubstr("unread.csv:2 and 1 more: sharding 'ZeRO-9' is none")));
  EXPECT_THAT(result.notes,
              Contains(HasSubstr("unread.csv:3: recompute 'sometimes' is taken for")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("unread.csv:4: date '2025-13' is none")));
}

// An A100 has no GEMMs in 8 bits, as searches say too.
TEST(WrittenRowsTest, EightBitsOnADeviceWithout) {
  const TempFolder folder;
  const std::string path = folder.path() + "/eight.csv";
  std::ofstream(path) << "model,seq,gpus,gpu,micro_batch,global_batch,precision,framework,sharding,"
                         "step_s\n"
                         "llama3-8b,4096,8,A100,1,8,fp8,torchtitan,FSDP,1\n"
                         "llama3-8b,4096,8,H100,1,8,fp8,torchtitan,FSDP,1\n"
                         "llama3-8b,4096,8,A100,1,8,mxfp8,torchtitan,FSDP,1\n";
  const TrainingValidation result = Validate(path);
  EXPECT_THAT(result.rows.at(0).row.refused, testing::HasSubstr("states no fp8 rate"));
  EXPECT_EQ(result.rows.at(1).row.refused, "");
  EXPECT_THAT(result.rows.at(2).row.refused, testing::HasSubstr("16 bits would do"));
}

}  // namespace
}  // namespace foretrace
