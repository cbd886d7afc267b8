#include "simulator/cost/traced/kernel_cost_model.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/trace/builder.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

TEST(KernelNames, FlashAttentionSaysWhetherItIsCausal) {
  const auto traits = [](std::string_view parameters) {
    return TraitsOfKernel(std::string("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits"
                                      "<64, 128, 128, 4, Flash_kernel_traits<64, 128> >") +
                          std::string(parameters));
  };
  EXPECT_TRUE(traits(", false, true, false>(Flash_fwd_params)").flash_attention_2);
  EXPECT_TRUE(traits(", false, true, false>(Flash_fwd_params)").causal);
  EXPECT_FALSE(traits(", false, false, true>(Flash_fwd_params)").causal);
  EXPECT_FALSE(traits("").causal);
  EXPECT_FALSE(TraitsOfKernel("ampere_sgemm_128x128_tn").flash_attention_2);
}

TEST(KernelNames, ConvolutionsSayTheirTile) {
  const auto tile = [](std::string_view name) {
    const NamedTile t = TraitsOfKernel(name).tile;
    return std::array<int64_t, 3>{t.rows, t.cols, t.depth};
  };
  using Sizes = std::array<int64_t, 3>;
  EXPECT_EQ(tile("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_"
                 "256x64_32x4_nhwc_align8>(Params)"),
            (Sizes{256, 64, 32}));
  constexpr std::string_view kHopper =
      "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
      "warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn";
  EXPECT_EQ(tile(kHopper), (Sizes{128, 128, 64}));
  EXPECT_FALSE(TraitsOfKernel(kHopper).by_warps);
  EXPECT_TRUE(TraitsOfKernel("sm80_xmma_fprop_tilesize128x128x64_g1").by_warps);
  EXPECT_EQ(tile("ampere_bf16_s16816gemm_bf16_128x64_64x4_tn"),
            (Sizes{0, 0, 0}));  // no convolution
  EXPECT_EQ(tile("fprop_tilesize128x128"), (Sizes{0, 0, 0}));
  EXPECT_EQ(tile("fprop_99999x64_32x4"), (Sizes{0, 0, 0}));
}

TEST(KernelNames, RolesAndPrecisions) {
  EXPECT_EQ(TraitsOfKernel("ampere_sgemm_128x128_tn").role, KernelRole::kMatmul);
  EXPECT_EQ(TraitsOfKernel("ampere_sgemm_128x128_tn").precision, Precision::kFloat32);
  EXPECT_EQ(
      TraitsOfKernel("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>")
          .precision,
      Precision::kTensorFloat32);
  EXPECT_EQ(TraitsOfKernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8").precision, Precision::kHalf);
  EXPECT_EQ(TraitsOfKernel("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128").precision,
            Precision::kFloat8);
  EXPECT_EQ(TraitsOfKernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8").load_elements, 8);
  EXPECT_EQ(TraitsOfKernel("cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>").load_elements, 1);
  EXPECT_EQ(TraitsOfKernel("volta_sgemm_128x64_nt").load_elements, 0);
  EXPECT_EQ(TraitsOfKernel("gemm_align99999999999999999999").load_elements, 0);
  EXPECT_EQ(TraitsOfKernel("void splitKreduce_kernel<32, 16, int, float>").role,
            KernelRole::kSplitReduce);
  EXPECT_EQ(TraitsOfKernel("void cudnn::winograd_nonfused::winogradForwardData4x4<float>").role,
            KernelRole::kTransform);
  EXPECT_EQ(TraitsOfKernel("cudnn_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t").role,
            KernelRole::kMatmul);
  EXPECT_EQ(TraitsOfKernel("void at::native::elementwise_kernel<128, 2, f>").role,
            KernelRole::kStrided);
  EXPECT_EQ(TraitsOfKernel("void at::native::vectorized_elementwise_kernel<4, f>").role,
            KernelRole::kElementwise);
  EXPECT_EQ(
      TraitsOfKernel("void at::native::unrolled_elementwise_kernel<f, LoadWithCast<1> >").role,
      KernelRole::kConverted);
  EXPECT_EQ(TraitsOfKernel("void at::native::unrolled_elementwise_kernel<f, LoadWithoutCast>").role,
            KernelRole::kElementwise);
  EXPECT_EQ(TraitsOfKernel("void at::native::CatArrayBatchedCopy<float, unsigned int, 2>").role,
            KernelRole::kConcat);
  EXPECT_EQ(TraitsOfKernel("void CatArrayBatchedCopy_aligned16_contig<float, 2>").role,
            KernelRole::kElementwise);
  EXPECT_EQ(TraitsOfKernel("void at::native::index_elementwise_kernel<128, 4, f>").role,
            KernelRole::kGather);
  EXPECT_EQ(TraitsOfKernel("").role, KernelRole::kUnknown);
}

std::shared_ptr<const KernelModels> Models() {
  KernelModel gemm;
  gemm.key = {KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0};
  gemm.form = KernelForm::kGemm;
  gemm.upper = {1 << 30, 1 << 30, 1 << 30, 1 << 30};
  return std::make_shared<const KernelModels>(*FindGpuPeaks("a100-pcie-40gb"),
                                              std::vector<KernelModel>{gemm});
}

class TraceTest : public ::testing::Test {
 protected:
  // A call with tensors of these shapes that launches kernels of these names.
  void Build(std::string_view call_name, std::vector<std::vector<int64_t>> shapes,
             std::vector<std::string_view> kernels) {
    RankTraceBuilder builder(RankInfo{});
    const LaneIndex thread = builder.AddLane(Lane::Kind::kCpuThread, 1);
    const LaneIndex stream = builder.AddLane(Lane::Kind::kStream, 7);
    RankTraceBuilder::NodeSpec spec;
    spec.name = call_name;
    spec.lane = thread;
    spec.start = SimTime::FromNs(0);
    spec.duration = SimTime::FromNs(1000000);
    const NodeIndex call = builder.AddNode(spec);
    for (const auto& dims : shapes) {
      Tensor tensor;
      tensor.dtype = DType::kFloat32;
      builder.AddTensor(call, tensor, dims);
    }
    for (size_t i = 0; i < kernels.size(); ++i) {
      RankTraceBuilder::NodeSpec launch;
      launch.kind = NodeKind::kRuntimeCall;
      launch.detail = static_cast<uint8_t>(RuntimeCall::kLaunchKernel);
      launch.name = "cudaLaunchKernel";
      launch.lane = thread;
      launch.start = SimTime::FromNs(static_cast<int64_t>(1000 * (i + 1)));
      launch.duration = SimTime::FromNs(100);
      const NodeIndex runtime = builder.AddNode(launch);
      RankTraceBuilder::NodeSpec device;
      device.kind = NodeKind::kKernel;
      device.name = kernels[i];
      device.lane = stream;
      device.start = SimTime::FromNs(static_cast<int64_t>(2000000 + 1000 * i));
      device.duration = SimTime::FromNs(500);
      builder.SetLauncher(builder.AddNode(device), runtime);
    }
    auto built = builder.Build({});
    ASSERT_TRUE(built.ok()) << built.status();
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
    ranks.emplace_back(std::move(built->trace), std::move(built->strings));
    auto store = TraceStore::Assemble(std::move(ranks), std::move(built->diagnostics));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::make_unique<TraceStore>(*std::move(store));
    model_ = std::make_unique<KernelCostModel>(Models(), *store_);
  }
  std::vector<std::optional<Estimate>> Estimates() {
    const RankTrace& rank = store_->ranks()[0];
    std::vector<std::optional<Estimate>> list;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (rank.kind(n) == NodeKind::kKernel) list.push_back(model_->Predict(*store_, rank, n));
    }
    return list;
  }
  std::unique_ptr<TraceStore> store_;
  std::unique_ptr<KernelCostModel> model_;
};

TEST_F(TraceTest, OneKernelOfOneCall) {
  Build("aten::addmm", {{96}, {1024, 512}, {512, 96}}, {"ampere_sgemm_32x128_tn"});
  const auto e = Estimates();
  const KernelWork work = Kernels({LinearOp{1024, 96, 512, true}})[0];
  ASSERT_TRUE(e[0].has_value());
  EXPECT_EQ(e[0]->time, Models()->Predict(work, Precision::kFloat32).time);
  EXPECT_EQ(e[0]->source, EstimateSource::kCalibrated);
  EXPECT_FALSE(e[0]->extrapolated);
}

TEST_F(TraceTest, HelpersAndMainKernelShareTheOperatorsTime) {
  Build("aten::addmm", {{96}, {1024, 512}, {512, 96}},
        {"ampere_sgemm_32x128_tn", "void splitKreduce_kernel<32>"});
  const auto e = Estimates();
  const KernelWork work = Kernels({LinearOp{1024, 96, 512, true}})[0];
  ASSERT_TRUE(e[0].has_value() && e[1].has_value());
  EXPECT_EQ(e[0]->time + e[1]->time, Models()->Predict(work, Precision::kFloat32).time);
  EXPECT_GE(e[0]->time, e[1]->time);
}

TEST_F(TraceTest, TensorCoreKernelsAreAnotherPrecision) {
  Build("aten::mm", {{4096, 4096}, {4096, 4096}}, {"cutlass_80_tensorop_s1688gemm_128x256"});
  const auto e = Estimates();
  // TF32 is not calibrated here: the fp32 model's efficiency on the TF32 peak, and flagged so.
  EXPECT_EQ(e[0]->source, EstimateSource::kAnalytic);
  EXPECT_TRUE(e[0]->extrapolated);
  EXPECT_LT(e[0]->time.us(), 2.0 * 4096 * 4096 * 4096 / 19.5e6);
}

// An elementwise kernel over a view: 4 dimensions of more than one element, 44 instructions each.
TEST_F(TraceTest, StridedKernelsTakeAsLongAsTheirIndices) {
  Build("aten::copy_", {{64, 64, 64, 64}, {64, 64, 64, 64}},
        {"void at::native::vectorized_elementwise_kernel<4, f>"});
  const double vectors_us = Estimates()[0]->time.us();
  Build("aten::copy_", {{64, 64, 64, 64}, {64, 64, 64, 64}},
        {"void at::native::elementwise_kernel<128, 2, f>"});
  const auto strided = Estimates()[0];
  EXPECT_GE(strided->time.us(), 64.0 * 64 * 64 * 64 * 44 / (108 * 64 * 1410.0));
  EXPECT_GT(strided->time.us(), vectors_us);
  EXPECT_TRUE(strided->extrapolated);
}

// A gather: four elements a thread, 4 x (index, value) trips one after the other, 800 + 8 x 700
// cycles, beside the 1.12 us of an A100's shortest kernel.
TEST_F(TraceTest, GathersWaitForTheirIndices) {
  Build("aten::index", {{64, 64}, {16}}, {"void at::native::index_elementwise_kernel<128, 4, f>"});
  EXPECT_NEAR(Estimates()[0]->time.us(), 1.12 + (800 + 8 * 700) / 1410.0, 0.01);
  // Without dependent loads, a small kernel still fetches its code and its operands.
  Build("aten::mul", {{16}, {16}}, {"void at::native::vectorized_elementwise_kernel<4, f>"});
  EXPECT_NEAR(Estimates()[0]->time.us(), 1.12 + (800 + 700) / 1410.0, 0.01);
}

// Nine kernels of 16 KiB do not stay in 128: on Volta each is fetched again in every iteration.
TEST_F(TraceTest, DisplacedCodeOfGemmsIsFetchedAgain) {
  const auto models = std::make_shared<const KernelModels>(*FindGpuPeaks("v100-sxm2-16gb"),
                                                           std::vector<KernelModel>());
  const auto first_time = [&](int kernels) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    Tensor t;
    t.dtype = DType::kFloat32;
    for (int i = 0; i < kernels; ++i) {
      const std::string call = "aten::mm", name = "volta_sgemm_128x32_nn_" + std::to_string(i);
      const double at = 100.0 * i;
      rank.Op(call, {at, at + 50});
      for (int operand = 0; operand < 2; ++operand) {
        rank.builder().AddTensor(rank.Of(call), t, std::vector<int64_t>{64, 64});
      }
      rank.Kernel(name, {at + 5, at + 6}, 7, {at + 10, at + 30});
    }
    const TraceStore store = job.Build();
    const KernelCostModel model(models, store);
    const RankTrace& trace = store.ranks()[0];
    for (uint32_t i = 0; i < trace.size(); ++i) {
      if (trace.kind(NodeIndex(i)) != NodeKind::kKernel) continue;
      const auto estimate = model.Predict(store, trace, NodeIndex(i));
      return estimate.has_value() ? estimate->time : SimTime();
    }
    return SimTime();
  };
  EXPECT_GT(first_time(8), SimTime());
  EXPECT_EQ(first_time(8), first_time(1));
  EXPECT_EQ(first_time(9) - first_time(8),
            CodeFetchTime(models->device(), "volta_sgemm_128x32_nn"));
}

// A list without shapes; the view after it names 1,024 x 512 elements, 28 instructions each.
TEST_F(TraceTest, AConcatenationsResultIsWhatTheNextCallTakes) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::cat", {0, 20});
  rank.Kernel("void at::native::CatArrayBatchedCopy<float, unsigned int, 2>", {5, 6}, 7, {10, 90});
  rank.Op("aten::zero_", {25, 28});  // another buffer
  rank.Op("aten::view", {30, 40});
  Tensor t;
  t.dtype = DType::kFloat32;
  rank.builder().AddTensor(rank.Of("aten::zero_"), t, std::vector<int64_t>{1});
  rank.builder().AddTensor(rank.Of("aten::view"), t, std::vector<int64_t>{1024, 512});
  const TraceStore store = job.Build();
  const KernelCostModel model(Models(), store);
  KernelWork work = Kernels({ConcatOp{1024 * 512, 2}})[0];
  work.instructions = 1024 * 512 * (24 + 4);  // and a division
  work.parts = 2;                             // not in one piece
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    const NodeIndex n(i);
    if (store.ranks()[0].kind(n) != NodeKind::kKernel) continue;
    const auto estimate = model.Predict(store, store.ranks()[0], n);
    ASSERT_TRUE(estimate.has_value());
    EXPECT_EQ(estimate->time, Models()->Predict(work, Precision::kFloat32).time);
    EXPECT_TRUE(estimate->extrapolated);
  }
}

// trace_diff/control: what follows the gradient of a split works on other tensors.
TEST_F(TraceTest, TheGradientOfASplitJoinsItsArguments) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("SplitWithSizesBackward0", {0, 30});
  rank.Op("aten::cat", {2, 20});
  rank.Kernel("void at::native::CatArrayBatchedCopy<float, unsigned int, 2>", {5, 6}, 7, {10, 90});
  rank.Op("aten::mul", {35, 40});
  Tensor t;
  t.dtype = DType::kFloat32;
  for (const int64_t columns : {9375, 9375, 660}) {
    rank.builder().AddTensor(rank.Of("SplitWithSizesBackward0"), t,
                             std::vector<int64_t>{1024, columns});
  }
  rank.builder().AddTensor(rank.Of("aten::mul"), t, std::vector<int64_t>{1024, 128});
  const TraceStore store = job.Build();
  TracedOperator traced;
  const RankTrace& trace = store.ranks()[0];
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (store.name(trace, NodeIndex(i)) != "aten::cat") continue;
    const auto found = ConcatFromNeighbours(store, trace, NodeIndex(i));
    ASSERT_TRUE(found.has_value());
    traced = *found;
  }
  const auto& op = std::get<ConcatOp>(traced.op.shape);
  EXPECT_EQ(op.elements, 1024 * (9375 + 9375 + 660));
  EXPECT_EQ(op.parts, 3);
}

TEST_F(TraceTest, AConvolutionsOutputIsWhatTheNextCallTakes) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  const auto tensor = [&](std::string_view call, std::vector<int64_t> dims) {
    Tensor t;
    t.dtype = DType::kFloat32;
    rank.builder().AddTensor(rank.Of(call), t, dims);
  };
  rank.Op("aten::cudnn_convolution", {0, 20});
  tensor("aten::cudnn_convolution", {4, 3, 224, 224});
  tensor("aten::cudnn_convolution", {768, 3, 16, 16});
  rank.Kernel("implicit_convolve_sgemm", {5, 6}, 7, {10, 90});
  rank.Op("aten::add_", {30, 40});
  tensor("aten::add_", {4, 768, 14, 14});
  const TraceStore store = job.Build();
  const KernelCostModel model(Models(), store);
  const KernelWork work = Kernels({Conv2dOp{4, 3, 224, 224, 768, 16, 16, 14, 14}})[0];
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    const NodeIndex n(i);
    if (store.ranks()[0].kind(n) != NodeKind::kKernel) continue;
    const auto estimate = model.Predict(store, store.ranks()[0], n);
    ASSERT_TRUE(estimate.has_value());
    EXPECT_EQ(estimate->time, Models()->Predict(work, Precision::kFloat32).time);
  }
}

TEST_F(TraceTest, UnknownCallsMoveTheirTensors) {
  Build("fbgemm::permute_pooled_embs", {{8, 8}}, {"void permute_pooled_embs_kernel<float>"});
  const auto e = Estimates();
  KernelWork work = Kernels({OpaqueOp{256, 256}})[0];
  work.trips = 1;
  ASSERT_TRUE(e[0].has_value());
  EXPECT_EQ(e[0]->time, Models()->Predict(work, Precision::kFloat32).time);
  EXPECT_EQ(e[0]->source, EstimateSource::kAnalytic);
  EXPECT_TRUE(e[0]->extrapolated);
}

TEST_F(TraceTest, CallsWithoutShapesAreLeftToTheNextModel) {
  Build("fbgemm::bounds_check_indices", {}, {"void bounds_check_indices_kernel<long>"});
  EXPECT_FALSE(Estimates()[0].has_value());
}

// Three calls of aten::mm: the second, without shapes, launched what the first did; the third
// something else.
TEST(KernelCostModel, CallsWithoutShapesTakeThoseOfCallsThatDidTheSame) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  for (int i = 0; i < 3; ++i) {
    const double at = 100.0 * i;
    rank.Op("aten::mm", {at, at + 50});
    if (i == 0) {
      Tensor tensor;
      tensor.dtype = DType::kFloat32;
      rank.builder().AddTensor(rank.Of("aten::mm"), tensor, std::vector<int64_t>{64, 32});
      rank.builder().AddTensor(rank.Of("aten::mm"), tensor, std::vector<int64_t>{32, 16});
    }
    rank.Kernel(i == 2 ? "sgemm_large" : "sgemm", {at + 10, at + 12}, 7, {at + 20, at + 25});
  }
  const TraceStore store = job.Build();
  const KernelCostModel model(Models(), store);
  std::vector<std::optional<Estimate>> estimates;
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    const NodeIndex n(i);
    if (store.ranks()[0].kind(n) == NodeKind::kKernel) {
      estimates.push_back(model.Predict(store, store.ranks()[0], n));
    }
  }
  ASSERT_EQ(estimates.size(), 3u);
  ASSERT_TRUE(estimates[0] && estimates[1]);
  EXPECT_EQ(estimates[0]->time, estimates[1]->time);
  EXPECT_FALSE(estimates[0]->extrapolated);
  EXPECT_TRUE(estimates[1]->extrapolated);
  EXPECT_FALSE(estimates[2].has_value());
}

}  // namespace
}  // namespace foretrace
