// Kernels of frameworks, libraries and engines by name alone: what each is taken for, and that each
// has a time once its launch is known.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/named_work.h"
#include "simulator/trace/name_roles.h"

namespace foretrace {
namespace {

struct Known {
  std::string_view name;
  KernelKind kind;  // by its launch
};

// Names as profilers show them, cut after what tells; by source.
constexpr Known kCatalogue[] = {
    // PyTorch: point-wise, fills, random numbers
    {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
     "std::array<char*, 3ul> >",
     KernelKind::kElementwise},
    {"void at::native::unrolled_elementwise_kernel<at::native::FillFunctor<int>, "
     "at::detail::Array<char*, 1> >",
     KernelKind::kFill},
    {"void at::native::elementwise_kernel<128, 2, "
     "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel",
     KernelKind::kElementwise},
    {"void (anonymous namespace)::elementwise_kernel_with_index<int, "
     "at::native::arange_cuda_out(c10::Scalar const&",
     KernelKind::kFill},
    {"void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, "
     "4, normal_and_tran",
     KernelKind::kFill},
    {"void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, "
     "1, 4, bool>",
     KernelKind::kDropout},
    {"void at::native::triu_tril_kernel<c10::BFloat16, int, true, 8, false>", KernelKind::kIndex},
    // PyTorch: reductions, scans, sorting
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
     "at::native::MeanOps<float, float> > >",
     KernelKind::kReduction},
    {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, "
     "long>",
     KernelKind::kReduction},
    {"void cunn_ClassNLLCriterion_updateOutput_kernel<float, float>(float*, float*",
     KernelKind::kReduction},
    {"void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >",
     KernelKind::kOther},
    {"void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::DeviceScanPolicy<int> >",
     KernelKind::kOther},
    {"void "
     "at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::"
     "DeviceRadixSortPolicy<long, int>",
     KernelKind::kOther},
    {"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", KernelKind::kOther},
    {"void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long>", KernelKind::kOther},
    {"void cub::DeviceReduceKernel<cub::DeviceReducePolicy<bool, int>, "
     "cub::TransformInputIterator<bool> >",
     KernelKind::kReduction},
    // PyTorch: indices
    {"void at::native::index_elementwise_kernel<128, 4, "
     "at::native::gpu_index_kernel<at::native::index_kernel_impl",
     KernelKind::kIndex},
    {"void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, "
     "2, -2, true>",
     KernelKind::kIndex},
    {"void at::native::_scatter_gather_elementwise_kernel<128, 8, "
     "at::native::_cuda_scatter_gather_internal_kernel",
     KernelKind::kIndex},
    {"void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, "
     "long, long, bool)",
     KernelKind::kIndex},
    {"void at::native::indexing_backward_kernel<float, 4>(long const*, long const*, float const*",
     KernelKind::kIndex},
    {"void at::native::(anonymous namespace)::indexFuncLargeIndex<float, long, unsigned int, 2, 2, "
     "-2, true>",
     KernelKind::kIndex},
    {"void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, "
     "long>",
     KernelKind::kEmbedding},
    {"void at::native::(anonymous namespace)::compute_grad_weight<float, long>",
     KernelKind::kEmbedding},
    {"void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, "
     "long>",
     KernelKind::kEmbedding},
    // PyTorch: copies
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>",
     KernelKind::kConcat},
    {"void at::native::(anonymous namespace)::roll_cuda_kernel<float>", KernelKind::kCopy},
    {"void at::native::im2col_kernel<float>(long, float const*", KernelKind::kTranspose},
    // PyTorch: norms, softmax
    {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, "
     "false>",
     KernelKind::kLayerNorm},
    {"void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>",
     KernelKind::kLayerNorm},
    {"void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>",
     KernelKind::kReduction},
    {"void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<float, "
     "float>",
     KernelKind::kLayerNorm},
    {"void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, float, float, "
     "float, int>",
     KernelKind::kBatchNorm},
    {"void at::native::batch_norm_backward_kernel<float, float, float, int>",
     KernelKind::kBatchNorm},
    {"void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 9, false, "
     "false>",
     KernelKind::kSoftmax},
    {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, "
     "c10::BFloat16>",
     KernelKind::kSoftmax},
    {"void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float, float>",
     KernelKind::kSoftmax},
    // PyTorch: images
    {"void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>",
     KernelKind::kPooling},
    {"void at::native::(anonymous namespace)::max_pool_backward_nhwc<float, float>",
     KernelKind::kPooling},
    {"void at::native::(anonymous namespace)::adaptive_average_pool<float>", KernelKind::kPooling},
    {"void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float, float>",
     KernelKind::kOther},
    {"void at::native::(anonymous namespace)::grid_sampler_2d_kernel<float, int>",
     KernelKind::kIndex},
    {"void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>",
     KernelKind::kConvolution},
    {"void vision::ops::(anonymous namespace)::roi_align_forward_kernel_impl<float>",
     KernelKind::kOther},
    {"void vision::ops::(anonymous namespace)::nms_kernel_impl<float>", KernelKind::kOther},
    {"void vision::ops::(anonymous namespace)::deformable_im2col_kernel<float, int>",
     KernelKind::kIndex},
    // PyTorch: optimizers, cells
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
     "namespace)::TensorList"
     "Metadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4> >",
     KernelKind::kOptimizer},
    {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int> >",
     KernelKind::kOptimizer},
    {"void at::native::(anonymous namespace)::kernel::lstm_cell_forward<float, float, int, 1>",
     KernelKind::kElementwise},
    {"void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2, (cudnnRNNBiasMode_t)2>",
     KernelKind::kElementwise},
    // PyTorch's compiler
    {"triton_poi_fused_add_mul_native_dropout_4", KernelKind::kElementwise},
    {"triton_red_fused__softmax_add_7", KernelKind::kReduction},
    {"triton_per_fused_native_layer_norm_0", KernelKind::kReduction},
    {"triton_tem_fused_addmm_relu_3", KernelKind::kGemm},
    {"triton_mm", KernelKind::kGemm},
    // cuBLAS, CUTLASS, DeepGEMM, quantised
    {"volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", KernelKind::kGemm},
    {"turing_fp16_s1688gemm_fp16_128x128_ldg8_relu_f2f_tn", KernelKind::kGemm},
    {"ampere_sgemm_32x128_nn", KernelKind::kGemm},
    {"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1",
     KernelKind::kGemm},
    {"nvjet_hsh_192x192_64x4_1x2_h_bz_coopA_NTT", KernelKind::kGemm},
    {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>",
     KernelKind::kGemm},
    {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, "
     "int> > >",
     KernelKind::kGemm},
    {"void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 128u, 128u>", KernelKind::kGemm},
    {"void marlin::Marlin<__half, 1L, 256, 1, 8, 8, 4, false>", KernelKind::kGemm},
    {"void machete::device_kernel<machete::MacheteKernelTemplate<cutlass::half_t> >",
     KernelKind::kGemm},
    {"void awq_gemm_forward_4bit_cuda_m16nXk32<128>", KernelKind::kGemm},
    {"void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>", KernelKind::kGemm},
    {"fused_moe_kernel", KernelKind::kGemm},
    {"_w8a8_block_fp8_matmul", KernelKind::kGemm},
    {"bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s5_et64x8_m64x8x32", KernelKind::kGemm},
    {"void cublasLt::epilogue::impl::globalKernel<8, 32, __half, float, __half, true, true, 1>",
     KernelKind::kElementwise},
    // rocBLAS, hipBLASLt, MIOpen, Composable Kernel
    {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x160x64_MI16x16x1_SN_LDSB1",
     KernelKind::kGemm},
    {"void "
     "ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout::gemm::"
     "RowMajor> >",
     KernelKind::kGemm},
    {"miopenSp3AsmConv_v30_3_1_gfx9_fp32_f3x2_stride1", KernelKind::kConvolution},
    {"igemm_fwd_gtcx2_nhwc_fp32_bx0_ex0_bt64x128x16_wt32x32x2", KernelKind::kConvolution},
    {"naive_conv_fwd_nchw_float_double_float", KernelKind::kConvolution},
    {"MIOpenBatchNormFwdTrainSpatial", KernelKind::kBatchNorm},
    {"MIOpenBatchNormBwdSpatial", KernelKind::kBatchNorm},
    {"mloPoolingG", KernelKind::kPooling},
    // cuDNN
    {"void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>",
     KernelKind::kConvolution},
    {"sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
     KernelKind::kConvolution},
    {"cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4>",
     KernelKind::kConvolution},
    {"void cudnn::bn_fw_tr_1C11_singleread_specialized<float, 512, 1, 2, 20>",
     KernelKind::kBatchNorm},
    {"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>",
     KernelKind::kBatchNorm},
    {"void cudnn::pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float> >",
     KernelKind::kPooling},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_128x128x64_4x1x1",
     KernelKind::kAttention},
    // Attention
    {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, "
     "false, false, "
     "cutlass::bfloat16_t> >",
     KernelKind::kAttention},
    {"void "
     "cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
     "CollectiveMainloop> > >",
     KernelKind::kAttention},
    {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::"
     "bfloat16_t>",
     KernelKind::kAttention},
    {"void fmha_fwd_splitkv_kernel<ck_tile::FmhaFwdSplitKVKernel>", KernelKind::kAttention},
    {"attn_fwd", KernelKind::kAttention},
    {"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<128> >",
     KernelKind::kAttention},
    {"void flashinfer::BatchDecodeWithPagedKVCacheKernel<2u, 4u, 8u, 16u>", KernelKind::kAttention},
    {"void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128>",
     KernelKind::kAttention},
    {"kernel_unified_attention_2d", KernelKind::kAttention},
    {"fmhaSm100aKernel_QkvBfloat16OBfloat16H64PagedKvCausalP32VarSeqQ128Kv128StaticContext",
     KernelKind::kAttention},
    {"void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8> >",
     KernelKind::kAttention},
    // Norms and point-wise kernels of extensions
    {"void cuApplyLayerNorm<float, float, float>(float*, float*, float*", KernelKind::kLayerNorm},
    {"void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<float, __half, 1024u> >",
     KernelKind::kLayerNorm},
    {"void transformer_engine::normalization::rmsnorm_fwd_general_kernel<float>",
     KernelKind::kLayerNorm},
    {"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>", KernelKind::kLayerNorm},
    {"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", KernelKind::kLayerNorm},
    {"_layer_norm_fwd_1pass_kernel", KernelKind::kLayerNorm},
    {"void scaled_upper_triang_masked_softmax_warp_forward<__half, __half, float, 11>",
     KernelKind::kSoftmax},
    {"void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, 32>", KernelKind::kSoftmax},
    {"void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>",
     KernelKind::kElementwise},
    {"void vllm::rotary_embedding_kernel<c10::BFloat16, true>", KernelKind::kElementwise},
    {"void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>",
     KernelKind::kElementwise},
    {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>", KernelKind::kCopy},
    {"void kQuantizeBlockwise<float, 4096, 4, 0, 0>", KernelKind::kElementwise},
    {"void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>", KernelKind::kElementwise},
    // Others have such parameters too.
    {"void layer_norm_forward<float, 64, 8, 1>", KernelKind::kLayerNorm},
    {"void kOptimizerStatic8bit1State<float, 1>", KernelKind::kOptimizer},
    // Recommendation
    {"void split_embedding_codegen_forward_unweighted_kernel<float, float, float, int>",
     KernelKind::kEmbedding},
    {"void "
     "split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1<float>",
     KernelKind::kEmbedding},
    {"void fbgemm_gpu::permute_2D_data_kernel<int, long, long>", KernelKind::kTranspose},
    {"void permute_pooled_embs_kernel<float>(float const*", KernelKind::kTranspose},
    // State-space models
    {"void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, true, true, "
     "true> >",
     KernelKind::kOther},
    {"void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, c10::BFloat16> >",
     KernelKind::kConvolution},
    // Other
    {"void regular_fft<256u, EPT<16u>, 16u, 2u, (padding_t)1, (twiddle_t)0>", KernelKind::kOther},
    {"void fft2d_r2c_32x32<float, false, 5u, true>(float2*, float const*",
     KernelKind::kConvolution},
    {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*", KernelKind::kOther},
};

std::string KindsOf(KernelKind got, KernelKind want) {
  return std::string(Name(got)) + " instead of " + std::string(Name(want));
}

TEST(KernelCatalogue, EveryKernelHasAClassAndATimeByItsLaunch) {
  const KernelModels models(*FindGpuPeaks("h100-sxm5-80gb"), {});
  for (const Known& known : kCatalogue) {
    const auto estimate = EstimateLaunch(models, {known.name, 1500}, 1 << 22, 0);
    ASSERT_TRUE(estimate.has_value()) << known.name;
    EXPECT_EQ(estimate->kind, known.kind)
        << known.name << ": " << KindsOf(estimate->kind, known.kind);
    EXPECT_GE(estimate->time.us(), 1) << known.name;
    EXPECT_LT(estimate->time.us(), 10'000) << known.name;
  }
}

}  // namespace
}  // namespace foretrace
