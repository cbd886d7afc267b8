// Whose grids tell rows: a norm's, but not those of gradients written in Triton.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

// The layer of ALayersSizesAreThoseThatExplainWhatIsAround, beside two gradients of Liger's
// (liger_kernel/ops/rms_norm.py: a block for each of 132 multiprocessors) and one of
// FlashAttention's (flash_attn/ops/triton/layer_norm.py), which are more than there are norms.
TEST(LaunchRows, GradientsInTritonHaveABlockForEachMultiprocessor) {
  LaunchedCalls calls;
  for (const std::string name :
       {"_rms_norm_backward_kernel", "_layer_norm_backward_kernel", "_layer_norm_bwd_kernel"}) {
    calls.Add("Function", name, {{132, 1, 1}, {512, 1, 1}});
  }
  calls.Norm(8192).Moves(kCast, 3072).Moves(kCast, 768 * 3072).Moves(kCast, 8192 * 768);
  calls.Add("aten::addmm", kGemm, kPersistent).Moves(kAdd, 8192 * 3072);
  const auto found = calls.Inferred("aten::addmm");
  ASSERT_EQ(found.size(), 1u);
  ExpectLinear(found[0], 8192, 3072, 768);
  EXPECT_TRUE(calls.Inferred("Function").empty());  // no norms of 132 rows
}

}  // namespace
}  // namespace foretrace
