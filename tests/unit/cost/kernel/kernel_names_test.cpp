#include "simulator/cost/kernel/kernel_names.h"

#include <gtest/gtest.h>

#include <string_view>

namespace foretrace {
namespace {

struct Case {
  std::string_view name;
  KernelRole role;
};

// Names of public profiles, and those that libraries' sources give (in brackets: which).
TEST(KernelNames, SayWhatPartAKernelPlays) {
  using enum KernelRole;
  const Case cases[] = {
      // cuBLAS, CUTLASS, rocBLAS
      {"volta_sgemm_64x32_sliced1x4_nn", kMatmul},
      {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", kMatmul},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", kMatmul},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_align8>",
       kMatmul},
      {"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN", kMatmul},  // cuBLAS 12.6 and later
      {"void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false>", kMatmul},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>", kSplitReduce},
      {"void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, float> >",
       kMatmul},
      {"void reduce_1Block_kernel<float, 128, 7, cublasGemvTensorStridedBatched<float> >",
       kSplitReduce},
      {"Cijk_Alik_Bljk_SB_MT64x32x16_SN_1LDSB0_AMAS0", kMatmul},
      // cuDNN, MIOpen
      {"void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float>",
       kTransform},
      {"void tensorTransformGeneric<__nv_bfloat16, __nv_bfloat16, float, true>", kTransform},
      {"sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x32x32",
       kMatmul},
      {"miopenSp3AsmConv_v30_3_1_gfx90a_fp32_stride1", kMatmul},
      {"batched_transpose_32x32_half", kTransform},
      // PyTorch
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
       "std::array<char*, 1ul> >",
       kElementwise},
      {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda, "
       "std::array<char*, 2ul>, 4, at::native::memory::LoadWithCast<1>, "
       "at::native::memory::StoreWithCast<1> >",
       kConverted},
      {"void at::native::elementwise_kernel<128, 2, "
       "at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> >",
       kStrided},
      {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<"
       "at::native::BinaryFunctor<float, float, float, MulFunctor<float> > >",
       kStridedConverted},
      // Also of two bytes without a look-up, before PyTorch 2.1.
      {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<"
       "at::native::CUDAFunctor_add<c10::Half> >",
       kStrided},
      {"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, "
       "at::native::func_wrapper_t<float> > >",
       kReduction},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, "
       "64>",
       kConcat},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<float, "
       "unsigned int, 2, 128, 1>",
       kElementwise},
      {"void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>",
       kGather},
      {"void at::native::bitonicSortKVInPlace<-2, -1, 16, 16, float, long>", kSort},
      {"void at_cuda_detail::cub::DeviceRadixSortSingleTileKernel<Policy800, false, long>", kSort},
      // Generated: what is fused says nothing of what the kernel does.
      {"triton_poi_fused_convolution_relu_3", kUnknown},
      {"triton_red_fused_native_layer_norm_addmm_7", kReduction},
      {"triton_per_fused__softmax_bmm_2", kReduction},
      {"triton_tem_fused_addmm_relu_5", kMatmul},
      // FBGEMM
      {"split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1",
       kEmbedding},
  };
  for (const Case& c : cases) EXPECT_EQ(TraitsOfKernel(c.name).role, c.role) << c.name;
}

TEST(KernelNames, SayInWhichPrecisionGemmsAre) {
  const auto precision = [](std::string_view name) { return TraitsOfKernel(name).precision; };
  EXPECT_EQ(precision("nvjet_hsh_64x8_64x16_4x1_v_bz_TNT"), Precision::kHalf);
  EXPECT_EQ(precision("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN"), Precision::kHalf);
  EXPECT_EQ(precision("nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT"), Precision::kFloat8);
  EXPECT_EQ(precision("nvjet_sss_128x128_32x5_v_bz_TNN"), Precision::kTensorFloat32);
  EXPECT_EQ(precision("ampere_sgemm_128x64_tn"), Precision::kFloat32);
}

TEST(KernelNames, SayHowManyElementsAThreadTakesInTurn) {
  const auto turns = [](std::string_view name) { return TraitsOfKernel(name).elements_in_turn; };
  EXPECT_EQ(turns("void at::native::elementwise_kernel<128, 4, "
                  "at::native::gpu_kernel_impl_nocast<CUDAFunctor_add<c10::BFloat16> >"),
            4);
  EXPECT_EQ(turns("void at::native::elementwise_kernel<128, 2, "
                  "at::native::gpu_kernel_impl_nocast<CUDAFunctor_add<float> >"),
            0);
  EXPECT_EQ(turns("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >"), 0);
}

}  // namespace
}  // namespace foretrace
