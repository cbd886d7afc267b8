#include "simulator/base/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "simulator/base/json_writer.h"
#include "simulator/base/yaml.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Input, ATextWithoutItsByteOrderMark) {
  const TempFolder folder;
  std::ofstream((folder.path() + "/a")) << "\xEF\xBB\xBFtext";
  EXPECT_EQ(*ReadTextFile((folder.path() + "/a"), 100), "text");
}

TEST(Input, RefusesWhatIsNoTextFile) {
  const TempFolder folder;
  std::filesystem::create_directory((folder.path() + "/d"));
  std::ofstream((folder.path() + "/empty"));
  std::ofstream((folder.path() + "/utf16")) << "\xFF\xFEt";
  std::ofstream((folder.path() + "/gzip")) << std::string("\x1f\x8b\x08\x08\0\0\0\0", 8);
  std::ofstream((folder.path() + "/xz")) << std::string(
      "\xfd"
      "7zXZ\0\0",
      7);
  std::ofstream((folder.path() + "/zip")) << std::string("PK\x03\x04\0", 5);
  std::ofstream((folder.path() + "/large")) << std::string(2 << 20, 'x');
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  const auto error = [&](const std::string& path) {
    return Message(ReadTextFile(path, 1 << 20).status());
  };
  EXPECT_THAT(error((folder.path() + "/none")), HasSubstr("none: cannot be opened"));
  EXPECT_THAT(error((folder.path() + "/d")), HasSubstr("d: is a folder"));
  EXPECT_THAT(error((folder.path() + "/empty")), HasSubstr("empty: the file is empty"));
  EXPECT_THAT(error((folder.path() + "/utf16")), HasSubstr("UTF-16"));
  EXPECT_THAT(error((folder.path() + "/gzip")), HasSubstr("gzip: is compressed"));
  EXPECT_THAT(error((folder.path() + "/xz")), HasSubstr("xz -d it first"));
  EXPECT_THAT(error((folder.path() + "/zip")), HasSubstr("zip: is a zip archive"));
  EXPECT_THAT(error((folder.path() + "/large")), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(error((folder.path() + "/pipe")), HasSubstr("into which nothing writes"));
  EXPECT_THAT(error("/dev/zero"), HasSubstr("is a device"));
}

TEST(Input, LinesThatEndInCarriageReturns) {
  const TempFolder folder;
  std::ofstream((folder.path() + "/old")) << "a\rb\r";
  EXPECT_EQ(*ReadTextFile((folder.path() + "/old"), 100), "a\nb\n");
  std::ofstream((folder.path() + "/mixed")) << "a\rb\r\n";  // in a field, as it stands
  EXPECT_EQ(*ReadTextFile((folder.path() + "/mixed"), 100), "a\rb\r\n");
}

// The byte that tells whether there is a writer belongs to the text.
TEST(Input, ReadsAPipeWhole) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream((folder.path() + "/pipe")) << "through"; });
  EXPECT_EQ(*ReadTextFile((folder.path() + "/pipe"), 100), "through");
}

TEST(Input, Lines) {
  EXPECT_THAT(SplitLines("a\r\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_THAT(SplitLines("a\n"), ElementsAre("a"));
  EXPECT_THAT(SplitLines(""), ElementsAre());
}

TEST(Yaml, RefusesWhatTheParserLetsPass) {
  const auto error = [](const std::string& text) { return Message(ParseYaml(text, "f").status()); };
  EXPECT_THAT(error("a: {b: 1,\n b: 2}"), HasSubstr("f:2: 'b' is given twice"));
  EXPECT_THAT(error("a: " + std::string(5000, '[') + std::string(5000, ']')),
              HasSubstr("nested too deeply"));
  // Nine lists of nine aliases each: 9^9 values.
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'i'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) bomb += std::string(i > 0 ? ", *" : "*") + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(error(bomb), HasSubstr("aliases"));
  EXPECT_EQ(error("a: 1\nb: {a: 1}"), "");
}

TEST(JsonWriter, NumbersThatAreNoneAndBadText) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartArray();
  json.Double(std::nan(""));
  json.Double(HUGE_VAL);
  json.Double(0.5);
  json.String(
      "\xff"
      "a");
  json.EndArray();
  EXPECT_STREQ(buffer.GetString(), "[null,null,0.5,\"?a\"]");
}

}  // namespace
}  // namespace foretrace
