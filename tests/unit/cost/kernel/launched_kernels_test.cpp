#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/traced/moved_elements.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

constexpr std::string_view kAdd =
    "void at::native::vectorized_elementwise_kernel<4, at::native::add_kernel, "
    "at::detail::Array<char*, 3> >(int, float)";

GpuPeaks V100() { return *FindGpuPeaks("v100-sxm2-16gb"); }
KernelModels Models() { return KernelModels(V100(), {}); }

TEST(LaunchedKernels, ALaunchNamesItsTensorsAndGrid) {
  const GpuPeaks device = V100();
  const double threads = device.sms * device.threads_per_sm;
  // Half a wave with four floats a thread; two tensors are read, one is written.
  const auto work = WorkOfLaunch({kAdd, 500}, device);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->kind, KernelKind::kElementwise);
  EXPECT_EQ(work->written, Bytes(static_cast<int64_t>(threads / 2 * 4 * 4)));
  EXPECT_EQ(work->read.count(), 2 * work->written.count());
  const auto fill = WorkOfLaunch({"void at::native::vectorized_elementwise_kernel<4, "
                                  "FillFunctor<c10::Half>, std::array<char*, 1ul> >(int)",
                                  1000},
                                 device);
  ASSERT_TRUE(fill.has_value());
  EXPECT_EQ(fill->kind, KernelKind::kFill);
  EXPECT_EQ(fill->written, Bytes(static_cast<int64_t>(threads * 4 * 2)));
  // PyTorch 2.6 and later have up to 16 elements of a byte a thread.
  const auto wide = WorkOfLaunch(
      {"void vectorized_elementwise_kernel<16, f<float>, std::array<char*, 2ul> >", 1000}, device);
  ASSERT_TRUE(wide.has_value());
  EXPECT_EQ(wide->written, Bytes(static_cast<int64_t>(threads * 16 * 4)));
  EXPECT_FALSE(WorkOfLaunch({kAdd, 0}, device).has_value());
  EXPECT_FALSE(WorkOfLaunch({"volta_sgemm_128x128_nn", 500}, device).has_value());
  EXPECT_FALSE(
      WorkOfLaunch({"vectorized_elementwise_kernel<4, f, Array<char*, ", 5}, device).has_value());
}

TEST(LaunchedKernels, GeneratedKernelsAroundAttentionAreNone) {
  EXPECT_FALSE(IsAttentionKernel("triton_poi_fused__scaled_dot_product_cudnn_attention_clone_3"));
  EXPECT_TRUE(IsAttentionKernel("triton_tem_fused_flex_attention_0"));
  EXPECT_TRUE(IsAttentionKernel("flash_fwd_kernel<traits>"));
}

// Names as profilers print them: of vLLM (csrc/), SGLang and xFormers (Triton), FlashInfer
// (include/flashinfer/), TensorRT-LLM (cpp/tensorrt_llm/kernels/), Deformable-DETR, PyTorch, torch
// geometric, cuSPARSE and ck_tile, whose names contain other families' words.
TEST(LaunchedKernels, WhatKernelsOfLibrariesAre) {
  const std::vector<std::pair<std::string_view, KernelKind>> kinds = {
      {"_fwd_kernel", KernelKind::kAttention},
      {"_fwd_grouped_kernel_stage1", KernelKind::kAttention},
      {"_fwd_kernel_splitK", KernelKind::kAttention},
      {"bwd_kernel_dk_dv", KernelKind::kAttention},
      {"chunk_fwd_kernel_o", KernelKind::kOther},
      {"_fwd_kernel_destindex_copy_kv", KernelKind::kIndex},
      {"_fwd_kernel_ep_scatter_2", KernelKind::kIndex},
      {"_fwd_kernel_ep_gather", KernelKind::kIndex},
      {"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<> >",
       KernelKind::kAttention},
      {"void flashinfer::AppendPagedKVCacheKernel<128u, 1u, __nv_bfloat16, int>",
       KernelKind::kCopy},
      {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>",
       KernelKind::kCopy},
      {"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", KernelKind::kLayerNorm},
      {"void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>", KernelKind::kReduction},
      {"void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>", KernelKind::kElementwise},
      {"void tensorrt_llm::kernels::cutlass_kernels::doGatedActivationKernel<__nv_bfloat16>",
       KernelKind::kElementwise},
      {"void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>",
       KernelKind::kIndex},
      {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::half_t, "
       "tensorrt_llm::kernels::cutlass_kernels::TmaWarpSpecializedGroupedGemmInput> >",
       KernelKind::kGemm},
      {"void ms_deformable_im2col_gpu_kernel<float>(int, float const*)", KernelKind::kIndex},
      {"void at::native::im2col_kernel<c10::Half>(long, c10::Half const*)", KernelKind::kTranspose},
      {"void at::native::_scatter_gather_elementwise_kernel<128, 8, f>", KernelKind::kIndex},
      {"void cusparse::csrmm_v2_kernel<256, 3, int, float, float, float>", KernelKind::kIndex},
      {"void dgl::aten::cuda::SpMMCsrKernel<int, float, CopyLhs<float> >", KernelKind::kIndex},
      {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", KernelKind::kOther},
      {"_lora_expand_kernel", KernelKind::kGemm},
      {"_ZN7ck_tile6kentryILi256ELi2ENS_10GemmKernelINS_", KernelKind::kGemm},
      {"triton_tem_fused_mm_3", KernelKind::kGemm},
      {"triton_tem_fused_convolution_3", KernelKind::kConvolution},
      {"_triton_rope", KernelKind::kElementwise}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(KindOfKernel(name), kind) << name;
}

// A thread of a kernel that strides over its elements has one: 4,096 x 512 take one each, of two
// bytes, read and written; sums of as many threads by CUB's sort have 16.
TEST(LaunchedKernels, ElementsOfThreads) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  const KernelModels models(h100, {});
  const LaunchAttr grid = {{32768, 1, 1}, {512, 1, 1}};
  const auto us = [&](std::string_view name) {
    const Launch launch{.name = name, .waves_milli = 62060, .attr = &grid};
    return EstimateLaunch(models, launch, 0, 0)->time.us();
  };
  // 16.8 million elements of 2 bytes, both ways, at 3.35 TB/s.
  const double least = 2.0 * 32768 * 512 * 2 / 3.35e6;
  const double roll = us("void at::native::roll_cuda_kernel<c10::Half>(c10::Half const*)");
  EXPECT_GT(roll, least);
  EXPECT_LT(roll, 1.5 * least);
  const double sort = us("void cub::DeviceRadixSortOnesweepKernel<Policy, false, float, int>");
  EXPECT_GT(sort, 2 * 16 * least);
  EXPECT_LT(sort, 3 * 16 * least);
}

// As many blocks as the device holds go over all of a tensor
// (aten/src/ATen/native/cuda/DistributionTemplates.h): what is beside them says how large it is.
// Such a kernel of hta-traces/critical_path/alexnet takes 71 us.
TEST(LaunchedKernels, RandomNumbersFillWhatIsBesideThem) {
  const LaunchAttr grid = {{640, 1, 1}, {256, 1, 1}};
  const Launch launch{.name =
                          "void at::native::(anonymous namespace)::"
                          "distribution_elementwise_grid_stride_kernel<float, 4, f>",
                      .waves_milli = 1000,
                      .attr = &grid};
  const int64_t elements = 50'000'000;
  // 4 bytes each at 900 GB/s.
  EXPECT_GT(EstimateLaunch(Models(), launch, elements, 0)->time.us(), elements * 4 / 0.9e6);
  EXPECT_LT(EstimateLaunch(Models(), launch, 0, 0)->time.us(), 20);
}

// Apex's Adam on the A100 of trace_diff/control: 303 blocks, each a chunk of four lists, took 407
// us.
TEST(LaunchedKernels, AnOptimizersBlocksAreChunks) {
  const GpuPeaks a100 = *FindGpuPeaks("a100-sxm4-40gb");
  const KernelModels models(a100, {});
  const Launch launch{"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>",
                      static_cast<uint32_t>(1000 * 303 / 216)};
  const LaunchEstimate estimate = *EstimateLaunch(models, launch, 0, 0);
  EXPECT_EQ(estimate.kind, KernelKind::kOptimizer);
  EXPECT_NEAR(estimate.time.us(), 407, 60);
}

// ns_resolution and nccl_parser_config: blocks of 32 registers a thread, four of which are
// resident.
TEST(LaunchedKernels, AFunctorNamesWhatItReads) {
  const GpuPeaks device = V100();
  const auto work = WorkOfLaunch(
      {"void multi_tensor_apply_kernel<TensorListMetadata<3>, BinaryOpListAlphaFunctor<float, 3, "
       "2, 2>, std::plus<float>, float>",
       1000},
      device);
  ASSERT_TRUE(work.has_value());
  // One wave: four blocks on each multiprocessor, a chunk of 65,536 floats each.
  EXPECT_EQ(work->written.count(), 4 * 80 * 65536 * 4);
  EXPECT_EQ(work->read.count(), 2 * work->written.count());
  for (const char* name :
       {"multi_tensor_apply_kernel<Functor<", "multi_tensor_apply_kernel<Functor<float, ",
        "multi_tensor_apply_kernel<Functor<float, 3, 2",
        "multi_tensor_apply_kernel<Functor<float, x, 2, 2>"}) {
    ASSERT_TRUE(WorkOfLaunch({name, 1000}, device).has_value()) << name;
  }
}

// 320 blocks are the most of a launch: on the H100 0.808 waves, where 34 registers leave room for
// three on a multiprocessor, not the four that are supposed (427). Adam's squares read gradients
// once, beside what they are added to.
TEST(LaunchedKernels, OptimizersLaunchAtMost320Blocks) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  const auto squares = WorkOfLaunch(
      {"void multi_tensor_apply_kernel<TensorListMetadata<3>, PointwiseOpScalarFunctor<float, 3, "
       "3, 0>, std::multiplies<float>, float>",
       808},
      h100);
  ASSERT_TRUE(squares.has_value());
  EXPECT_EQ(squares->written.count(), 320 * 65536 * 4);
  EXPECT_EQ(squares->read.count(), 2 * squares->written.count());
  const auto steps =
      WorkOfLaunch({"void multi_tensor_apply_kernel<TensorListScalarListMetadata<float, 3>, "
                    "PointwiseOpScalarListFunctor<float, 3, 3, 0>, std::divides<float> >",
                    606},
                   h100);
  ASSERT_TRUE(steps.has_value());
  EXPECT_NEAR(static_cast<double>(steps->read.count()),
              static_cast<double>(3 * steps->written.count()), 3);  // whole bytes
  // Another library's launches may have more.
  EXPECT_GT(
      WorkOfLaunch({"multi_tensor_apply_kernel<AdamFunctor<float>>", 8000}, h100)->written.count(),
      int64_t{320} * 65536 * 4);
}

TEST(LaunchedKernels, NormalisationMovesWhatItsNeighboursDo) {
  JobScript job(1);
  job.rank(0).InFlight("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>", 7, {0, 5});
  job.rank(0).InFlight(kAdd, 8, {10, 15});  // of another stream
  const TraceStore alone = job.Build();
  EXPECT_EQ(MovedElements(alone, alone.ranks()[0], V100(), Launch::kElementsOfThread)
                .Near(NodeIndex(0), KernelKind::kBatchNorm),
            0);
  const KernelModels models = Models();
  const Launch norm{"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>", 1000};
  const LaunchEstimate small = *EstimateLaunch(models, norm, 1 << 20, 0);
  const LaunchEstimate large = *EstimateLaunch(models, norm, 1 << 26, 0);
  EXPECT_EQ(large.kind, KernelKind::kBatchNorm);
  // Reads twice and writes once 64 Mi floats at 900 GB/s, of which streaming kernels attain 0.85
  // and two passes 0.9 of that.
  EXPECT_NEAR(large.time.us(), 3.0 * 4 * (1 << 26) / (0.9e6 * 0.85 * 0.9), 10);
  EXPECT_LT(small.time.us(), 25);
  // A block for each channel: three on each of 80 multiprocessors above. 48 of them have 48 x 512
  // threads' loads under way, 9.5 bytes a nanosecond each.
  const Launch narrow{norm.name, 200};
  EXPECT_NEAR(EstimateLaunch(models, narrow, 1 << 26, 0)->time.us(),
              3.0 * 4 * (1 << 26) / (48 * 9526), 10);
}

TEST(LaunchedKernels, FewResultsMeanALongReduction) {
  const KernelModels models = Models();
  const Launch many{"volta_sgemm_128x64_nn", 8000}, few{"volta_sgemm_128x64_nt", 500};
  const std::vector<Launch> both = {many, few, {kAdd, 99999}, {"volta_sgemm_128x64_nn", 0}};
  const double typical = MeanResults(models.device(), both);
  // 16 times as many blocks; the mean is four of either.
  const auto time = [&](const Launch& launch, double results) {
    return EstimateLaunch(models, launch, 0, results)->time.us();
  };
  EXPECT_LT(time(many, typical), time(many, 0));
  EXPECT_GT(time(few, typical), time(few, 0));
  const std::vector<Launch> one = {many};
  // 320 instead of 256 deep at the mean.
  EXPECT_NEAR(time(many, MeanResults(models.device(), one)) / time(many, 0), 1.25, 0.05);
  EXPECT_EQ(MeanResults(models.device(), {}), 0);
}

// Of Hopper's as many blocks as there are multiprocessors go through all tiles: 64 times as many
// results as one of 128 x 128 for each of 120 blocks, of what the neighbours move.
TEST(LaunchedKernels, BlocksThatGoThroughTiles) {
  const KernelModels models(*FindGpuPeaks("h100-sxm5-80gb"), {});
  const LaunchAttr all = {{120, 1, 1}, {384, 1, 1}}, more = {{133, 1, 1}, {384, 1, 1}};
  const int64_t tile = 128 * 128;
  const auto time = [&](std::string_view name, const LaunchAttr& attr, int64_t near) {
    const Launch launch{.name = name, .waves_milli = 900, .attr = &attr};
    return EstimateLaunch(models, launch, near, 0)->time.us();
  };
  constexpr std::string_view kPersistent = "nvjet_sm90_tst_128x128_64x6_2x1_v_bz_NNT";
  EXPECT_GT(time(kPersistent, all, 64 * 120 * tile), 8 * time(kPersistent, all, 0));
  EXPECT_EQ(time(kPersistent, more, 64 * 120 * tile), time(kPersistent, more, 0));
  constexpr std::string_view kOlder = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn";
  EXPECT_EQ(time(kOlder, all, 64 * 120 * tile), time(kOlder, all, 0));
}

// 24 x 24 blocks of 32 x 32 results, four parts of 4 bytes of each read, one written: 11.8 MB.
TEST(LaunchedKernels, PartsOfAReductionAreFour) {
  const KernelModels models = Models();
  const LaunchAttr attr = {{24, 24, 1}, {32, 16, 1}};
  const Launch launch{.name = "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>",
                      .waves_milli = 2000,
                      .attr = &attr};
  const double whole = EstimateLaunch(models, launch, 1 << 30, 0)->time.us();
  const double bytes = 24.0 * 24 * 32 * 32 * 4 * 5;
  const double bandwidth = models.device().dram_gbps * 1e3 * StreamEfficiency(models);
  EXPECT_GT(whole, bytes / bandwidth);
  EXPECT_LT(whole, bytes / bandwidth + 10);
}

// Gradients of filters are summed over 32 images, a thread each: nothing of a GEMM's blocks, nor of
// what the neighbours move.
TEST(LaunchedKernels, SumsOfImagesReadThemByThreads) {
  const KernelModels models = Models();
  const LaunchAttr attr = {{2048, 1, 1}, {128, 1, 1}};
  const Launch launch{
      .name = "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*, void const*)",
      .waves_milli = 2000,
      .attr = &attr};
  const auto estimate = EstimateLaunch(models, launch, 1 << 30, 0);
  const double streamed = 2048.0 * 128 * 4 * 33 / (models.device().dram_gbps * 1e3);
  EXPECT_GT(estimate->time.us(), streamed);
  EXPECT_LT(estimate->time.us(), 1.6 * streamed + 5);
}

// Blocks of a concatenation of scattered tensors say nothing of their size, others' do.
TEST(LaunchedKernels, ConcatenationsOfScatteredTensorsMoveWhatTheirNeighboursDo) {
  const KernelModels models = Models();
  const LaunchAttr attr = {{160, 2, 1}, {512, 1, 1}};
  const auto time = [&](std::string_view name, int64_t near) {
    const Launch launch{.name = name, .waves_milli = 1000, .attr = &attr};
    return EstimateLaunch(models, launch, near, 0)->time.us();
  };
  constexpr std::string_view kScattered = "void CatArrayBatchedCopy<OpaqueType<2u>, unsigned int>";
  constexpr std::string_view kOne = "void CatArrayBatchedCopy_contig<OpaqueType<2u>, unsigned int>";
  EXPECT_GT(time(kScattered, 1 << 26), 8 * time(kScattered, 1 << 20));
  EXPECT_EQ(time(kOne, 1 << 26), time(kOne, 1 << 20));
}

TEST(LaunchedKernels, EveryLaunchOfKnownSizeHasATime) {
  const KernelModels models = Models();
  for (const std::string_view name :
       {"", "x", "volta_sgemm_128x64_nn", "void cudnn::detail::dgrad_engine<float, 512>",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>",
        "void cudnn::ops::nchwToNhwcKernel<float, float>", "multi_tensor_apply_kernel<"}) {
    EXPECT_FALSE(EstimateLaunch(models, {name, 0}, 1000, 0).has_value());
    for (const uint32_t waves : {1U, 1500U, 4'000'000'000U}) {
      const SimTime time = EstimateLaunch(models, {name, waves}, 0, 0)->time;
      EXPECT_GE(time.us(), 2) << name << " " << waves;
      EXPECT_LT(time.us(), 1e12) << name << " " << waves;
    }
  }
}

TEST(LaunchedKernels, AnotherChipsKernelSaysNothing) {
  const KernelModels models = Models();
  OperatorCall call;
  call.shape = LinearOp{1024, 1024, 1024, false};
  call.dtype = DType::kFloat32;
  const KernelWork work = Kernels(call)[0];
  const Launch launch{"volta_sgemm_32x32_sliced1x4_tn", 5000};
  Estimate estimate = models.Predict(work, Precision::kFloat32);
  const SimTime before = estimate.time;
  EXPECT_FALSE(ChosenForChip(models.device(), "NVIDIA H100 80GB HBM3"));
  EXPECT_FALSE(ChosenForChip(models.device(), "a device of no name"));
  EXPECT_TRUE(ChosenForChip(models.device(), "Tesla V100-SXM2-16GB"));
  EXPECT_TRUE(ChosenForChip(models.device(), ""));
  EXPECT_TRUE(ByLaunchedGemm(models, launch, work, Precision::kFloat32, estimate));
  EXPECT_NE(estimate.time, before);
  EXPECT_TRUE(estimate.extrapolated);
}

}  // namespace
}  // namespace foretrace
