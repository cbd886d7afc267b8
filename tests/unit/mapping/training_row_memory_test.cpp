// Memory of rows: GiB is not GB, which is 7 % less.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainingRow RowWith(const std::string& columns, const std::string& values) {
  const TempFolder folder;
  const std::string path = folder.path() + "/memory.csv";
  std::ofstream(path) << "model,gpus,gpu,micro_batch,global_batch,precision,framework,step_s,"
                      << columns << "\nknown,2,H100,1,2,BF16,NeMo,1," << values << "\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  EXPECT_TRUE(rows.ok()) << rows.status();
  return rows.ok() ? rows->at(0) : TrainingRow();
}

TEST(TrainingRowMemoryTest, UnitsOfColumnsAndOfNumbers) {
  struct Case {
    const char *column, *value;
    double gib;
  };
  const Case cases[] = {{"memory_GiB", "60", 60},
                        {"Memory (GiB)", "60.5", 60.5},
                        {"peak", "60", 0},
                        {"memory_MiB", "61440", 60},
                        {"memory_bytes", "64424509440", 60},
                        {"memory_GB", "60 GiB", 60},
                        {"memory_GB", "\"61,440 MiB\"", 60},
                        {"memory_GiB", "60 GB", 60},
                        {"memory", "60GiB", 60}};
  for (const Case& c : cases) {
    const TrainingRow row = RowWith(c.column, c.value);
    EXPECT_EQ(row.refused, "") << c.column;
    EXPECT_NEAR(row.memory_gib.value_or(0), c.gib, 1e-9) << c.column << " " << c.value;
    EXPECT_FALSE(row.assumed_gib) << c.column;
    const bool unread = c.column == std::string("peak");
    EXPECT_EQ(row.notes.empty(), !unread) << c.column << " " << c.value;
  }
}

// As torchtitan's table means it, and BLOOM's, whose cards of 32 GB (31.75 GiB) are said to be full
// at 32; the row says so.
TEST(TrainingRowMemoryTest, GigabytesOfTools) {
  for (const auto& [column, value] : {std::pair("memory_GB", "60"), std::pair("memory_GB", "60 GB"),
                                      std::pair("memory_MB", "61440"), std::pair("memory", "60 GB"),
                                      std::pair("memory_gb", "60.0")}) {
    const TrainingRow row = RowWith(column, value);
    EXPECT_EQ(row.memory_gib, 60) << column;
    EXPECT_TRUE(row.assumed_gib) << column;
    EXPECT_THAT(row.notes, ElementsAre(HasSubstr("is taken for GiB"))) << column;
  }
  const TrainingRow row = RowWith("memory_reserved_GB,memory_GiB", "70,60");
  EXPECT_EQ(row.memory_gib, 60);
  EXPECT_EQ(row.reserved_gib, 70);
  EXPECT_THAT(row.notes, ElementsAre(HasSubstr("memory_reserved_gb '70' is taken for GiB")));
}

TEST(TrainingRowMemoryTest, SeveralColumns) {
  // 64.4 GB and 60 GiB are one amount, and so are 60 GB of a tool's.
  for (const char* values : {"64.4,60", "60,60"}) {
    const TrainingRow row = RowWith("memory_GB,memory_GiB", values);
    EXPECT_EQ(row.refused, "") << values;
    EXPECT_EQ(row.memory_gib, 60) << values;
    EXPECT_FALSE(row.assumed_gib) << values;
  }
  EXPECT_THAT(RowWith("memory_GB,memory_GiB", "70,60").refused,
              HasSubstr("memory_gib '60' and memory_gb '70' contradict one another"));
  EXPECT_THAT(RowWith("memory_MiB,memory_GiB", "60000,60").refused, HasSubstr("contradict"));
}

TEST(TrainingRowMemoryTest, WhatIsNoAmountIsSaid) {
  for (const auto& [column, value] :
       {std::pair("memory_GB", "a lot"), std::pair("memory_GB", "60 %"), std::pair("memory", "60"),
        std::pair("memory_GiB", "-3")}) {
    const TrainingRow row = RowWith(column, value);
    EXPECT_EQ(row.refused, "");
    EXPECT_FALSE(row.memory_gib) << value;
    EXPECT_THAT(row.notes, ElementsAre(HasSubstr("is not judged"))) << value;
  }
}

}  // namespace
}  // namespace foretrace
