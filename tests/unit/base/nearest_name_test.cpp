#include "simulator/base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace foretrace {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("predict", "predict"), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("predct", "predict"), 1u);    // one left out
  EXPECT_EQ(EditDistance("preddict", "predict"), 1u);  // one too many
  EXPECT_EQ(EditDistance("predikt", "predict"), 1u);   // another one
  EXPECT_EQ(EditDistance("predict", "predict"), 0u);
  EXPECT_EQ(EditDistance("perdict", "predict"), 1u);  // two swapped
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("sitting", "kitten"), 3u);
}

TEST(NearestName, IsTheOneMeantOrNone) {
  const std::vector<std::string> names = {"inspect", "predict", "convert"};
  EXPECT_EQ(NearestName("predct", names), "predict");
  EXPECT_EQ(NearestName("perdict", names), "predict");
  EXPECT_EQ(NearestName("insepct", names), "inspect");
  EXPECT_EQ(NearestName("simulate", names), "");
  EXPECT_EQ(NearestName(std::string(1'000'000, 'x'), names), "");
  // Both are two away, a third of six: the first.
  EXPECT_EQ(NearestName("abcdef", std::vector<std::string>{"abcdxx", "xxcdef"}), "abcdxx");
}

}  // namespace
}  // namespace foretrace
