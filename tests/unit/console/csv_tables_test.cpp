#include "simulator/console/csv_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "simulator/base/input.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

std::map<std::string, std::string> Tables(const std::string& document) {
  std::map<std::string, std::string> tables;
  for (const CsvTable& table : CsvTables("predict", document)) {
    EXPECT_TRUE(tables.emplace(table.name, table.text).second) << table.name;
  }
  return tables;
}

TEST(CsvTables, SingleValuesAreOneRow) {
  const auto tables = Tables(R"({"command":"predict","time_us":12.50,"step":{"n":1,"whole":true},
                                 "none":null,"big":12345678901234567890})");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables.at("predict"),
            "command,time_us,step.n,step.whole,none,big\n"
            "predict,12.50,1,true,,12345678901234567890\n");
}

TEST(CsvTables, ListsOfObjectsAreTablesWithTheColumnsOfAllTheirRows) {
  const auto tables = Tables(R"({"ops":[{"name":"a,b","us":1},{"name":"q\"x","share":0.5,
                                 "dims":[2,3],"by":{"k":7}}],"of":{"ops":[{"x":1}]}})");
  EXPECT_EQ(tables.at("ops"),
            "name,us,share,dims,by.k\n"
            "\"a,b\",1,,,\n"
            "\"q\"\"x\",,0.5,2; 3,7\n");
  EXPECT_EQ(tables.at("of.ops"), "x\n1\n");
}

TEST(CsvTables, ListsWithinRowsSayWhoseTheyAre) {
  const auto tables = Tables(R"({"ranks":[{"rank":4,"steps":[{"us":1},{"us":2}]},
                                           {"rank":5,"steps":[{"us":3}]}],
                                 "notes":["one; two","three"]})");
  EXPECT_EQ(tables.at("ranks"), "rank\n4\n5\n");
  EXPECT_EQ(tables.at("ranks.steps"), "ranks[],us\n0,1\n0,2\n1,3\n");
  EXPECT_EQ(tables.at("notes"), "notes\none; two\nthree\n");
}

TEST(CsvTables, KeysOfAnyTextBecomeNamesOfFiles) {
  const auto tables = Tables(R"({"../x":[{"a":1}],"__.x":[{"a":2}],".._x":[{"a":3}]})");
  EXPECT_EQ(tables.size(), 4u);
  for (const auto& [name, text] : tables) {
    EXPECT_EQ(name.find('/'), std::string::npos);
    EXPECT_NE(name.front(), '.');
  }
}

TEST(CsvTables, FilesOfOneFolder) {
  const TempFolder temporary;
  const std::string folder = temporary.path() + "/tables";
  const std::string document = R"({"a":1,"rows":[{"b":2}]})";
  ASSERT_TRUE(WriteCsvTables("calibrate serving", document, folder, {}).ok());
  const auto text = ReadTextFile(folder + "/rows.csv", 100);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "b\n2\n");
  EXPECT_TRUE(std::filesystem::exists(folder + "/calibrate_serving.csv"));
  ProtectedFiles inputs;
  inputs.Add(folder + "/rows.csv");
  const absl::Status status = WriteCsvTables("predict", document, folder, inputs);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rows.csv"));
}

}  // namespace
}  // namespace foretrace
