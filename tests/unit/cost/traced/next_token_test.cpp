// Attention is taken to be causal where a model is trained to say the next token.

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

constexpr uint32_t kTokens = 8192;
constexpr std::string_view kGelu =
    "void vectorized_elementwise_kernel<8, GeluCUDAKernelImpl(), std::array<char*, 2ul> >";
constexpr std::string_view kResidual =
    "void vectorized_elementwise_kernel<8, CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> "
    ">";
constexpr LaunchAttr kRows = {{kTokens, 1, 1}, {128, 1, 1}};

// A layer with attention of 12 heads of 64, what the last norm is given, a loss of so many rows,
// then the gradient of a norm and what is behind it.
bool IsCausal(std::string_view given, uint32_t losses, std::string_view behind) {
  LaunchedCalls calls;
  calls.Norm(kTokens).Add("aten::addmm", kGemm, kPersistent);
  calls.Add("aten::_flash_attention", "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
            {{16, 12, 8}, {128, 1, 1}});
  calls.Add("aten::addmm", kGemm, kPersistent).Moves(given, kTokens * 768).Norm(kTokens);
  calls.Add("aten::addmm", kGemm, kPersistent);
  calls.Add("aten::_log_softmax", "cunn_SoftMaxForward<4, float, LogSoftMaxForwardEpilogue>",
            {{losses, 1, 1}, {1024, 1, 1}});
  calls.Add("aten::native_layer_norm_backward", "layer_norm_grad_input_kernel", kRows);
  calls.Then("GammaBetaBackwardCUDAKernelTemplate<float, float>", {{24, 1, 1}, {32, 32, 1}});
  calls.Add("aten::behind", behind, kPersistent);
  const auto found = calls.Inferred("aten::_flash_attention");
  EXPECT_EQ(found.size(), 1u);
  return !found.empty() && std::get<AttentionOp>(found[0].shape).causal;
}

// GPT-2's norms stand before layers: their gradients are added to what passes them by. BERT's stand
// behind. Models of masked words have an activation before the last norm. A loss of fewer rows is
// none of each token.
TEST(NextToken, ByNormsAndTheLastLayer) {
  EXPECT_TRUE(IsCausal(kResidual, kTokens, kResidual));
  EXPECT_FALSE(IsCausal(kResidual, kTokens, kGemm));
  EXPECT_FALSE(IsCausal(kGelu, kTokens, kResidual));
  EXPECT_FALSE(IsCausal(kResidual, kTokens / 3, kResidual));
}

}  // namespace
}  // namespace foretrace
