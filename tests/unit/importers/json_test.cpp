#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "simulator/importers/json/reader.h"
#include "simulator/importers/json/tape.h"
#include "simulator/importers/json/text.h"

namespace foretrace::json {
namespace {

TEST(ParseMicroseconds, IsExactWhereADoubleIsNot) {
  // 19 significant digits; a double holds 15 to 17.
  const auto time = ParseMicroseconds("1682725898236567.123");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->us, 1682725898236567);
  EXPECT_EQ(time->ps, 123000);
}

TEST(ParseMicroseconds, ReadsEveryNotation) {
  const auto expect = [](std::string_view text, int64_t us, int32_t ps) {
    const auto time = ParseMicroseconds(text);
    ASSERT_TRUE(time) << text;
    EXPECT_EQ(time->us, us) << text;
    EXPECT_EQ(time->ps, ps) << text;
  };
  expect("0", 0, 0);
  expect("12", 12, 0);
  expect("1.5e3", 1500, 0);
  expect("1.712402348256123e+15", 1712402348256123, 0);
  expect("25e-7", 0, 2);        // 2.5 ps, cut off
  expect("0.0000019", 0, 1);    // decimals past the picosecond are cut off
  expect("-0.25", -1, 750000);  // -1 us + 0.75 us
  expect("-3", -3, 0);
  expect("0e300", 0, 0);
}

TEST(ParseMicroseconds, RefusesWhatIsNoTime) {
  for (const std::string_view text : {"", "NaN", "inf", "abc", "1x", "1e", "1e999", "1e30", "-",
                                      "99999999999999999999999999999999999999999999"}) {
    EXPECT_FALSE(ParseMicroseconds(text)) << text;
  }
}

TEST(ParseInteger, ReadsIdsOfAllKinds) {
  EXPECT_EQ(ParseInteger("42"), 42);
  EXPECT_EQ(ParseInteger("-1"), -1);
  EXPECT_EQ(ParseInteger("18446744073709551615"), -1);  // as a 64-bit id wraps in C
  EXPECT_EQ(ParseInteger("0x1f"), 31);
  EXPECT_EQ(ParseInteger("7.0"), 7);
  EXPECT_EQ(ParseInteger("-7.0"), -7);
  for (const std::string_view text :
       {"", "7.5", "-7.5", "a", "0x", "0xg", "18446744073709551616"}) {
    EXPECT_FALSE(ParseInteger(text)) << text;
  }
}

TEST(ParseIntegerList, RefusesListsCutShort) {
  EXPECT_EQ(ParseIntegerList("[0, 1, 2]"), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(ParseIntegerList("[]"), std::vector<int64_t>());
  EXPECT_FALSE(ParseIntegerList("[0, 1, ..., 63]"));
}

TEST(IsValidUtf8, FollowsRfc3629) {
  EXPECT_TRUE(IsValidUtf8("aten::add \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"));
  EXPECT_FALSE(IsValidUtf8("\xC3"));
  EXPECT_FALSE(IsValidUtf8("\xC0\x80"));          // overlong
  EXPECT_FALSE(IsValidUtf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(IsValidUtf8("\xF5\x80\x80\x80"));  // past U+10FFFF
  EXPECT_FALSE(IsValidUtf8("\xFF"));
}

// Hands out the bytes in pieces of a given size.
class PieceSource : public ByteSource {
 public:
  PieceSource(std::string_view bytes, size_t piece)
      : ByteSource("pieces.json"), bytes_(bytes), piece_(piece) {}

 protected:
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    const size_t count = std::min({capacity, piece_, bytes_.size()});
    std::copy_n(bytes_.data(), count, buffer);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
  size_t piece_;
};

// Writes down what it is told.
class Recorder : public Handler {
 public:
  explicit Recorder(Reader& reader) : reader_(reader) {}
  bool Key(std::string_view key) override {
    log += "k(" + std::string(key) + ")";
    if (key == "skip") reader_.SkipValue();
    return true;
  }
  bool String(std::string_view text) override { return Log("s(" + std::string(text) + ")"); }
  bool Literal(std::string_view text) override { return Log("l(" + std::string(text) + ")"); }
  bool StartObject() override { return Log("{"); }
  bool EndObject() override { return Log("}"); }
  bool StartArray() override { return Log("["); }
  bool EndArray() override { return Log("]"); }
  const absl::Status& status() const override { return status_; }
  std::string log;

 private:
  bool Log(const std::string& text) {
    log += text;
    return true;
  }
  Reader& reader_;
  absl::Status status_;
};

std::pair<absl::Status, std::string> ParseInPieces(std::string_view text, size_t piece) {
  PieceSource source(text, piece);
  Reader reader(source);
  Recorder recorder(reader);
  const absl::Status status = reader.Parse(recorder);
  return {status, recorder.log};
}

TEST(Reader, GivesTheSameEventsWhateverThePieces) {
  const std::string text =
      R"( {"a": [1, -2.5e+3, true, null, "x\"\\\u00e9\ud83d\ude00\n"], "skip": {"b": ["}", "\\"]},)"
      R"( "skip": "a long \" string", "skip": 12, "c": {}, "d": [[], {}]} )";
  const std::string expected =
      "{k(a)[l(1)l(-2.5e+3)l(true)l(null)s(x\"\\\xC3\xA9\xF0\x9F\x98\x80\n)]k(skip)k(skip)k(skip)"
      "k(c){}k(d)[[]{}]}";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    const auto [status, log] = ParseInPieces(text, piece);
    EXPECT_TRUE(status.ok()) << status << " in pieces of " << piece;
    EXPECT_EQ(log, expected) << "in pieces of " << piece;
  }
}

TEST(Reader, EveryPrefixIsTruncated) {
  const std::string text = R"({"a": [1, "two"], "skip": {"x": "y"}, "b": false})";
  for (size_t length = 0; length < text.size(); ++length) {
    const auto [status, log] = ParseInPieces(std::string_view(text).substr(0, length), 3);
    ASSERT_FALSE(status.ok()) << length;
    // Cutting a literal short may leave one that is none.
    if (status.message().find("invalid value") != std::string_view::npos) continue;
    EXPECT_EQ(std::string(status.message()), "pieces.json: truncated at byte " +
                                                 std::to_string(length) +
                                                 ": the JSON document does not end");
  }
}

TEST(Reader, NamesByteAndCause) {
  const auto expect = [](std::string_view text, std::string_view message) {
    const auto [status, log] = ParseInPieces(text, 1000);
    EXPECT_EQ(std::string(status.message()), message) << text;
  };
  expect("{\"a\" 1}", "pieces.json: not valid JSON at byte 5: a ':' is missing after a key");
  expect("{\"a\": NaN}", "pieces.json: not valid JSON at byte 6: NaN is no JSON number");
  expect("{\"a\": 01}", "pieces.json: not valid JSON at byte 6: an invalid value");
  expect("[1 2]", "pieces.json: not valid JSON at byte 3: a ',' is missing");
  expect("[1]x", "pieces.json: not valid JSON at byte 3: bytes after the end of the document");
  expect("[1}", "pieces.json: not valid JSON at byte 2: an unexpected '}'");
  expect("{1}", "pieces.json: not valid JSON at byte 1: a key is missing");
  expect("[\"a\nb\"]",
         "pieces.json: not valid JSON at byte 3: a control character within a string");
  expect("[\"\\q\"]", "pieces.json: not valid JSON at byte 3: an unknown escape");
  expect("[\"\\u12g4\"]", "pieces.json: not valid JSON at byte 3: a damaged \\u escape");
  expect(std::string(201, '['),
         "pieces.json: not valid JSON at byte 200: nested deeper than 200 "
         "levels");
  expect("{\"skip\": " + std::string(300, '['),
         "pieces.json: not valid JSON at byte 208: nested deeper than 200 levels");
}

TEST(Reader, KeepsLongStringsWhole) {
  const std::string body(3 << 20, 'x');
  const auto [status, log] = ParseInPieces("[\"" + body + "\"]", 1 << 20);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(log, "[s(" + body + ")]");
}

TEST(Tape, FindsMembersAndElements) {
  Tape tape;  // {"a": [1, {"b": "x"}], "c": 2}
  tape.Open(Tape::Kind::kObject);
  tape.Add(Tape::Kind::kKey, "a");
  tape.Open(Tape::Kind::kArray);
  tape.Add(Tape::Kind::kLiteral, "1");
  tape.Open(Tape::Kind::kObject);
  tape.Add(Tape::Kind::kKey, "b");
  tape.Add(Tape::Kind::kString, "x");
  tape.Close();
  tape.Close();
  tape.Add(Tape::Kind::kKey, "c");
  tape.Add(Tape::Kind::kLiteral, "2");
  tape.Close();
  EXPECT_EQ(tape.depth(), 0u);
  EXPECT_EQ(tape.Text(tape.Member(Tape::kRoot, "c")), "2");
  EXPECT_EQ(tape.Member(Tape::kRoot, "b"), Tape::kNone);
  const Tape::Ref list = tape.Member(Tape::kRoot, "a");
  ASSERT_EQ(tape.Count(list), 2u);
  EXPECT_EQ(tape.Text(tape.First(list)), "1");
  const Tape::Ref second = tape.Next(list, tape.First(list));
  EXPECT_EQ(tape.Text(tape.Member(second, "b")), "x");
  EXPECT_EQ(tape.Next(list, second), Tape::kNone);
}

}  // namespace
}  // namespace foretrace::json
