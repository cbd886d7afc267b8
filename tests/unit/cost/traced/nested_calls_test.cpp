// Calls within calls: whose kernels are whose.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/trace/builder.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

void AddTensor(RankScript& rank, std::string_view call, std::vector<int64_t> dims) {
  Tensor tensor;
  tensor.dtype = DType::kFloat32;
  rank.builder().AddTensor(rank.Of(call), tensor, dims);
}

// Three calls: a fill with shapes; an addition alone; the same addition around a fill without
// shapes, which is taken to be like the first.
TEST(NestedCalls, KernelsOfAnInnerCallThatTakesShapesOfItsLikesAreNoLongerTheOuters) {
  constexpr std::string_view kFill =
      "void at::native::vectorized_elementwise_kernel<4, FillFunctor>";
  constexpr std::string_view kAdd = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::fill_", {0, 50});
  AddTensor(rank, "aten::fill_", {64});
  rank.Kernel(kFill, {10, 12}, 7, {20, 25});
  rank.Op("aten::add", {100, 150});
  AddTensor(rank, "aten::add", {4096, 4096});
  AddTensor(rank, "aten::add", {4096, 4096});
  rank.Kernel(kAdd, {110, 112}, 7, {120, 225});
  rank.Op("aten::add", {300, 390});
  AddTensor(rank, "aten::add", {4096, 4096});
  AddTensor(rank, "aten::add", {4096, 4096});
  rank.Op("aten::fill_", {310, 330});
  rank.Kernel(kFill, {315, 317}, 7, {320, 325});
  rank.Kernel(kAdd, {350, 352}, 7, {360, 465});
  const TraceStore store = job.Build();
  const KernelCostModel model(std::make_shared<const KernelModels>(*FindGpuPeaks("a100-sxm4-80gb"),
                                                                   std::vector<KernelModel>{}),
                              store);
  std::vector<SimTime> times;
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    const NodeIndex n(i);
    if (store.ranks()[0].kind(n) != NodeKind::kKernel) continue;
    const auto estimate = model.Predict(store, store.ranks()[0], n);
    ASSERT_TRUE(estimate.has_value());
    times.push_back(estimate->time);
  }
  ASSERT_EQ(times.size(), 4u);
  EXPECT_EQ(times[2], times[0]);
  EXPECT_EQ(times[3], times[1]);
  EXPECT_GT(times[1], times[0]);
}

}  // namespace
}  // namespace foretrace
