#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "simulator/importers/io/input_file.h"
#include "tests/support/archives.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> ReadAll(ByteSource& source) {
  std::string text;
  while (true) {
    auto chunk = source.Next();
    if (!chunk.ok()) return chunk.status();
    if (chunk->empty()) return text;
    text += *chunk;
  }
}

// Names and contents of all documents, or the first error.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ReadDocuments(
    const std::string& path, const std::string& inside = "", const InputLimits& limits = {}) {
  auto file = InputFile::Open(path, limits, inside);
  if (!file.ok()) return file.status();
  std::vector<std::pair<std::string, std::string>> documents;
  while (true) {
    auto document = (*file)->NextDocument();
    if (!document.ok()) return document.status();
    if (*document == nullptr) return documents;
    auto text = ReadAll(**document);
    if (!text.ok()) return text.status();
    documents.emplace_back((*document)->name(), *text);
  }
}

std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Longer than a chunk, and of little redundancy in its period.
std::string LongText(size_t size = ByteSource::kChunk + 1000) {
  std::string text;
  for (int i = 0; text.size() < size; ++i) text += std::to_string(i * 2654435761u);
  return text;
}

TEST(InputFile, ReadsPlainAndCompressedAlike) {
  const TempFolder folder;
  const std::string text = LongText();
  const std::string plain = folder.Write("a.json", text);
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kXz, Compression::kZstd}) {
    const std::string path = compression == Compression::kNone ? plain : folder.path() + "/a.bin";
    if (compression != Compression::kNone) WriteCompressed(path, text, compression);
    const auto documents = ReadDocuments(path);
    ASSERT_TRUE(documents.ok()) << documents.status();
    ASSERT_EQ(documents->size(), 1u);
    EXPECT_EQ((*documents)[0].first, path);
    EXPECT_EQ((*documents)[0].second, text);
  }
}

TEST(InputFile, ReadsTheRegularMembersOfATar) {
  const TempFolder folder;
  const std::string gz = folder.path() + "/inner.gz";
  WriteCompressed(gz, "inner text", Compression::kGzip);
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kXz}) {
    const std::string path = folder.path() + "/t.tar";
    WriteTar(path,
             {{"d/", ""},
              {"d/rank1.json", "one"},
              {"d/._rank1.json", "resource fork"},
              {"__MACOSX/x", "y"},
              {".hidden", "z"},
              {"d/rank0.json.gz", Slurp(gz)}},
             compression);
    const auto documents = ReadDocuments(path);
    ASSERT_TRUE(documents.ok()) << documents.status();
    const std::vector<std::pair<std::string, std::string>> expected = {
        {path + ":d/rank1.json", "one"}, {path + ":d/rank0.json.gz", "inner text"}};
    EXPECT_EQ(*documents, expected);
  }
}

TEST(InputFile, ReadsTheRegularMembersOfAZip) {
  const TempFolder folder;
  const std::string path = folder.path() + "/t.zip";
  const std::string text(100000, 'x');
  WriteZip(path, {{"d/", ""}, {"d/rank1.json", "one"}, {".hidden", "z"}, {"d/rank0.json", text}});
  const auto documents = ReadDocuments(path);
  ASSERT_TRUE(documents.ok()) << documents.status();
  const std::vector<std::pair<std::string, std::string>> expected = {
      {path + ":d/rank1.json", "one"}, {path + ":d/rank0.json", text}};
  EXPECT_EQ(*documents, expected);
  const std::string cut = folder.Write("cut.zip", Slurp(path).substr(0, 150));
  EXPECT_THAT(ReadDocuments(cut).status().message(), HasSubstr("cut.zip: damaged or truncated"));
  const std::string outer = folder.path() + "/outer.tar";
  WriteTar(outer, {{"t.zip", Slurp(path)}}, Compression::kNone);
  EXPECT_THAT(ReadDocuments(outer).status().message(), HasSubstr("an archive within an archive"));
}

// A zip of one stored member "abc", as its first header alone: libarchive reads it as a stream.
std::string StoredZip(std::string_view name, int flags) {
  std::string zip("PK\x03\x04\x14\0\0\0\0\0\0\0\x21\0\xc2\x41\x24\x35\x03\0\0\0\x03\0\0\0\0\0\0\0",
                  30);
  zip[6] = static_cast<char>(flags & 0xFF);
  zip[7] = static_cast<char>(flags >> 8);
  zip[26] = static_cast<char>(name.size());
  zip += name;
  zip += "abc";
  return zip + std::string("PK\x05\x06") + std::string(18, '\0');
}

TEST(InputFile, ReadsMembersOfZipsWithNamesBeyondAscii) {
  const TempFolder folder;
  constexpr int kUtf8 = 1 << 11;  // APPNOTE 4.4.4: the name is UTF-8
  const std::string path = folder.Write("t.zip", StoredZip("größe/x.et", kUtf8));
  const auto documents = ReadDocuments(path);
  ASSERT_TRUE(documents.ok()) << documents.status();
  const std::vector<std::pair<std::string, std::string>> expected = {{path + ":größe/x.et", "abc"}};
  EXPECT_EQ(*documents, expected);
  EXPECT_EQ(ReadDocuments(path, "größe")->size(), 1u);
  for (const std::string& nameless : {StoredZip("", 0), StoredZip("\x94/x.et", kUtf8)}) {
    EXPECT_THAT(ReadDocuments(folder.Write("n.zip", nameless)).status().message(),
                HasSubstr("n.zip: a member without a name"));
  }
}

TEST(InputFile, SaysWhatIsWrongWithEncryptedAndEmptyZips) {
  const TempFolder folder;
  const std::string locked =
      folder.Write("locked.zip", StoredZip("rank0.et", 1));  // bit 0: encrypted
  EXPECT_EQ(ReadDocuments(locked).status().message(), locked + ": encrypted; unpack it first");
  const std::string empty =
      folder.Write("empty.zip", std::string("PK\x05\x06") + std::string(18, '\0'));
  EXPECT_EQ(ReadDocuments(empty).status().message(), empty + ": the archive has no members");
}

TEST(InputFile, ReadsOneFolderOfATar) {
  const TempFolder folder;
  const std::string path = folder.path() + "/jobs.tar";
  WriteTar(path,
           {{"./run1/rank0.json", "a"}, {"./run1/rank1.json", "b"}, {"./run10/rank0.json", "c"}},
           Compression::kGzip);
  const auto documents = ReadDocuments(path, "run1/");
  ASSERT_TRUE(documents.ok()) << documents.status();
  const std::vector<std::pair<std::string, std::string>> expected = {
      {path + ":./run1/rank0.json", "a"}, {path + ":./run1/rank1.json", "b"}};
  EXPECT_EQ(*documents, expected);
  EXPECT_EQ(ReadDocuments(path, "./run10/rank0.json")->size(), 1u);
  EXPECT_TRUE(ReadDocuments(path, "run2")->empty());
  const std::string plain = folder.Write("rank0.json", "{}");
  EXPECT_EQ(ReadDocuments(plain, "run1").status().message(),
            plain + ":run1: " + plain + " is no tar or zip");
}

TEST(InputFile, RefusesWhatCannotBeRead) {
  const TempFolder folder;
  EXPECT_EQ(ReadDocuments(folder.path() + "/none.json").status().message(),
            folder.path() + "/none.json: cannot be opened: No such file or directory");
  EXPECT_THAT(ReadDocuments(folder.path()).status().message(), HasSubstr("is a folder"));
  const std::string empty = folder.Write("empty.json", "");
  EXPECT_EQ(ReadDocuments(empty).status().message(), empty + ": the file is empty");
  const std::string inner = folder.path() + "/inner.tar";
  WriteTar(inner, {{"a", "b"}}, Compression::kGzip);
  const std::string outer = folder.path() + "/outer.tar";
  WriteTar(outer, {{"inner.tar.gz", Slurp(inner)}}, Compression::kNone);
  EXPECT_THAT(ReadDocuments(outer).status().message(), HasSubstr("an archive within an archive"));
  const std::string hollow = folder.path() + "/hollow.tar";
  WriteTar(hollow, {{"rank0.json", ""}}, Compression::kNone);
  EXPECT_THAT(ReadDocuments(hollow).status().message(),
              HasSubstr("hollow.tar:rank0.json: the file is empty"));
}

TEST(InputFile, RefusesTruncatedAndDamagedCompression) {
  const TempFolder folder;
  const std::string whole = folder.path() + "/whole";
  const std::string text = LongText(100'000);
  for (const Compression compression : {Compression::kGzip, Compression::kXz, Compression::kZstd}) {
    WriteCompressed(whole, text, compression);
    const std::string bytes = Slurp(whole);
    const std::string cut = folder.Write("cut", bytes.substr(0, bytes.size() / 2));
    const auto status = ReadDocuments(cut).status();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr(cut + ": damaged or truncated"));
    // A zstd frame need not carry a checksum.
    if (compression == Compression::kZstd) continue;
    std::string flipped = bytes;
    flipped[flipped.size() / 2] ^= 0x55;
    EXPECT_FALSE(ReadDocuments(folder.Write("flipped", flipped)).ok());
  }
}

TEST(InputFile, ReadsGzipMembersOneAfterAnother) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.gz";
  WriteCompressed(path, "first ", Compression::kGzip);
  const std::string first = Slurp(path);
  WriteCompressed(path, "second", Compression::kGzip);
  const std::string both = first + Slurp(path);
  EXPECT_EQ(ReadDocuments(folder.Write("b.gz", both))->at(0).second, "first second");
  EXPECT_EQ(ReadDocuments(folder.Write("b.gz", both + std::string(512, '\0')))->at(0).second,
            "first second");
  EXPECT_FALSE(ReadDocuments(folder.Write("b.gz", both + "garbage")).ok());
}

TEST(InputFile, CutsDecompressionBombs) {
  const TempFolder folder;
  const std::string bomb = folder.path() + "/bomb.gz";
  WriteCompressed(bomb, std::string(16 << 20, 'a'), Compression::kGzip);  // gzip: about 1,030 to 1
  InputLimits limits;
  limits.max_bytes = 1 << 20;
  EXPECT_THAT(ReadDocuments(bomb, "", limits).status().message(),
              HasSubstr("decompresses to more than 1048576 bytes"));
  limits = {};
  limits.ratio_grace = 1 << 20;
  limits.max_ratio = 500;
  EXPECT_THAT(ReadDocuments(bomb, "", limits).status().message(), HasSubstr("decompression bomb"));
}

TEST(ByteSource, PeekingConsumesNothing) {
  const auto source = MakeMemorySource("m", "0123456789");
  EXPECT_EQ(source->Peek(4)->substr(0, 4), "0123");
  EXPECT_EQ(*source->Peek(100), "0123456789");
  EXPECT_EQ(*ReadAll(*source), "0123456789");
  EXPECT_EQ(source->offset(), 10);
}

}  // namespace
}  // namespace foretrace
