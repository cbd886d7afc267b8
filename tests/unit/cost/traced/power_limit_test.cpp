#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "simulator/cost/traced/kernel_cost_model.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

constexpr double kMs = 1000;  // of microseconds

// Calls one after the other: "aten::mm" of 16,384 x 16,384 by 16,384 or "aten::add" of 2 GiB.
std::vector<double> ModelledUs(const std::vector<std::string>& calls) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  Tensor tensor;
  tensor.dtype = DType::kBFloat16;
  for (size_t i = 0; i < calls.size(); ++i) {
    const double at = 20 * kMs * static_cast<double>(i);
    const bool product = calls[i] == "aten::mm";
    rank.Op(calls[i], {at, at + 50});
    for (int operand = 0; operand < 2; ++operand) {
      rank.builder().AddTensor(
          rank.Of(calls[i]), tensor,
          product ? std::vector<int64_t>{16384, 16384} : std::vector<int64_t>{1 << 30});
    }
    rank.Kernel(product ? "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
                        : "void at::native::vectorized_elementwise_kernel<4, Add>",
                {at + 5, at + 6}, 7, {at + 10, at + 10 + 12 * kMs});
  }
  const TraceStore store = job.Build();
  const auto models = std::make_shared<const KernelModels>(*FindGpuPeaks("h100-sxm5-80gb"),
                                                           std::vector<KernelModel>());
  const KernelCostModel model(models, store);
  const RankTrace& trace = store.ranks()[0];
  std::vector<double> times;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (trace.kind(NodeIndex(i)) != NodeKind::kKernel) continue;
    times.push_back(model.Predict(store, trace, NodeIndex(i))->time.us());
  }
  return times;
}

// 2 x 16,384^3 FLOP at the 720 TFLOP/s that last are 12.217 ms, beside which 1.61 GB of operands
// and results draw 0.556 x 0.481 / 12.217 more: (1.0219)^(1/3) = 1.0072 times as long.
TEST(PowerLimit, GemmsAloneKeepUpWhatTheBoardSustains) {
  const std::vector<double> us = ModelledUs(std::vector<std::string>(6, "aten::mm"));
  ASSERT_EQ(us.size(), 6u);
  for (const double time : us) EXPECT_NEAR(time, 1.0072 * 12217, 15);
}

// The first GEMM after 20 passes over 6.4 GB (about 2 ms each, half the power) runs at the most
// that GEMMs reach, 1.08 times what lasts; later ones are held back, the more the more came before.
TEST(PowerLimit, GemmsAfterLighterKernelsRunFaster) {
  std::vector<std::string> calls(30, "aten::add");
  calls.insert(calls.end(), 12, "aten::mm");
  const std::vector<double> us = ModelledUs(calls);
  EXPECT_NEAR(us[30], 12217 / 1.08, 5);
  for (size_t i = 31; i < us.size(); ++i) EXPECT_GE(us[i], us[i - 1]) << i;
  EXPECT_GT(us.back(), 1.05 * us[30]);
  // Passes over memory wait for it, whatever the clock.
  EXPECT_DOUBLE_EQ(us[0], us[29]);
}

}  // namespace
}  // namespace foretrace
