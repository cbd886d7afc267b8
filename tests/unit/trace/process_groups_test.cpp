// Groups of one name, told apart by their members.
#include "simulator/trace/process_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Text(const ProcessGroups& groups) {
  std::vector<std::string> text;
  for (const ProcessGroup& group : groups) {
    text.push_back(group.name + ":");
    for (const int32_t rank : group.ranks) text.back() += " " + std::to_string(rank);
  }
  return text;
}

TEST(ProcessGroups, ThoseOfOneNameStandTogether) {
  ProcessGroups groups;
  groups.Add({"7", "", {2, 3}});
  groups.Add({"10", "", {0, 1}});
  groups.Add({"7", "", {0, 1}});
  groups.Add({"7", "dp", {2, 3}});
  EXPECT_THAT(Text(groups), ElementsAre("10: 0 1", "7: 2 3", "7: 0 1"));
  EXPECT_EQ(groups.named("7").size(), 2u);
  EXPECT_EQ(groups.Find("7", std::vector<int32_t>{2, 3})->description, "dp");
  EXPECT_EQ(groups.Find("7", std::vector<int32_t>{3, 2}), nullptr);
  EXPECT_TRUE(groups.contains("10"));
  EXPECT_FALSE(groups.contains("1"));
}

TEST(ProcessGroups, OnesThatShareAMemberGo) {
  ProcessGroups groups;
  groups.Add({"7", "", {0, 1}});
  groups.Add({"7", "", {2, 3}});
  groups.Add({"8", "", {0, 1}});
  groups.RemoveLike({"7", "", {1, 4}});
  EXPECT_THAT(Text(groups), ElementsAre("7: 2 3", "8: 0 1"));
  groups.RemoveLike({"8", "", {}});  // all ranks
  EXPECT_THAT(Text(groups), ElementsAre("7: 2 3"));
}

absl::StatusOr<TraceStore> JobOf(const std::vector<std::vector<ProcessGroup>>& by_rank) {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (size_t r = 0; r < by_rank.size(); ++r) {
    RankInfo info;
    info.rank = static_cast<int32_t>(r);
    info.source = "rank" + std::to_string(r);
    RankTraceBuilder builder(info);
    for (const ProcessGroup& group : by_rank[r]) builder.AddProcessGroup(group);
    RankTraceBuilder::NodeSpec node;
    node.kind = NodeKind::kKernel;
    node.name = "k";
    node.lane = builder.AddLane(Lane::Kind::kStream, 7);
    node.start = SimTime();
    node.duration = SimTime::FromNs(1);
    builder.AddNode(node);
    auto built = builder.Build({});
    ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  }
  return TraceStore::Assemble(std::move(ranks), {});
}

TEST(ProcessGroups, ProcessesNumberTheirGroupsAlike) {
  const auto store = JobOf({{{"7", "", {0, 1}}}, {}, {{"7", "", {2, 3}}}, {{"7", "", {2, 3}}}});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Text(store->process_groups()), ElementsAre("7: 0 1", "7: 2 3"));
}

TEST(ProcessGroups, OneRankIsNotInTwoOfOneName) {
  const auto store = JobOf({{{"7", "", {0, 1}}}, {{"7", "", {1, 2}}}});
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("has ranks [1,2] here but [0,1]"));
}

// A user who gives one of several says nothing of the others.
TEST(ProcessGroups, AUserReplacesTheOneThatItIsAbout) {
  auto store = JobOf({{{"7", "", {0, 1}}}, {}, {{"7", "", {2, 3}}}, {}});
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(store->SetProcessGroups({{"7", "", {3, 2}}}).ok());
  EXPECT_THAT(Text(store->process_groups()), ElementsAre("7: 0 1", "7: 3 2"));
  // Several of one name may share members, as exchanges do.
  ASSERT_TRUE(store->SetProcessGroups({{"x", "", {0, 1}}, {"x", "", {0, 2}}}).ok());
  EXPECT_EQ(store->process_groups().named("x").size(), 2u);
}

}  // namespace
}  // namespace foretrace
