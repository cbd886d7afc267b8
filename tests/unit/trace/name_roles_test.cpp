#include "simulator/trace/name_roles.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

using Family = KernelClass::Family;
using Direction = KernelClass::Direction;

struct KernelCase {
  const char* name;
  Family family;
  Direction direction = Direction::kUnknown;
};

// Kernel names as public profiles hold them (traces/README.md lists the sets): DLRM on V100 and
// A100 with FBGEMM, ResNet-50 and AlexNet with cuDNN, a small MLP on MI250 with ROCm 6.2.
constexpr KernelCase kRealNames[] = {
    {"void split_embedding_codegen_forward_unweighted_kernel<float, float, float, false, long, "
     "1ul>",
     Family::kEmbedding, Direction::kForward},
    {"void dense_embedding_codegen_forward_unweighted_kernel<float, float, float, long, 1ul, 8ul>",
     Family::kEmbedding, Direction::kForward},
    {"void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>",
     Family::kEmbedding, Direction::kBackward},
    {"split_embedding_backward_codegen_adagrad_unweighted_find_long_segments(at::Generic",
     Family::kEmbedding, Direction::kBackward},
    {"void bounds_check_indices_kernel<long>(at::GenericPackedTensorAccessor<long, 1ul>",
     Family::kEmbedding},
    {"void linearize_index_kernel<long>(at::GenericPackedTensorAccessor<long, 1ul>",
     Family::kEmbedding},
    {"void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>",
     Family::kMemory},
    {"void permute_pooled_embs_kernel<float>(float const*, long const*)", Family::kMemory},
    {"void recat_copy_async_kernel<float>(long const*, long const*)", Family::kMemory},
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>",
     Family::kMemory},
    {"void at::native::elementwise_kernel<128, 2, "
     "at::native::gpu_kernel_impl<at::native::(anonymous "
     "namespace)::direct_copy_kernel_cuda(at::TensorIteratorBase&)",
     Family::kMemory},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >",
     Family::kMemory},
    {"void (anonymous namespace)::indexing_backward_kernel<float, 4>(long*, long*)",
     Family::kMemory, Direction::kBackward},
    {"void nchwToNhwcKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>",
     Family::kMemory},
    {"volta_sgemm_128x32_nt", Family::kGemm},
    {"ampere_sgemm_32x32_sliced1x4_tn", Family::kGemm},
    {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>", Family::kGemm},
    {"void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false, cublasGemvTensorStridedBatched>",
     Family::kGemm},
    {"void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024, false>", Family::kGemm},
    {"void splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>",
     Family::kGemm},
    {"void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float const> > "
     ">",
     Family::kGemm},
    {"void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, "
     "cublasLtEpilogue_t)",
     Family::kGemm},
    // AMD, hipBLASLt through Tensile.
    {"Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0_AFC1", Family::kGemm},
    {"volta_scudnn_128x64_relu_interior_nn_v1", Family::kConvolution},
    {"cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
     Family::kConvolution},
    {"void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>",
     Family::kConvolution},
    {"void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>", Family::kConvolution,
     Direction::kBackward},
    {"void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>", Family::kConvolution,
     Direction::kBackward},
    {"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", Family::kConvolution},
    {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16",
     Family::kConvolution, Direction::kForward},
    {"void fft2d_r2c_32x32<float, false, 0u, false>(float2*)", Family::kConvolution},
    {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>", Family::kOther},
    {"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>", Family::kOther,
     Direction::kBackward},
    {"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float> >", Family::kOther},
    {"void fbgemm_gpu::(anonymous namespace)::some_kernel<int>", Family::kOther},
    {"void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int> >",
     Family::kUnknown},
    {"void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", Family::kOther},
    {"void ms_deformable_im2col_gpu_kernel<float>(int, float const*)", Family::kOther},
    {"void tensorrt_llm::kernels::cutlass_kernels::doGatedActivationKernel<__nv_bfloat16>",
     Family::kOther},
    // Types in the arguments of a GEMM make no other kernel of it.
    {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::half_t, "
     "tensorrt_llm::kernels::cutlass_kernels::TmaWarpSpecializedGroupedGemmInput> >",
     Family::kGemm},
    {"void flashinfer::AppendPagedKVCacheKernel<128u, 1u, __nv_bfloat16, int>", Family::kMemory},
    {"triton_tem_fused_flex_attention_0", Family::kAttention},
    {"_fwd_grouped_kernel_stage1", Family::kAttention, Direction::kForward},
    {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", Family::kCommunication},
    {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >",
     Family::kUnknown},
};

TEST(NameRoles, RealKernelNames) {
  for (const KernelCase& c : kRealNames) {
    const KernelClass got = ClassOfKernel(c.name);
    EXPECT_EQ(static_cast<int>(got.family), static_cast<int>(c.family)) << c.name;
    EXPECT_EQ(static_cast<int>(got.direction), static_cast<int>(c.direction)) << c.name;
  }
}

TEST(NameRoles, OpNames) {
  EXPECT_TRUE(
      RoleOfOp("autograd::engine::evaluate_function: AddmmBackward0", NodeKind::kCpuOp).backward);
  EXPECT_TRUE(RoleOfOp("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                       NodeKind::kCpuOp)
                  .backward);
  EXPECT_TRUE(RoleOfOp("## backward ##", NodeKind::kAnnotation).backward);
  EXPECT_FALSE(RoleOfOp("forward-backward", NodeKind::kAnnotation).backward);
  EXPECT_FALSE(RoleOfOp("DistributedDataParallel.forward", NodeKind::kCpuOp).backward);
  EXPECT_TRUE(RoleOfOp("torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>", NodeKind::kCpuOp)
                  .embedding);
  EXPECT_FALSE(
      RoleOfOp("## EmbeddingBagCollectionAwaitable wait() ##", NodeKind::kAnnotation).embedding);
  EXPECT_TRUE(RoleOfOp("aten::cudnn_convolution", NodeKind::kCpuOp).convolution);
  EXPECT_EQ(RoleOfOp("nccl:all_to_all", NodeKind::kAnnotation).collective, CollectiveOp::kAllToAll);
  EXPECT_EQ(RoleOfOp("c10d::alltoall_base_", NodeKind::kCpuOp).collective, CollectiveOp::kAllToAll);
}

TEST(NameRoles, CommunicationOfEveryLibraryAndItsBookkeeping) {
  for (const char* name : {"c10d::allreduce_", "nccl:all_reduce", "rccl:broadcast", "gloo:barrier",
                           "record_param_comms"}) {
    EXPECT_TRUE(RoleOfOp(name, NodeKind::kCpuOp).communication) << name;
  }
  EXPECT_TRUE(RoleOfOp("nccl:all_reduce", NodeKind::kAnnotation).communication);
  EXPECT_FALSE(RoleOfOp("aten::record_param_comms_like", NodeKind::kCpuOp).communication);
  EXPECT_TRUE(RoleOfOp("record_param_comms", NodeKind::kCpuOp).bookkeeping);
  EXPECT_FALSE(RoleOfOp("c10d::allreduce_", NodeKind::kCpuOp).bookkeeping);
}

// One name may be an op's and a range's, of which less is said.
TEST(NameRoles, OfAStoreGoByWhatTheNodeIs) {
  RankTraceBuilder b(RankInfo{});
  const LaneIndex thread = b.AddLane(Lane::Kind::kCpuThread, 1);
  for (const NodeKind kind : {NodeKind::kCpuOp, NodeKind::kAnnotation, NodeKind::kRuntimeCall}) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.name = "aten::conv2d";
    spec.lane = thread;
    b.AddNode(spec);
  }
  auto built = b.Build({});
  ASSERT_TRUE(built.ok());
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  const TraceStore store = *TraceStore::Assemble(std::move(ranks), {});
  const StringId name = store.ranks()[0].name(NodeIndex(0));
  EXPECT_TRUE(store.roles().of_op(NodeKind::kCpuOp, name).convolution);
  EXPECT_FALSE(store.roles().of_op(NodeKind::kAnnotation, name).convolution);
  EXPECT_FALSE(store.roles().of_op(NodeKind::kRuntimeCall, name).convolution);
}

// Names of vLLM, PyTorch's symmetric memory, DeepEP (in a public profile of DeepSeek) and NCCL.
TEST(NameRoles, KernelsThatExchangeDataThemselves) {
  for (const char* name :
       {"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "multimem_all_reduce_kernel",
        "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)",
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
        "ncclGenericOp"}) {
    EXPECT_TRUE(ClassOfKernel(name).peers) << name;
  }
  for (const char* name :
       {"void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)",
        "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >"}) {
    EXPECT_FALSE(ClassOfKernel(name).peers) << name;
  }
}

}  // namespace
}  // namespace foretrace
