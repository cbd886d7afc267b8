#include "simulator/report/timeline_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foretrace {
namespace {

using ::testing::HasSubstr;

// 500 MB at 320 bytes a node are 1,562,500 nodes, compressed 8 times as many.
TEST(TimelineSize, RefusesWhatNoViewerOpens) {
  EXPECT_TRUE(CheckTimelineSize(1'562'500, "t.json").ok());
  const absl::Status refused = CheckTimelineSize(2'000'000, "t.json");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("about 640 MB"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--timeline-ranks"));
  EXPECT_TRUE(CheckTimelineSize(2'000'000, "t.json.gz").ok());
  EXPECT_FALSE(CheckTimelineSize(20'000'000, "t.json.gz").ok());
  // In Perfetto's form 115 bytes a node, compressed a fifth: 4,347,826 and 21,739,130 nodes.
  EXPECT_TRUE(CheckTimelineSize(4'300'000, "t.pftrace").ok());
  EXPECT_FALSE(CheckTimelineSize(4'400'000, "t.pftrace").ok());
  EXPECT_TRUE(CheckTimelineSize(21'700'000, "t.pftrace.gz").ok());
  EXPECT_FALSE(CheckTimelineSize(21'800'000, "t.pftrace.gz").ok());
}

}  // namespace
}  // namespace foretrace
