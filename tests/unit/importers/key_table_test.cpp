#include "simulator/importers/json/key_table.h"

#include <gtest/gtest.h>

#include <string>

namespace foretrace::json {
namespace {

TEST(KeyTable, FindsKnownKeysAndNoOthers) {
  // "ts" and "ph" share a length; "stream" and "strewm" length, first and last character.
  const KeyTable<int> table = {{"stream", 1}, {"ts", 2},   {"ph", 3},
                               {"strewm", 4}, {"args", 5}, {"In msg nelems", 6}};
  EXPECT_EQ(*table.Find("stream"), 1);
  EXPECT_EQ(*table.Find("ts"), 2);
  EXPECT_EQ(*table.Find("ph"), 3);
  EXPECT_EQ(*table.Find("strewm"), 4);
  EXPECT_EQ(*table.Find("args"), 5);
  EXPECT_EQ(*table.Find("In msg nelems"), 6);
  for (const char* unknown : {"", "t", "tz", "strexm", "In msg nelem", "In msg nelemss"}) {
    EXPECT_EQ(table.Find(unknown), nullptr) << unknown;
  }
  EXPECT_EQ(table.Find(std::string(1000, 's')), nullptr);
}

}  // namespace
}  // namespace foretrace::json
