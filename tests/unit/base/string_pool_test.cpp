#include "simulator/base/string_pool.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrace {
namespace {

TEST(StringPool, EqualTextsHaveEqualIdsInOrderOfFirstUse) {
  StringPool pool;
  EXPECT_EQ(pool.Intern(""), StringId(0));
  EXPECT_EQ(pool.Intern("gemm"), StringId(1));
  EXPECT_EQ(pool.Intern(std::string_view("a\0b", 3)), StringId(2));
  EXPECT_EQ(pool.Intern("gemm"), StringId(1));
  EXPECT_EQ(pool.Get(StringId(2)), std::string_view("a\0b", 3));
  EXPECT_EQ(pool.size(), 3u);
  EXPECT_EQ(pool.Find("gemm"), StringId(1));
  EXPECT_FALSE(pool.Find("gem").valid());
}

// Texts short and long, many enough for the index to grow.
TEST(StringPool, KeepsTextsWhereTheyAre) {
  StringPool pool;
  std::vector<std::string> texts;
  for (size_t n = 0; n < 200; ++n) texts.push_back(std::string(n, 'x'));
  for (int i = 0; i < 5'000; ++i) texts.push_back("layer" + std::to_string(i));
  std::vector<StringId> ids;
  for (const std::string& text : texts) ids.push_back(pool.Intern(text));
  const std::string_view early = pool.Get(ids[10]);
  const StringPool moved = std::move(pool);
  EXPECT_EQ(early.data(), moved.Get(ids[10]).data());
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(ids[i], StringId(static_cast<uint32_t>(i)));
    ASSERT_EQ(moved.Get(ids[i]), texts[i]);
    ASSERT_EQ(moved.Find(texts[i]), ids[i]);
  }
}

// The other pool's strings come in its order, after those that are there.
TEST(StringPool, InternsAnotherPool) {
  StringPool job;
  job.Intern("gemm");
  StringPool rank;
  rank.Intern("softmax");
  rank.Intern("gemm");
  rank.ReleaseSlack();
  const std::vector<StringId> ids = job.InternAll(rank);
  EXPECT_EQ(ids, (std::vector<StringId>{StringId(0), StringId(2), StringId(1)}));
  EXPECT_EQ(job.Get(StringId(2)), "softmax");
}

TEST(StringPool, GoesOnAfterReleasingSlack) {
  StringPool pool;
  for (int i = 0; i < 100; ++i) pool.Intern("op" + std::to_string(i));
  const size_t before = pool.bytes();
  pool.ReleaseSlack();
  EXPECT_LT(pool.bytes(), before);
  EXPECT_EQ(pool.Find("op41"), StringId(42));
  EXPECT_FALSE(pool.Find("op100").valid());
  EXPECT_EQ(pool.Intern("op41"), StringId(42));
  EXPECT_EQ(pool.Intern("op100"), StringId(101));
}

TEST(StringPoolDeathTest, AnIdOfNoStringIsADefect) {
  const StringPool pool;
  EXPECT_DEATH(pool.Get(StringId(7)), "");
}

}  // namespace
}  // namespace foretrace
