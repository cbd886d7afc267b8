#include "simulator/cost/kernel/generated_kernels.h"

#include <gtest/gtest.h>

#include <string>

namespace foretrace {
namespace {

GeneratedKernel Of(std::string_view name, const LaunchAttr& launch) {
  const auto kernel = GeneratedKernelOf(name, launch);
  EXPECT_TRUE(kernel.has_value()) << name;
  return kernel.value_or(GeneratedKernel());
}

LaunchAttr Line(uint32_t blocks, uint32_t threads) { return {{blocks, 1, 1}, {threads, 1, 1}}; }

// 8,192 x 4,096 elements as llama3-8b-l4-s8192-b1-none-compiled and its 8-bit twin have them.
TEST(GeneratedKernels, ElementsOfBlocks) {
  constexpr int64_t kElements = 8192 * 4096;
  EXPECT_EQ(Of("triton_poi_fused_add_8", Line(32768, 128)).elements, kElements);
  EXPECT_EQ(Of("triton_poi_fused_add_view_21", Line(65536, 256)).elements, kElements);
  const std::string tiled = "triton_poi_fused__scaled_mm__to_copy_clamp_mul_reciprocal_t_";
  EXPECT_EQ(Of(tiled + "2", {{128, 256, 1}, {128, 1, 1}}).elements, kElements);
  EXPECT_EQ(Of(tiled + "9", {{128, 64, 1}, {256, 1, 1}}).elements, kElements);
  // A norm's weight: 16 blocks of 256.
  EXPECT_EQ(Of("triton_poi_fused__fused_rms_norm_backward_5", Line(16, 128)).elements, 4096);
}

// Tensors of the calls' arguments, which that recording has, in elements of 16 bits.
TEST(GeneratedKernels, TensorsOfPointwiseOnes) {
  const auto expect = [](std::string_view name, double read, double written) {
    const GeneratedKernel kernel = Of(name, Line(32768, 128));
    EXPECT_EQ(kernel.read, read) << name;
    EXPECT_EQ(kernel.written, written) << name;
  };
  expect("triton_poi_fused__unsafe_view_mul_silu_7", 2, 1);
  expect("triton_poi_fused__unsafe_view_mul_silu_silu_backward_view_0", 3, 2);
  expect("triton_poi_fused__unsafe_view_add_8", 2, 1);
  expect("triton_poi_fused__to_copy__unsafe_view_view_view_as_complex_1", 1, 2);
  expect("triton_poi_fused__to_copy_view_3", 2, 1);
  // Eight heads of keys for 32 of queries, of 32 bits; their gradients' sums.
  expect("triton_poi_fused__to_copy_clone_expand_unsqueeze_view_4", 0.5, 1);
  expect("triton_poi_fused_sum_transpose_view_2", 4, 1);
  // To 8 bits; its scale is a number.
  expect("triton_poi_fused__scaled_mm__to_copy_clamp_mul_reciprocal_t_18", 1, 0.5);
}

TEST(GeneratedKernels, RowsOfReductions) {
  const GeneratedKernel norm =
      Of("triton_red_fused__fused_rms_norm__unsafe_view_add_6", Line(8192, 512));
  EXPECT_EQ(norm.rows, 8192);
  EXPECT_EQ(norm.read, 2);
  EXPECT_EQ(norm.written, 1);
  // Persistent ones have several rows a block.
  const GeneratedKernel gradient =
      Of("triton_per_fused__fused_rms_norm__fused_rms_norm_backward__unsafe_view_add_view_7",
         Line(512, 256));
  EXPECT_EQ(gradient.rows, 0);
  EXPECT_TRUE(gradient.of_norm && gradient.gradient);
  EXPECT_EQ(gradient.read, 3);  // x, what is added to it, and the gradient that passes by
  const GeneratedKernel loss =
      Of("triton_red_fused__log_softmax__to_copy_prepare_softmax_online_view_0", Line(8192, 512));
  EXPECT_TRUE(loss.softmax);
  EXPECT_EQ(loss.rows, 8192);
  EXPECT_EQ(loss.written, 0);
  const GeneratedKernel largest = Of("triton_red_fused_abs_max_2", Line(512, 512));
  EXPECT_EQ(largest.kind, GeneratedKernel::Kind::kReduction);
  EXPECT_FALSE(GeneratedKernelOf("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_TNT", Line(132, 384)));
}

}  // namespace
}  // namespace foretrace
