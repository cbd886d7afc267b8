#include "simulator/cost/traced/kernel_likes.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Kernels of one stream by these names, in order.
TraceStore Stream(const std::vector<std::string_view>& names) {
  JobScript job(1);
  double at = 0;
  for (const std::string_view name : names) {
    job.rank(0).InFlight(name, 7, {at, at + 5});
    at += 10;
  }
  return job.Build();
}

TEST(KernelLikes, NeighboursDecideBetweenKernelsOfOneName) {
  // gemm after a is one GEMM, after b another; the last two are to be told.
  const TraceStore store = Stream({"a", "gemm", "b", "gemm", "a", "gemm", "b", "gemm"});
  const RankTrace& rank = store.ranks()[0];
  const std::vector<NodeIndex> unknown = {NodeIndex(5), NodeIndex(7)};
  KernelLikes likes(rank, unknown);
  likes.Learn(NodeIndex(1), {Us(10), KernelKind::kGemm});
  likes.Learn(NodeIndex(3), {Us(30), KernelKind::kGemm});
  ASSERT_TRUE(likes.Find(NodeIndex(5)).has_value());
  EXPECT_EQ(likes.Find(NodeIndex(5))->time, Us(10));
  EXPECT_EQ(likes.Find(NodeIndex(5))->kind, KernelKind::kGemm);
  // Nothing follows the last one, and none of the known has as much in common with it: the mean.
  EXPECT_EQ(likes.Find(NodeIndex(7))->time, Us(20));
}

TEST(KernelLikes, AnotherNameIsNotAlike) {
  const TraceStore store = Stream({"a", "b"});
  const std::vector<NodeIndex> unknown = {NodeIndex(1)};
  KernelLikes likes(store.ranks()[0], unknown);
  likes.Learn(NodeIndex(0), {Us(10), KernelKind::kGemm});
  EXPECT_FALSE(likes.Find(NodeIndex(1)).has_value());
}

}  // namespace
}  // namespace foretrace
