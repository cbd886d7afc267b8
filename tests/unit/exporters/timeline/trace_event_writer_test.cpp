#include "simulator/exporters/timeline/trace_event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace foretrace {
namespace {

std::string TempPath(const std::string& name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + name;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TraceEventWriter, WritesEventsWithNanoseconds) {
  const std::string path = TempPath("events.json");
  auto writer = TraceEventWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing under the name before Close";
  // 1,499 ps round to 1 ns, 2,500 ps to 3 ns.
  (*writer)->Slice({1, 2}, JsonText("k"), "kernel", SimTime::FromPs(1499), SimTime::FromPs(2500),
                   "{\"a\":1}");
  (*writer)->Slice({1, 2}, JsonText("k"), "kernel", SimTime::FromNs(1234050),
                   SimTime::FromNs(1235050), {});
  (*writer)->Metadata("note", "a \"b\"");
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(Read(path),
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
            "{\"ph\":\"X\",\"name\":\"k\",\"cat\":\"kernel\",\"pid\":1,\"tid\":2,\"ts\":0.001,"
            "\"dur\":0.002,\"args\":{\"a\":1}},\n"
            "{\"ph\":\"X\",\"name\":\"k\",\"cat\":\"kernel\",\"pid\":1,\"tid\":2,\"ts\":1234.050,"
            "\"dur\":1}\n"
            "],\"otherData\":{\"note\":\"a \\\"b\\\"\"}}\n");
  std::filesystem::remove(path);
}

TEST(TraceEventWriter, NamesWhatCannotBeWritten) {
  const auto absent = TraceEventWriter::Create("/nonexistent-folder/t.json");
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(std::string(absent.status().message()),
              testing::AllOf(testing::HasSubstr("/nonexistent-folder/t.json"),
                             testing::HasSubstr("No such file")));
}

TEST(TraceEventWriter, LeavesNothingBehindWithoutClose) {
  const std::string path = TempPath("dropped.json.gz");
  { auto writer = TraceEventWriter::Create(path); }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

}  // namespace
}  // namespace foretrace
