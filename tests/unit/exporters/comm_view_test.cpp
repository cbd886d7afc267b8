// Communication as other simulators see it: groups by number, equal sizes, partners, order.
#include "simulator/exporters/chakra/comm_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/exporters/chakra/portability.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;

const CommView::Group* Named(const CommView& view, std::string_view name) {
  for (const CommView::Group& group : view.groups) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

void AddAllReduce(JobScript& job, size_t rank, std::string_view name, std::string_view group,
                  double at, int stream = 20, int64_t bytes = 1000) {
  job.rank(rank).Collective(name, CollectiveOp::kAllReduce, group, {at, at + 1}, stream,
                            {at + 2, at + 10}, bytes);
}

// 0 is all ranks' for every reader: a group "0" of all ranks keeps it and is not listed, another
// group of that name gets a number after those that are taken.
TEST(CommView, NumbersGroupsFromOne) {
  JobScript job(4);
  for (size_t r = 0; r < 4; ++r) {
    job.rank(r).Group("0", {}).Group("3", {0, 1}).Group("tensor", {2, 3});
    AddAllReduce(job, r, "all", "0", 0);
    AddAllReduce(job, r, "half", r < 2 ? "3" : "tensor", 20);
  }
  const CommView view = ViewCommunication(job.Build());
  ASSERT_EQ(view.groups.size(), 2u);
  EXPECT_EQ(Named(view, "3")->number, 3);
  EXPECT_EQ(Named(view, "tensor")->number, 4);
  EXPECT_EQ(Named(view, "0"), nullptr);
  EXPECT_TRUE(Named(view, "tensor")->declared);
}

TEST(CommView, GroupOfSomeRanksNamedZeroGetsANumber) {
  JobScript job(3);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r).Group("0", {0, 1});
    AddAllReduce(job, r, "a", "0", 0);
  }
  job.rank(2).Kernel("k", {0, 1}, 7, {2, 3});
  const CommView view = ViewCommunication(job.Build());
  ASSERT_EQ(view.groups.size(), 1u);
  EXPECT_EQ(view.groups[0].number, 1);
  EXPECT_THAT(view.groups[0].ranks, ElementsAre(0, 1));
}

// Two pairs that do different things, of which the recording names nothing.
TEST(CommView, InferredGroupsAreListedWithTheirDoubt) {
  JobScript job(4);
  for (size_t r = 0; r < 4; ++r) {
    const CollectiveOp op = r < 2 ? CollectiveOp::kAllReduce : CollectiveOp::kAllGather;
    for (int k = 0; k < 3; ++k) {
      const double at = 100.0 * k + (r < 2 ? 0 : 37);
      job.rank(r).Collective("a" + std::to_string(k), op, "", {at, at + 1}, 20, {at + 2, at + 10});
    }
  }
  const TraceStore store = job.Build();
  const CommView view = ViewCommunication(store);
  ASSERT_EQ(view.groups.size(), 2u);
  EXPECT_EQ(view.groups[0].number, 1);
  EXPECT_EQ(view.groups[1].number, 2);
  EXPECT_THAT(view.groups[0].ranks, ElementsAre(0, 1));
  EXPECT_FALSE(view.groups[0].declared);
  const auto checked = CheckPortability(store, view);
  ASSERT_TRUE(checked.ok());
  EXPECT_THAT(checked->problems, ElementsAre());
  EXPECT_EQ(checked->collectives, 12);
}

// An exchange of unequal parts has one size for all: the most that any rank sends or receives.
TEST(CommView, OneSizeACollective) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r).Group("0", {});
    job.rank(r).Device("x", NodeKind::kCollective, static_cast<uint8_t>(CollectiveOp::kAllToAll),
                       {0, 1}, 20, {2, 10});
    CommAttr attr;
    attr.group = job.rank(r).builder().Intern("0");
    attr.bytes_in = Bytes(r == 0 ? 100 : 300);
    attr.bytes_out = Bytes(r == 0 ? 310 : 90);
    job.rank(r).builder().SetComm(job.rank(r).Of("x"), attr);
  }
  const TraceStore store = job.Build();
  const CommView view = ViewCommunication(store);
  EXPECT_EQ(view.unequal_sizes, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    ASSERT_EQ(view.nodes[r].size(), 1u);
    EXPECT_EQ(view.nodes[r].begin()->second.bytes.count(), 310);
  }
}

// A collective that one rank alone recorded would be waited for without end.
TEST(CommView, WhatHasNoPartnerIsReplayed) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r).Group("0", {});
    AddAllReduce(job, r, "both", "0", 0);
  }
  AddAllReduce(job, 0, "lone", "", 30, 24);
  const TraceStore store = job.Build();
  const CommView view = ViewCommunication(store);
  EXPECT_EQ(view.collectives, 1);
  EXPECT_EQ(view.replayed, 1);
  const auto checked = CheckPortability(store, view);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked->never_run, 0);
  EXPECT_EQ(checked->collectives, 2);
}

}  // namespace
}  // namespace foretrace
