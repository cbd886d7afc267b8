// Ranks that together cannot be one job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

absl::Status Assembled(int32_t rank, int32_t world_size) {
  RankInfo info;
  info.rank = rank;
  info.world_size = world_size;
  info.source = "rank.json";
  RankTraceBuilder builder(info);
  RankTraceBuilder::NodeSpec node;
  node.kind = NodeKind::kKernel;
  node.name = "k";
  node.lane = builder.AddLane(Lane::Kind::kStream, 7);
  node.start = SimTime();
  node.duration = SimTime::FromNs(1);
  builder.AddNode(node);
  auto built = builder.Build({});
  if (!built.ok()) return built.status();
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  return TraceStore::Assemble(std::move(ranks), {}).status();
}

TEST(Assemble, AsManyRanksAsAnyJobHas) {
  EXPECT_TRUE(Assembled(0, 1).ok());
  EXPECT_TRUE(Assembled((1 << 20) - 1, 1 << 20).ok());
}

TEST(Assemble, MoreRanksThanAnyJobHas) {
  // A list of so many would take 8 GB, from a file of some bytes.
  EXPECT_EQ(Assembled(0, std::numeric_limits<int32_t>::max() - 1).message(),
            "rank.json: names rank 0 of a job of 2147483646, which is more than 1048576 ranks");
  EXPECT_FALSE(Assembled(std::numeric_limits<int32_t>::max(), 0).ok());
  EXPECT_FALSE(Assembled(1 << 20, 0).ok());
}

}  // namespace
}  // namespace foretrace
