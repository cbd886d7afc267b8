#include "simulator/cost/kernel/kernel_likes.h"

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
  // gemm after a is one product, after b another; the last two are to be told.
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

TEST(KernelLikes, ALaunchNamesItsTensorsAndGrid) {
  // Half a wave of 100,000 threads with four floats each; two tensors are read, one is written.
  const auto work = WorkOfLaunch(
      "void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv_cuda_kernel, "
      "at::detail::Array<char*, 3> >(int, float)",
      500, 100000);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->kind, KernelKind::kElementwise);
  EXPECT_EQ(work->written, Bytes(200000 * 4));
  EXPECT_EQ(work->read, Bytes(400000 * 4));
  const auto fill = WorkOfLaunch(
      "void at::native::vectorized_elementwise_kernel<4, FillFunctor<c10::Half>, "
      "std::array<char*, 1ul> >(int)",
      1000, 1000);
  ASSERT_TRUE(fill.has_value());
  EXPECT_EQ(fill->kind, KernelKind::kFill);
  EXPECT_EQ(fill->written, Bytes(8000));
  EXPECT_FALSE(WorkOfLaunch("sgemm_128x128", 500, 1000).has_value());
  EXPECT_FALSE(
      WorkOfLaunch("vectorized_elementwise_kernel<4, f, Array<char*, 2> >", 0, 1000).has_value());
  EXPECT_FALSE(WorkOfLaunch("vectorized_elementwise_kernel<4, f, Array<char*, ", 5, 9).has_value());
}

}  // namespace
}  // namespace foretrace
