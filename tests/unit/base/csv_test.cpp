#include "simulator/base/csv.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

TEST(Csv, QuotesWhatAReaderWouldTakeForMore) {
  EXPECT_EQ(CsvLineOf("plain", 1.5, 3, true), "plain,1.5,3,true\n");
  EXPECT_EQ(CsvLineOf("void f<128, 4>", "say \"a\"", "two\nlines"),
            "\"void f<128, 4>\",\"say \"\"a\"\"\",\"two\nlines\"\n");
}

TEST(Csv, ALoneEmptyFieldIsAField) {
  EXPECT_EQ(CsvLineOf(""), "\"\"\n");
  EXPECT_EQ(CsvLineOf("", ""), ",\n");
}

TEST(Csv, WhatIsWrittenIsReadAsItWas) {
  const std::vector<std::string> fields = {"a,b", "\"", "\"\"", "", "end ", " begin", ",", "x\"y"};
  std::string line = CsvLine(fields);
  line.pop_back();
  EXPECT_EQ(SplitCsvLine(line), fields);
  const std::vector<std::string> last = {"x", "end "};
  line = CsvLine(last);
  line.pop_back();
  EXPECT_EQ(SplitCsvLine(line), last);
}

}  // namespace
}  // namespace foretrace
