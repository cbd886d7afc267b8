#include "simulator/cost/traced/convolution_layers.h"

#include <gtest/gtest.h>

#include <string_view>
#include <variant>
#include <vector>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

// Blocks of 64 pixels by 32 filters.
constexpr std::string_view kConv =
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize64x32x8_stage3_"
    "warpsize2x2x1_g1_ffma_execute";
constexpr std::string_view kGradient =
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)";
constexpr std::string_view kToNhwc =
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnnKernelParam)";
constexpr std::string_view kNormOf = "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true>()";
constexpr std::string_view kNormBack = "void cudnn::bn_bw_1C11_singleread<float, 512, true>()";
constexpr std::string_view kRelu =
    "void vectorized_elementwise_kernel<8, launch_clamp_scalar(), std::array<char*, 2ul> >";

// Kernels of 32 images, in turn.
class Network {
 public:
  Network& Convolution(uint32_t filters, uint32_t pixels, std::string_view kernel = kConv) {
    calls_.Add("aten::cudnn_convolution", kernel,
               {{(filters + 31) / 32, (pixels + 63) / 64, 1}, {128, 1, 1}});
    return *this;
  }
  Network& Norm(uint32_t channels) {
    calls_.Add("aten::cudnn_batch_norm", kNormOf, {{channels, 1, 1}, {512, 1, 1}});
    return *this;
  }
  Network& Relu(int64_t elements) { return Moves(kRelu, elements); }
  Network& Moves(std::string_view kernel, int64_t elements) {
    calls_.Moves(kernel, elements);
    return *this;
  }
  // Of a norm's result of `channels`; cuDNN's engine has a plane of blocks for each image.
  Network& Gradient(uint32_t channels) {
    calls_.Within({"CudnnBatchNormBackward0"}, "aten::cudnn_batch_norm_backward", kNormBack,
                  {{channels, 1, 1}, {512, 1, 1}});
    calls_.Within({"ConvolutionBackward0"}, "aten::convolution_backward", kGradient,
                  {{2, 2, 32}, {8, 8, 1}});
    return *this;
  }
  LaunchedCalls& calls() { return calls_; }
  std::vector<OperatorCall> Forward() { return calls_.Inferred("aten::cudnn_convolution"); }
  std::vector<OperatorCall> Backward() { return calls_.Inferred("aten::convolution_backward"); }

 private:
  LaunchedCalls calls_;
};

constexpr int64_t kImages = 32;

void ExpectConvolution(const OperatorCall& call, int64_t c, int64_t side, int64_t k, int64_t filter,
                       int64_t result_side) {
  const auto* op = std::get_if<Conv2dOp>(&call.shape);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->n, kImages);
  EXPECT_EQ(op->c, c);
  EXPECT_EQ(op->h, side);
  EXPECT_EQ(op->k, k);
  EXPECT_EQ(op->r, filter);
  EXPECT_EQ(op->s, filter);
  EXPECT_EQ(op->oh, result_side);
}

// The first block of ResNet-50: 64 x 56 x 56 are pooled out of 112 x 112, and go through 1 x 1,
// 3 x 3 and 1 x 1, beside a branch of 1 x 1 whose result is added.
Network Bottleneck() {
  constexpr uint32_t kPixels = kImages * 56 * 56;
  Network network;
  network.Convolution(64, 4 * kPixels).Norm(64).Relu(64 * 4 * kPixels);
  network.calls().Add("aten::max_pool2d_with_indices", "max_pool_forward_nchw<float, int>",
                      {{25088, 1, 1}, {256, 1, 1}});
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Convolution(256, kPixels).Norm(256);
  network.Convolution(256, kPixels).Norm(256).Moves(kAdd, 256 * kPixels).Relu(256 * kPixels);
  network.Convolution(128, kPixels).Norm(128).Relu(128 * kPixels);
  network.Convolution(128, kPixels / 4).Norm(128).Relu(128 * kPixels / 4);
  return network;
}

TEST(ConvolutionLayers, NormsAndActivationsTellTheSizes) {
  Network network = Bottleneck();
  network.Gradient(128);  // which tells how many images there are
  const auto found = network.Forward();
  ASSERT_EQ(found.size(), 7u);
  ExpectConvolution(found[0], 3, 224, 64, 7, 112);
  ExpectConvolution(found[2], 64, 56, 64, 3, 56);
  ExpectConvolution(found[3], 64, 56, 256, 1, 56);
  ExpectConvolution(found[4], 64, 56, 256, 1, 56);
  ExpectConvolution(found[5], 256, 56, 128, 1, 56);
  ExpectConvolution(found[6], 128, 56, 128, 3, 28);
}

// The last first; the first convolution gives no gradient of the image.
TEST(ConvolutionLayers, GradientsFollowInReverseOrder) {
  Network network = Bottleneck();
  for (const uint32_t channels : {128, 128, 256, 256, 64, 64, 64}) network.Gradient(channels);
  const auto found = network.Backward();
  ASSERT_EQ(found.size(), 7u);
  ExpectConvolution(found[0], 128, 56, 128, 3, 28);
  ExpectConvolution(found[1], 256, 56, 128, 1, 56);
  ExpectConvolution(found[4], 64, 56, 64, 3, 56);
  ExpectConvolution(found[6], 3, 224, 64, 7, 112);
  EXPECT_EQ(found[0].pass, Direction::kBackward);
  EXPECT_TRUE(std::get<Conv2dOp>(found[0].shape).needs_input_gradient);
  EXPECT_FALSE(std::get<Conv2dOp>(found[6].shape).needs_input_gradient);
}

// 128 x 128 x 5 x 5 weights, whose gradient is averaged behind the pass that makes it.
TEST(ConvolutionLayers, FiltersAreWhatTheirGradientsMove) {
  constexpr uint32_t kPixels = kImages * 14 * 14;
  Network network;
  network.Convolution(64, 4 * kPixels).Norm(64).Relu(64 * 4 * kPixels);
  network.Convolution(128, kPixels).Norm(128).Relu(128 * kPixels);
  network.Convolution(128, kPixels).Norm(128).Relu(128 * kPixels);
  network.Gradient(128).Moves(kAdd, 128 * 128 * 25);
  ExpectConvolution(network.Forward().at(2), 128, 14, 128, 5, 14);
}

// As many as the result has: another gradient's.
TEST(ConvolutionLayers, FiltersAreNotWhatGradientsOfResultsMove) {
  constexpr uint32_t kPixels = kImages * 56 * 56;  // 64 x 49 x 32
  Network network;
  network.Convolution(32, 4 * kPixels).Norm(32).Relu(32 * 4 * kPixels);
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Gradient(64).Moves(kAdd, 64 * kPixels);
  ExpectConvolution(network.Forward().at(2), 64, 56, 64, 3, 56);
}

// Patches of 16 x 16 make 14 x 14 tokens of 768: 8 blocks of 32 positions, a plane for each filter.
TEST(ConvolutionLayers, ChangesOfLayoutTellOfFilters) {
  Network network;
  network.calls().Add("aten::cudnn_convolution", kToNhwc, {{1568, 1, 32}, {256, 1, 1}});
  network.calls().Then(kToNhwc, {{8, 1, 768}, {256, 1, 1}});
  network.calls().Then("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc",
                       {{6, 49, 1}, {128, 1, 1}});
  network.calls().Then("void cudnn::ops::nhwcToNchwKernel<float, float, float, true, false>()",
                       {{7, 24, 32}, {256, 1, 1}});
  network.Moves(kAdd, kImages * 196 * 768);
  ExpectConvolution(network.Forward().at(0), 3, 224, 768, 16, 14);
}

// 50,176 pixels in 784 blocks of 64, 96 filters in 3 of 32.
TEST(ConvolutionLayers, TilesTellWhereThereIsNoNorm) {
  constexpr uint32_t kPixels = kImages * 14 * 14;
  Network network;
  network.Convolution(96, kPixels).Relu(96 * kPixels);
  network.Convolution(160, kPixels).Relu(160 * kPixels);
  network.Gradient(160);
  ExpectConvolution(network.Forward().at(1), 96, 14, 160, 1, 14);
}

// Blocks of fewer pixels than there are: another tensor's norm.
TEST(ConvolutionLayers, NothingIsSaidWhereTilesDoNotHoldTheResult) {
  constexpr uint32_t kPixels = kImages * 14 * 14;
  Network network;
  network.Convolution(64, kPixels).Norm(512).Relu(512 * kPixels);
  EXPECT_TRUE(network.Forward().empty());
}

// A linear bottleneck: 24 channels become 144, which do not meet in the middle, then 24 again,
// added without an activation.
TEST(ConvolutionLayers, ChannelsThatDoNotMeet) {
  constexpr uint32_t kPixels = kImages * 28 * 28;
  Network network;
  network.Convolution(32, kPixels).Norm(32).Relu(32 * kPixels);
  network.Convolution(24, kPixels).Norm(24);
  network.Convolution(144, kPixels).Norm(144).Relu(144 * kPixels);
  network.calls().Add("aten::_conv_depthwise2d", "conv_depthwise2d_forward_kernel<3, float>",
                      {{14112, 1, 1}, {256, 1, 1}});
  network.Norm(144).Relu(144 * kPixels);
  network.Convolution(24, kPixels).Norm(24).Moves(kAdd, 24 * kPixels);
  network.Convolution(144, kPixels).Norm(144).Relu(144 * kPixels).Gradient(144);
  const auto found = network.Forward();
  ASSERT_EQ(found.size(), 5u);
  ExpectConvolution(found[1], 32, 28, 24, 1, 28);
  ExpectConvolution(found[2], 24, 28, 144, 1, 28);
  ExpectConvolution(found[3], 144, 28, 24, 1, 28);
  ExpectConvolution(found[4], 24, 28, 144, 1, 28);
  const auto middle = network.calls().Inferred("aten::_conv_depthwise2d");
  ASSERT_EQ(middle.size(), 1u);
  ExpectConvolution(middle[0], 144, 28, 144, 3, 28);
  EXPECT_EQ(std::get<Conv2dOp>(middle[0].shape).groups, 144);
}

// 64 channels become 128 behind a pool, as VGG has it.
TEST(ConvolutionLayers, ChannelsThatDoubleBehindAPool) {
  constexpr uint32_t kPixels = kImages * 28 * 28;
  Network network;
  network.Convolution(64, 4 * kPixels).Norm(64).Relu(64 * 4 * kPixels);
  network.calls().Add("aten::max_pool2d_with_indices", "max_pool_forward_nchw<float, int>",
                      {{6272, 1, 1}, {256, 1, 1}});
  network.Convolution(128, kPixels).Norm(128).Relu(128 * kPixels).Gradient(128);
  ExpectConvolution(network.Forward().at(1), 64, 28, 128, 3, 28);
}

// An image as large as the result came from the host.
TEST(ConvolutionLayers, FirstConvolutions) {
  constexpr uint32_t kPixels = kImages * 28 * 28;
  Network whole, few;
  whole.calls().FromHost(int64_t{4} * 3 * kPixels);
  whole.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels).Gradient(64);
  ExpectConvolution(whole.Forward().at(0), 3, 28, 64, 3, 28);
  few.Convolution(32, kPixels).Norm(32).Relu(32 * kPixels).Gradient(32);
  ExpectConvolution(few.Forward().at(0), 3, 56, 32, 3, 28);
}

// Where channels lie together a norm has a thread for each of 40, of which a block has 32.
TEST(ConvolutionLayers, ChannelsToABlock) {
  constexpr uint32_t kPixels = kImages * 28 * 28;
  constexpr std::string_view kNorm =
      "batch_norm_collect_statistics_channels_last_kernel<float, float, float, 4>";
  Network network;
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Convolution(40, kPixels);
  network.calls().Add("aten::native_batch_norm", kNorm, {{2, 128, 1}, {32, 16, 1}});
  network.Relu(40 * kPixels);
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels).Gradient(64);
  const auto found = network.Forward();
  ASSERT_EQ(found.size(), 3u);
  ExpectConvolution(found[1], 64, 28, 40, 1, 28);
  ExpectConvolution(found[2], 40, 28, 64, 1, 28);
}

// 32 channels join 64 before the norm of all 96: of the convolution that made them nothing is said,
// nor of its gradients; the next one has all.
TEST(ConvolutionLayers, NormsOfConcatenations) {
  constexpr uint32_t kPixels = kImages * 28 * 28;
  constexpr std::string_view kCat = "CatArrayBatchedCopy_aligned16_contig<float, 4, 128>";
  Network network;
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Convolution(32, kPixels);
  network.calls().Add("aten::cat", kCat, {{264, 2, 1}, {128, 1, 1}});
  network.Norm(96).Relu(96 * kPixels);
  network.Convolution(128, kPixels).Norm(128).Relu(128 * kPixels);
  // Nothing tells of how many channels this one is given.
  network.calls().Add("aten::cat", kCat, {{264, 2, 1}, {128, 1, 1}});
  network.Convolution(48, kPixels).Norm(48).Relu(48 * kPixels);
  for (const uint32_t channels : {48, 128, 96, 64}) network.Gradient(channels);
  const auto forward = network.Forward(), backward = network.Backward();
  ASSERT_EQ(forward.size(), 2u);
  ExpectConvolution(forward[1], 96, 28, 128, 1, 28);
  ASSERT_EQ(backward.size(), 2u);
  ExpectConvolution(backward[0], 96, 28, 128, 1, 28);
}

// Winograd's kernels are for 3 x 3, whatever is usual.
TEST(ConvolutionLayers, AlgorithmsTellOfFilters) {
  constexpr uint32_t kPixels = kImages * 56 * 56;
  Network network;
  network.Convolution(64, kPixels).Norm(64).Relu(64 * kPixels);
  network.Convolution(192, kPixels, "void cudnn::winograd_nonfused::winogradForwardData4x4<float>");
  network.Norm(192).Relu(192 * kPixels);
  network.calls().Add("aten::cudnn_convolution", "volta_sgemm_32x128_nn",
                      {{6, kPixels / 128, 1}, {256, 1, 1}});
  network.Norm(192).Relu(192 * kPixels);
  network.Gradient(192);
  const auto found = network.Forward();
  ASSERT_EQ(found.size(), 3u);
  ExpectConvolution(found[1], 64, 56, 192, 3, 56);
  ExpectConvolution(found[2], 192, 56, 192, 1, 56);
}

// One graph: kernels one after the other are one convolution's, and a GEMM behind all norms is a
// linear layer's.
TEST(ConvolutionLayers, KernelsWithoutCalls) {
  constexpr uint32_t kPixels = kImages * 14 * 14;
  LaunchedCalls calls;
  const LaunchAttr tiles = {{4, kPixels / 64, 1}, {128, 1, 1}};
  const LaunchAttr norm = {{128, 1, 1}, {512, 1, 1}}, linear = {{32, 1, 1}, {256, 1, 1}};
  const LaunchAttr moved = {{128 * kPixels / 1024, 1, 1}, {128, 1, 1}};
  for (int i = 0; i < 2; ++i)
    calls.InGraph(kConv, tiles).InGraph(kNormOf, norm).InGraph(kRelu, moved);
  calls.InGraph("volta_sgemm_32x128_tn", linear).InGraph("volta_sgemm_32x128_nt", linear);
  for (int i = 0; i < 2; ++i) {
    calls.InGraph(kNormBack, norm).InGraph(kGradient, {{2, 2, 32}, {8, 8, 1}});
    calls.InGraph("void wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)", linear);
  }
  std::vector<OperatorCall> found;
  for (const OperatorCall& call : calls.Inferred("")) {
    if (std::holds_alternative<Conv2dOp>(call.shape)) found.push_back(call);
  }
  ASSERT_EQ(found.size(), 4u);
  ExpectConvolution(found[1], 128, 14, 128, 3, 14);
  ExpectConvolution(found[2], 128, 14, 128, 3, 14);
  EXPECT_EQ(found[2].pass, Direction::kBackward);
}

}  // namespace
}  // namespace foretrace
