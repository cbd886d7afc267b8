#include "simulator/base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  static std::string Content(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(AtomicFileTest, AppearsWholeOrNotAtAll) {
  const fs::path path = folder_ / "out";
  std::ofstream(path) << "before";
  {
    AtomicFile file(path.string());
    file.Append("half");
  }
  EXPECT_EQ(Content(path), "before");
  AtomicFile file(path.string());
  file.Append("after");
  EXPECT_EQ(Content(path), "before");
  EXPECT_TRUE(file.Commit().ok());
  EXPECT_EQ(Content(path), "after");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(AtomicFileTest, ALinkStaysALink) {
  fs::create_directory(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere" / "out") << "before";
  fs::create_symlink(folder_ / "elsewhere" / "out", folder_ / "link");
  AtomicFile file((folder_ / "link").string());
  file.Append("after");
  EXPECT_TRUE(file.Commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Content(folder_ / "elsewhere" / "out"), "after");
}

// Renaming over a device or a pipe would replace it with a file.
TEST_F(AtomicFileTest, APipeIsWrittenInPlace) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string read;
  std::jthread reader([&] { read = Content(path); });
  {
    AtomicFile file(path.string());
    file.Append("through");
    EXPECT_TRUE(file.Commit().ok());
  }
  reader.join();
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_EQ(Entries(), 1u);
}

// With no reader, opening a pipe for writing would wait for ever.
TEST_F(AtomicFileTest, APipeThatNobodyReadsIsAnError) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(std::string(WriteFile(path.string(), "x").message()), testing::HasSubstr("pipe"));
}

TEST_F(AtomicFileTest, ADanglingLinkIsFollowed) {
  fs::create_symlink("target", folder_ / "link");
  EXPECT_TRUE(WriteFile((folder_ / "link").string(), "text").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Content(folder_ / "target"), "text");
}

TEST_F(AtomicFileTest, AnInterruptedOneLeavesNothing) {
  std::stop_source stop;
  AtomicFile file((folder_ / "out").string(), stop.get_token());
  file.Append("half");
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(file.Commit()));
  EXPECT_EQ(Entries(), 0u);
}

TEST_F(AtomicFileTest, ASetAppearsTogetherAndSparesInputs) {
  std::ofstream(folder_ / "a") << "input";
  ProtectedFiles inputs;
  inputs.Add(folder_.string());
  {
    auto set = FileSet::Create(folder_.string(), inputs);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_FALSE(set->Add("a").ok());
    EXPECT_FALSE(set->Add("../b").ok());
    const auto path = set->Add("b");
    ASSERT_TRUE(path.ok()) << path.status();
    ASSERT_TRUE(WriteFile(*path, "new").ok());
    EXPECT_FALSE(fs::exists(folder_ / "b"));
  }
  EXPECT_EQ(Entries(), 1u);  // nothing without Commit
  auto set = FileSet::Create(folder_.string(), inputs);
  ASSERT_TRUE(WriteFile(*set->Add("b"), "new").ok());
  EXPECT_TRUE(set->Commit().ok());
  EXPECT_EQ(Content(folder_ / "b"), "new");
  EXPECT_EQ(Content(folder_ / "a"), "input");
}

TEST_F(AtomicFileTest, NamesAFullDisk) {
  // A device of this kind in a folder of our own needs privileges; the system's one is only written
  // to, which the test above shows to be safe.
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  AtomicFile file("/dev/full");
  file.Append("bytes");
  EXPECT_THAT(std::string(file.Commit().message()), testing::HasSubstr("/dev/full: cannot write"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace foretrace
