#include "simulator/exporters/timeline/trace_event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

std::string TempPath(const std::string& name) {
  static const TempFolder folder;
  return folder.path() + "/" + name;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TraceEventWriter, WritesEventsWithNanoseconds) {
  const std::string path = TempPath("events.json");
  TraceEventWriter writer(path);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing under the name before Close";
  // 1,499 ps round to 1 ns, 2,500 ps to 3 ns.
  const TimelineArg args[] = {{"a", 1}, {"b", "x \"y\""}};
  writer.Slice({1, 2}, TimelineText("k"), "kernel", SimTime::FromPs(1499), SimTime::FromPs(2500),
               args);
  writer.Slice({1, 2}, TimelineText("k"), "kernel", SimTime::FromNs(1234050),
               SimTime::FromNs(1235050));
  writer.Metadata("note", "a \"b\"");
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_EQ(
      Read(path),
      "{\"traceEvents\":[\n"
      "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"ts\":0,\"name\":\"foretrace_timeline\",\"args\":{}},\n"
      "{\"ph\":\"X\",\"name\":\"k\",\"cat\":\"kernel\",\"pid\":1,\"tid\":2,\"ts\":0.001,"
      "\"dur\":0.002,\"args\":{\"a\":1,\"b\":\"x \\\"y\\\"\"}},\n"
      "{\"ph\":\"X\",\"name\":\"k\",\"cat\":\"kernel\",\"pid\":1,\"tid\":2,\"ts\":1234.050,"
      "\"dur\":1}\n"
      "],\n\"otherData\":{\"note\":\"a \\\"b\\\"\"}}\n");
  std::filesystem::remove(path);
}

TEST(TraceEventWriter, NamesWhatCannotBeWritten) {
  for (const std::string path : {"/nonexistent-folder/t.json", "/nonexistent-folder/t.json.gz"}) {
    const absl::Status status = TraceEventWriter(path).Close();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("No such file")));
  }
}

TEST(TraceEventWriter, LeavesNothingBehindWithoutClose) {
  const std::string folder = TempPath("dropped");
  std::filesystem::create_directory(folder);
  { TraceEventWriter writer(folder + "/t.json.gz"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace foretrace
