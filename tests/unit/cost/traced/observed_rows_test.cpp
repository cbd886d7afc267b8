// What names of kernels say of softmax and of sums along rows.

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "simulator/cost/traced/observed_kernels.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Of a call on 64 x 4,096 elements, by kernels in order of issue.
KernelList ListOf(std::string_view op, const std::vector<std::string_view>& names,
                  DType dtype = DType::kFloat32) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op(op, {0, 90});
  double at = 10;
  for (const std::string_view name : names) {
    rank.Kernel(name, {at, at + 2}, 7, {at + 10, at + 14});
    at += 5;
  }
  const TraceStore store = job.Build();
  const std::vector<int64_t> matrix = {64, 4096};
  const std::vector<TensorShape> shapes(2, TensorShape{matrix, dtype});
  const auto traced = OperatorFromTrace(op, shapes, {});
  EXPECT_TRUE(traced.has_value());
  GpuPeaks device;
  device.sms = 100;
  std::vector<NodeIndex> kernels;
  for (const std::string_view name : names) kernels.push_back(rank.Of(name));
  return Observe(device, store, store.ranks()[0], *traced, kernels).list;
}

TEST(ObservedRows, ASoftmaxsKernelSaysWhereItKeepsRows) {
  const auto place = [](std::string_view name) {
    return ListOf("aten::_softmax", {name}).at(0).row_place;
  };
  EXPECT_EQ(place("void softmax_warp_forward<float, float, float, 11, false>(x)"), RowPlace::kWarp);
  EXPECT_EQ(place("void at::native::cunn_SoftMaxForwardReg<float, float, 4>(x)"), RowPlace::kBlock);
  EXPECT_EQ(place("void at::native::cunn_SoftMaxForward<4, float, float>(x)"), RowPlace::kMemory);
  EXPECT_EQ(place("void at::native::cunn_SoftMaxForwardSmem<4, float>(x)"), RowPlace::kMemory);
  EXPECT_EQ(place("softmax_of_another"), RowPlace::kByColumns);
}

TEST(ObservedRows, FusedGradientsOfASoftmaxHaveNoProduct) {
  constexpr std::string_view kGradient = "void softmax_warp_backward<float, float, 10>(x)";
  constexpr std::string_view kProduct = "void at::native::vectorized_elementwise_kernel<4, f>(x)";
  EXPECT_EQ(ListOf("aten::_softmax_backward_data", {kProduct, kGradient}).size(), 2u);
  EXPECT_EQ(ListOf("aten::_softmax_backward_data", {kGradient}).size(), 1u);
}

// Eight halves of a vector of 16 bytes, or four as before.
TEST(ObservedRows, ASumsKernelSaysWhatItLoadsAtOnce) {
  const auto loads = [](std::string_view name) {
    return ListOf("aten::sum", {name}, DType::kBFloat16).at(0).load_elements;
  };
  EXPECT_EQ(loads("void reduce_kernel<512, 1, ReduceOp<c10::BFloat16, f, unsigned int, "
                  "c10::BFloat16, 4, 8> >(x)"),
            8);
  EXPECT_EQ(loads("void reduce_kernel<512, 1, ReduceOp<c10::BFloat16, f, unsigned int, "
                  "c10::BFloat16, 4> >(x)"),
            4);
}

}  // namespace
}  // namespace foretrace
