// What rows note of communication of tensor parallelism that hides behind GEMMs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

std::string RowNoting(const std::string& framework, const std::string& note, int tensor = 2) {
  return "known,,,,,,,,16,H100,8," + std::to_string(tensor) + ",1," + std::to_string(16 / tensor) +
         ",1,,,1,,16,BF16,ZeRO-1,none," + framework + ",0,1,,," + note + "\n";
}

TrainingRow Read(const std::string& row, bool chunked_by_itself) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].chunked_tensor = chunked_by_itself;
  StackRelease native;
  native.sequence_parallel = native.per_parameter_sharding = true;
  stacks.push_back({"torchtitan", {"torchtitan"}, {native}, ""});
  return RowsOf(row, stacks).at(0);
}

TEST(TrainingRowOverlapTest, UserbuffersAsPeopleWriteThem) {
  for (const bool by_itself : {false, true}) {
    for (const char* note : {"async TP", "tp_comm_overlap", "tp_comm_overlap=True", "userbuffers",
                             "TP overlap", "TP comm overlap on", "TP communication overlap"}) {
      const TrainingRow row = Read(RowNoting("NeMo", note), by_itself);
      EXPECT_EQ(row.refused, "") << note;
      EXPECT_TRUE(row.mapping.chunked_tensor) << note;
      EXPECT_FALSE(row.mapping.async_tensor) << note;
      EXPECT_TRUE(row.mapping.sequence_parallel) << note;
    }
  }
}

TEST(TrainingRowOverlapTest, AsynchronousTensorParallelismIsPyTorchs) {
  for (const char* framework : {"torchtitan", "another"}) {
    for (const char* note : {"async TP", "torch.compile; async-TP", "Async tensor parallelism"}) {
      const TrainingRow row = Read(RowNoting(framework, note), false);
      EXPECT_EQ(row.refused, "") << note;
      EXPECT_TRUE(row.mapping.async_tensor) << note;
      EXPECT_FALSE(row.mapping.chunked_tensor) << note;
      // Input gradients behind weights' are another thing.
      EXPECT_EQ(row.mapping.overlap_tensor, row.family.empty()) << note;
    }
  }
}

// DeepSpeed's option for reductions, whatever the stack does by itself.
TEST(TrainingRowOverlapTest, ReductionsByOption) {
  for (const char* framework : {"NeMo", "torchtitan"}) {
    EXPECT_TRUE(Read(RowNoting(framework, "overlap_comm=true"), true).mapping.overlap_gradients);
    EXPECT_FALSE(Read(RowNoting(framework, "overlap_comm: false"), true).mapping.overlap_gradients);
    EXPECT_FALSE(Read(RowNoting(framework, "no overlap_comm"), true).mapping.overlap_gradients);
  }
  EXPECT_TRUE(Read(RowNoting("NeMo", "no tp_comm_overlap"), true).mapping.overlap_gradients);
}

TEST(TrainingRowOverlapTest, WhatIsSwitchedOff) {
  for (const char* note : {"no async TP", "tp_comm_overlap=False", "userbuffers off",
                           "without TP overlap", "TP overlap: disabled"}) {
    const TrainingRow row = Read(RowNoting("NeMo", note), true);
    EXPECT_EQ(row.refused, "") << note;
    EXPECT_FALSE(row.mapping.chunked_tensor) << note;
    EXPECT_FALSE(row.mapping.async_tensor) << note;
    EXPECT_TRUE(row.mapping.overlap_tensor) << note;  // of input gradients behind weights'
  }
  EXPECT_TRUE(Read(RowNoting("NeMo", "overlap of gradients"), true).mapping.chunked_tensor);
  EXPECT_FALSE(Read(RowNoting("NeMo", "overlap of gradients"), false).mapping.chunked_tensor);
}

// Where there is no tensor parallelism there is nothing to hide, and what hides is of sequence
// parallelism.
TEST(TrainingRowOverlapTest, WhatItNeeds) {
  const TrainingRow alone = Read(RowNoting("NeMo", "async TP", 1), false);
  EXPECT_EQ(alone.refused, "");
  EXPECT_FALSE(alone.mapping.chunked_tensor);
  const TrainingRow row = Read(RowNoting("Composer", "userbuffers"), false);
  EXPECT_EQ(row.refused, "");
  EXPECT_TRUE(row.mapping.sequence_parallel);
  EXPECT_THAT(row.notes, testing::ElementsAre(testing::HasSubstr("sequence parallelism")));
}

}  // namespace
}  // namespace foretrace
