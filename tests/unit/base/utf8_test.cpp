#include "simulator/base/utf8.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

TEST(ValidUtf8, KeepsWellFormedText) {
  for (const char* text : {"", "plain", "ä", "€", "𝐿", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ValidUtf8(text), text);
  }
}

TEST(ValidUtf8, ReplacesTheRest) {
  EXPECT_EQ(ValidUtf8("a\x80z"), "a?z");             // continuation alone
  EXPECT_EQ(ValidUtf8("a\xc3"), "a?");               // cut short
  EXPECT_EQ(ValidUtf8("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(ValidUtf8("\xe0\x80\xaf"), "???");       // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"), "????");  // past U+10FFFF
}

TEST(OneLine, ReplacesControlCharacters) {
  EXPECT_EQ(OneLine("a\nb\tc\x7f\xc3\xa9\x80"), "a?b?c?\xc3\xa9?");
  EXPECT_EQ(Excerpt("aten::\nmm", 7), "aten::?");
  EXPECT_EQ(Excerpt("\xc3\xa9", 1), "?");  // cut within a character
  EXPECT_EQ(OneLine("a\xc2\x9b"
                    "31m\xc2\xa0z"),
            "a?31m\xc2\xa0z");  // C1, and a space of two bytes
}

TEST(ByteOrderMark, IsRemovedOnce) {
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBF\xEF\xBB\xBFx"), "\xEF\xBB\xBFx");
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB"), "\xEF\xBB");
  std::string text = "\xEF\xBB\xBF";
  RemoveByteOrderMark(text);
  EXPECT_EQ(text, "");
  text = "key";
  RemoveByteOrderMark(text);
  EXPECT_EQ(text, "key");
}

}  // namespace
}  // namespace foretrace
