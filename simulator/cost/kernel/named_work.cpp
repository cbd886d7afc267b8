#include "simulator/cost/kernel/named_work.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "simulator/base/contains.h"

namespace foretrace {
namespace {

struct Rule {
  NamedWork work;
  std::initializer_list<std::string_view> parts;  // any of them
};

constexpr NamedWork Neighbours(KernelKind kind, double read, double written) {
  return {kind, read, written, true};
}
constexpr NamedWork Threads(KernelKind kind, double read, double written, double elements = 4) {
  return {kind, read, written, false, elements};
}

// PyTorch's compiler gives a warp 256 elements of a point-wise kernel
// (torch/_inductor/runtime/triton_heuristics.py: num_elements_per_warp).
constexpr double kGenerated = 8;

// The first match wins, so that the specific stand before the general: "embedding_bag_backward" is
// no bag of norms, "softmax_dropout" no dropout.
const Rule kRules[] = {
    // Generated code says what it does, then which operators are fused in it.
    {Threads(KernelKind::kReduction, 1, 0, kGenerated), {"triton_red_", "triton_per_"}},
    {Threads(KernelKind::kElementwise, 2, 1, kGenerated), {"triton_poi_"}},
    {Threads(KernelKind::kConcat, 1, 1, kGenerated), {"triton_for_"}},
    // cuDNN's normalisation reads what it is given once for the statistics and once more; backward
    // those are two tensors.
    {Neighbours(KernelKind::kBatchNorm, 1, 1), {"singleread"}},
    {Neighbours(KernelKind::kBatchNorm, 4, 1),
     {"bn_bw", "batch_norm_backward", "BatchNormBackward", "BatchNormBwd"}},
    {Neighbours(KernelKind::kBatchNorm, 2, 1), {"bn_fw", "batch_norm", "BatchNorm"}},
    // bitsandbytes' csrc/ops.cu (NUM_2STATE, NUM_1STATE): one element a thread; gradient and
    // parameter of 16 bits, and one or two bytes of state.
    {Threads(KernelKind::kOptimizer, 3, 2, 1), {"kOptimizerStatic8bit2State"}},
    {Threads(KernelKind::kOptimizer, 2.5, 1.5, 1), {"kOptimizerStatic8bit1State"}},
    // lion_pytorch/triton.py: of the parameter, its gradient and one state.
    {Threads(KernelKind::kOptimizer, 3, 2), {"update_fn_kernel"}},
    {Threads(KernelKind::kOptimizer, 4, 3), {"multi_tensor", "multiTensor", "kOptimizer"}},
    {Threads(KernelKind::kElementwise, 1, 1), {"rotary", "Rotary", "rope_", "Rope", "RoPE"}},
    {Threads(KernelKind::kEmbedding, 1, 1),
     {"mbedding", "compute_grad_weight", "krn_partial", "sum_and_scatter", "bounds_check_indices"}},
    {Threads(KernelKind::kOptimizer, 4, 3),
     {"Adam", "adam", "Adagrad", "adagrad", "Lamb", "lamb_", "sgd_", "SGD"}},
    {Threads(KernelKind::kConvolution, 1, 1),
     {"conv_depthwise", "grouped_direct_kernel", "ConvDepthwise", "dwconv", "causal_conv1d",
      "fft2d_", "OffsetsKernel"}},
    {Threads(KernelKind::kCopy, 1, 1), {"reshape_and_cache", "concat_and_cache", "gather_cache"}},
    {Neighbours(KernelKind::kCopy, 1, 1), {"AppendPaged"}},
    // Rows of FlashInfer, in whose namespace all is ("flash"): a block each. Sampling reads a row
    // of probabilities at least once (include/flashinfer/sampling.cuh).
    {Neighbours(KernelKind::kReduction, 1, 0), {"flashinfer::sampling"}},
    {Neighbours(KernelKind::kLayerNorm, 1, 1), {"flashinfer::norm"}},
    {Threads(KernelKind::kElementwise, 1, 1), {"flashinfer::activation", "flashinfer::quantiz"}},
    // Samples an image where a thread's result says (Deformable-DETR's ms_deform_im2col_cuda.cuh,
    // torchvision's deform_conv2d_kernel.cu).
    {Threads(KernelKind::kIndex, 1, 1, 1), {"deformable_im2col", "deformable_col2im"}},
    // A thread of aten/src/ATen/native/cuda/GridSampler.cu has a place in the result and goes
    // through its channels, one of UpSampleBilinear2d.cu and UpSampleBicubic2d.cu through samples
    // too.
    {Neighbours(KernelKind::kIndex, 1, 1), {"grid_sampler_", "indexFuncLargeIndex"}},
    // A block for each channel of a sample: an input, its steps and its gate.
    {Neighbours(KernelKind::kOther, 3, 1), {"selective_scan"}},
    {Neighbours(KernelKind::kOther, 1, 1),
     {"upsample_bilinear2d_out_frame", "upsample_bicubic2d_out_frame"}},
    // Threads of other UpSample*.cu, of ReflectionPad.cu, ReplicationPadding.cu and
    // TensorTransformations.cu (roll) have an element of the result.
    {Threads(KernelKind::kOther, 1, 1, 1), {"upsample_"}},
    {Threads(KernelKind::kCopy, 1, 1, 1),
     {"reflection_pad", "replication_pad", "roll_cuda_kernel"}},
    // Experts of TensorRT-LLM (moe_kernels.cu): blocks go through rows of tokens.
    {Neighbours(KernelKind::kElementwise, 1, 1), {"doActivation", "doGatedActivation"}},
    {Neighbours(KernelKind::kIndex, 1, 1), {"expandInputRows"}},
    {Neighbours(KernelKind::kReduction, 1, 1), {"finalizeMoeRouting", "moe_sum"}},
    // Thin products of adapters (vLLM, punica) and of vLLM for ROCm (csrc/rocm/skinny_gemms.cu).
    {Threads(KernelKind::kGemm, 1, 1),
     {"lora_shrink", "lora_expand", "bgmv", "sgmv", "wvSplitK", "LLGemm1"}},
    {Neighbours(KernelKind::kLayerNorm, 1, 1), {"RMSNorm", "RmsNorm", "LayerNormKernel"}},
    {Threads(KernelKind::kTranspose, 1, 1), {"permute", "Permute"}},
    // Attention before softmax, norms and GEMMs, parts of which its names contain; beside what
    // NamesAttention tells, passes around it.
    {Neighbours(KernelKind::kAttention, 3, 1), {"attn", "sdpa", "mla_", "_mla"}},
    {Neighbours(KernelKind::kSoftmax, 1, 1), {"oftmax", "oftMax", "oftMAX"}},
    {Neighbours(KernelKind::kReduction, 1, 0),
     {"GammaBeta", "PartGrad", "ComputeInternalGradients", "ln_bwd_finalize", "partial_reduce"}},
    {Neighbours(KernelKind::kLayerNorm, 2, 1),
     {"layer_norm_grad", "LayerNormBackward", "ln_bwd", "rms_norm_bwd", "rmsnorm_bwd",
      "ComputeGradInput", "layernorm_bwd"}},
    {Neighbours(KernelKind::kLayerNorm, 1, 1),
     {"layer_norm", "layernorm", "LayerNorm", "layerNorm", "rms_norm", "rmsnorm", "Rmsnorm",
      "ln_fwd", "group_norm", "GroupNorm", "groupNorm", "RowwiseMoments", "instance_norm",
      "InstanceNorm"}},
    {Neighbours(KernelKind::kPooling, 1, 1), {"pool", "Pool"}},
    {Neighbours(KernelKind::kDropout, 1, 1.25), {"dropout", "Dropout"}},
    // As many blocks as the device holds at most go over all of a tensor of random numbers
    // (aten/src/ATen/native/cuda/DistributionTemplates.h, calc_execution_policy).
    {Neighbours(KernelKind::kFill, 0, 1), {"distribution_elementwise_grid_stride_kernel"}},
    {Threads(KernelKind::kFill, 0, 1),
     {"distribution_", "FillFunctor", "fill_kernel", "arange", "linspace",
      "elementwise_kernel_with_index", "fillBuffer", "memset", "rng_", "curand", "randperm",
      "eye_kernel"}},
    // 16 bytes of its result a thread (aten/src/ATen/native/cuda/TensorShape.cu); types in its name
    // are the result's, then what is converted.
    {Threads(KernelKind::kConcat, 1, 2), {"chunk_cat_cuda_kernel<float, c10::BFloat16"}},
    // Tensors that do not lie in one piece have two blocks for each multiprocessor, whatever they
    // hold (aten/src/ATen/native/cuda/Shape.cu, getCatGrid).
    {Neighbours(KernelKind::kConcat, 1, 1), {"CatArrayBatchedCopy<"}},
    {Threads(KernelKind::kConcat, 1, 1), {"chunk_cat_cuda_kernel", "CatArray"}},
    // One block, 16 of its samples a thread (aten/src/ATen/native/cuda/Loss.cu).
    {Threads(KernelKind::kReduction, 1, 0, 16),
     {"nll_loss_forward_reduce", "nll_loss_backward_reduce"}},
    // Parts of cuBLAS's reductions, of which four are typical: 32 x 16 threads take 32 x 32 results
    // (GEMMs of the captured jobs, traces/README.md, whose sizes are known).
    {Threads(KernelKind::kReduction, 4, 1, 2), {"splitKreduce_kernel"}},
    // CUTLASS's: blocks of 4 x 128 results; cuDNN's gradients of filters, of 32 images.
    {Threads(KernelKind::kReduction, 4, 1), {"ReduceSplitK"}},
    {Threads(KernelKind::kReduction, 32, 1, 1), {"reduce_wgrad_nchw_helper"}},
    // Not the gathering of what was found: sorts and searches for the largest.
    {Neighbours(KernelKind::kOther, 1, 0), {"gatherTopK"}},
    {Threads(KernelKind::kOther, 1, 1), {"SortKVInPlace"}},
    // CUB's sorts and scans: 16 elements a thread are typical (9 to 23;
    // cub/device/dispatch/tuning).
    {Threads(KernelKind::kOther, 1, 1, 16),
     {"RadixSortOnesweep", "RadixSortDownsweep", "DeviceScanKernel", "DeviceScanByKeyKernel"}},
    {Threads(KernelKind::kOther, 1, 0, 16), {"RadixSortUpsweep"}},
    // Sums by blocks: a thread's elements are many, and not in the name.
    {Neighbours(KernelKind::kReduction, 1, 0),
     {"reduce_kernel", "reduceBlock", "DeviceReduceKernel", "DeviceReduceSingleTile",
      "DeviceSegmentedReduce", "nll_loss", "ClassNLLCriterion", "cross_entropy", "CrossEntropy",
      "l2norm", "L2Norm", "cleanup", "norm_kernel", "amax_kernel", "welford"}},
    // PyTorch Geometric's torch_scatter and pyg_lib: an element a thread.
    {Threads(KernelKind::kIndex, 1, 1, 1), {"scatter_kernel<", "segment_csr"}},
    {Threads(KernelKind::kIndex, 1, 1), {"index_",        "indexSelect",    "indexing_backward",
                                         "indexFunc",     "indexAdd",       "indexCopy",
                                         "gather",        "Gather",         "scatter",
                                         "Scatter",       "take_kernel",    "put_kernel",
                                         "masked_select", "masked_scatter", "tril",
                                         "triu",          "spmm",           "SpMM",
                                         "SDDMM",         "csrmm",          "csrmv",
                                         "cusparse"}},
    {Threads(KernelKind::kTranspose, 1, 1),
     {"transpose", "Transpose", "ToNhwc", "ToNchw", "nhwcTo", "nchwTo", "tensorTransform", "im2col",
      "col2im", "Im2d2Col", "Im2Col"}},
    {Threads(KernelKind::kCopy, 1, 1), {"copy", "Copy", "expand", "unfold"}},
    {Threads(KernelKind::kElementwise, 1, 1),
     {"lementwise", "ElementWise", "elemWise",  "ointwise",    "gelu",           "Gelu",
      "GELU",       "silu",        "Silu",      "SiLU",        "swiglu",         "SwiGLU",
      "geglu",      "act_and_mul", "uant",      "cast",        "bias",           "Bias",
      "activation", "residual",    "lstm_cell", "gru_cell",    "epilogue::impl", "op_tensor",
      "OpTensor",   "fused_add",   "relu",      "element_mul", "_rope"}},
};

// Attention of Triton's tutorial and of those that took it over (xFormers, LightLLM, SGLang,
// AOTriton), whose names say it nowhere; "chunk_fwd_kernel_o" and its like are others.
constexpr std::array<std::string_view, 6> kWrittenInTriton = {
    "_fwd_kernel",    "_bwd_kernel",  "_fwd_grouped_kernel",
    "_splitK_reduce", "bwd_kernel_d", "bwd_preprocess"};
// What engines do beside it in its name: caches, and experts' rows (LightLLM's and SGLang's
// "_fwd_kernel_destindex_copy_kv", "_fwd_kernel_ep_gather").
bool IsBesideAttention(std::string_view name) {
  return ContainsAny(name, {"reshape_and_cache", "concat_and_cache", "gather_cache", "AppendPaged",
                            "destindex_copy", "_ep_scatter", "_ep_gather"});
}
// bitsandbytes' kDequantizeBlockwise of values in 4 bits, whose kind the last parameter is.
bool DequantisesFourBits(std::string_view name) {
  return ContainsAny(name, {"kDequantizeBlockwise<"}) &&
         ContainsAny(name, {", 64, 8, 1>", ", 64, 8, 2>"});
}
bool IsWrittenInTriton(std::string_view name) {
  return std::ranges::any_of(kWrittenInTriton,
                             [&](std::string_view begin) { return name.starts_with(begin); }) &&
         !IsBesideAttention(name);
}

}  // namespace

bool NamesAttention(std::string_view name) {
  // Generated kernels name the operators around which they move elements.
  if (name.starts_with("triton_") && !name.starts_with("triton_tem_")) return false;
  if (IsBesideAttention(name)) return false;
  if (IsWrittenInTriton(name)) return true;
  if (ContainsAny(name, {"Flash", "fmha", "Fmha", "mha_", "ttention", "attn_fwd", "attn_bwd",
                         "PagedKVCache", "RaggedKVCache", "WithKVCache", "MergeState"})) {
    return true;
  }
  constexpr std::string_view kFlash = "flash", kFlashInfer = "flashinfer";
  for (size_t at = name.find(kFlash); at != name.npos; at = name.find(kFlash, at + 1)) {
    if (!name.substr(at).starts_with(kFlashInfer)) return true;
  }
  return false;
}

NamedWork NamedWorkOf(std::string_view name) {
  if (IsWrittenInTriton(name)) return Neighbours(KernelKind::kAttention, 3, 1);
  // 8 bytes of two values a thread.
  if (DequantisesFourBits(name)) return Threads(KernelKind::kElementwise, 0.25, 1, 16);
  for (const Rule& rule : kRules) {
    if (ContainsAny(name, rule.parts)) return rule.work;
    if (rule.work.kind == KernelKind::kAttention && NamesAttention(name)) return rule.work;
  }
  return {};
}

}  // namespace foretrace
