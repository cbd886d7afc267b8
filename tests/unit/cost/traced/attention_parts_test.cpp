// Kernels around those of attention's gradients take what they move, the others the rest.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "simulator/cost/traced/kernel_cost_model.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

constexpr std::string_view kCall = "aten::_scaled_dot_product_cudnn_attention_backward";
constexpr std::string_view kBegins = "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>";
constexpr std::string_view kMain = "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16";
constexpr std::string_view kEnds = "void cudnn::fusion::convert_dq_to_16bits<true>";

// llama3-8b-l4-s8192-b1-none-compiled (H100): 32 heads of 128, 8,192 tokens. A tensor is 67 MB: the
// first reads two and clears as much as two, 268 MB, in 92 us; the last reads two and writes one,
// 201 MB, in 74. Of 3.35 TB/s these are 80 and 60 us.
TEST(AttentionParts, TakeWhatTheyMove) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op(kCall, {0, 90});
  const std::vector<int64_t> dims = {1, 32, 8192, 128};
  for (int tensor = 0; tensor < 5; ++tensor) {
    Tensor of;
    of.dtype = DType::kBFloat16;
    rank.builder().AddTensor(rank.Of(kCall), of, dims);
  }
  rank.Kernel(kBegins, {5, 6}, 7, {10, 102}).Kernel(kMain, {7, 8}, 7, {110, 3200});
  rank.Kernel(kEnds, {9, 10}, 7, {3200, 3274});
  const TraceStore store = job.Build();
  const auto models = std::make_shared<const KernelModels>(*FindGpuPeaks("h100-sxm5-80gb"),
                                                           std::vector<KernelModel>{});
  const KernelCostModel model(models, store);
  const RankTrace& trace = store.ranks()[0];
  const auto us_of = [&](const KernelCostModel& by, std::string_view kernel) {
    for (uint32_t i = 0; i < trace.size(); ++i) {
      const NodeIndex node(i);
      if (store.name(trace, node) == kernel) return by.Predict(store, trace, node)->time.us();
    }
    return 0.0;
  };
  const auto us = [&](std::string_view kernel) { return us_of(model, kernel); };
  EXPECT_GT(us(kBegins), 80);
  EXPECT_LT(us(kBegins), 110);
  EXPECT_GT(us(kEnds), 60);
  EXPECT_LT(us(kEnds), 85);
  EXPECT_GT(us(kMain), 10 * us(kBegins));
  // The call's arguments are not recorded, a mask among them.
  EXPECT_EQ(model.assumed_masks().none, 1);
  EXPECT_EQ(model.assumed_masks().causal, 0);
  // Who says that it is causal halves the work.
  const KernelCostModel causal(models, store, nullptr, ChosenKernels::kUsed,
                               AttentionMask::kCausal);
  EXPECT_EQ(causal.assumed_masks().causal, 1);
  EXPECT_LT(us_of(causal, kMain), 0.65 * us(kMain));
}

}  // namespace
}  // namespace foretrace
