#include "simulator/cost/kernel/kernel_names.h"

#include <algorithm>
#include <initializer_list>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/name_numbers.h"

namespace foretrace {
namespace {

struct RoleRule {
  KernelRole role;
  std::initializer_list<std::string_view> parts;
};

// Kernels that PyTorch's compiler generates say what they do, then which operators are fused in
// them, of which GEMMs are none (torch/_inductor/codegen/triton.py): their epilogues are.
KernelRole RoleOfGenerated(std::string_view name) {
  if (ContainsAny(name, {"triton_tem_", "triton_mm", "triton_bmm"})) return KernelRole::kMatmul;
  if (ContainsAny(name, {"triton_red_", "triton_per_"})) return KernelRole::kReduction;
  return KernelRole::kUnknown;
}

// The first match wins. NVIDIA's and PyTorch's naming; AMD's rocBLAS names begin with Cijk.
KernelRole RoleOf(std::string_view name) {
  if (name.starts_with("triton_")) return RoleOfGenerated(name);
  static const RoleRule kRules[] = {
      {KernelRole::kSplitReduce,
       {"splitKreduce", "splitk_reduce", "SplitKReduce", "reduce_1Block_kernel", "PostGSU"}},
      {KernelRole::kEmbedding, {"split_embedding", "dense_embedding", "embedding_codegen"}},
      // No GEMMs, for all that their names contain.
      {KernelRole::kElementwise, {"epilogue::impl", "OpTensorFwdBias", "Op2dTensor"}},
      {KernelRole::kUnknown,
       {"fbgemm_gpu::", "convert_", "_convert", "causal_conv1d", "conv_depthwise", "ConvDepthwise",
        "dwconv", "grouped_direct_kernel",
        // TensorRT-LLM's and FlashInfer's passes around the GEMMs of experts, whose namespace
        // stands among the arguments of those too (moe_kernels.cu).
        "doActivation", "doGatedActivation", "expandInputRows", "finalizeMoe", "ExpertPrefixSum",
        "BuildExpertMaps", "computeStridesTma", "loraAddBias", "loraReorder", "deformable_"}},
      {KernelRole::kSort,
       {"RadixSort", "DeviceScan", "DeviceReduceByKey", "linearize_index", "DeviceCompactInit",
        "MergeSort", "SortKVInPlace"}},
      {KernelRole::kTransform,
       {"winogradForwardData",
        "winogradForwardFilter",
        "winogradForwardOutput",
        "winogradWgradData",
        "winogradWgradDelta",
        "winogradWgradOutput",
        "winograd_nonfused",
        "nchwToNhwc",
        "nhwcToNchw",
        "nchwToFoldedNhwc",
        "scalePackedTensor",
        "OffsetsKernel",
        "im2col",
        "col2im",
        "Im2d2Col",
        "Col2Im2d",
        "Im2Col",
        "tensorTransform",
        "convertTensor",
        "nhwcAddPadding",
        "batched_transpose",
        "transpose_NCHW",
        "transpose_CNHW",
        "SubTensorOp",
        "fft2d_",
        "flip_filter"}},
      {KernelRole::kMatmul, {"gemm",        "gemv",
                             "scudnn",      "wgrad",
                             "dgrad",       "implicit_convolve",
                             "xmma",        "cutlass",
                             "conv",        "Cijk_",
                             "winograd",    "nvjet_",
                             "AsmConv",     "Conv_v",
                             "gridwise_",   "igemm_",
                             "dot_kernel<", "matmul",
                             "MatMul",      "fused_moe_kernel",
                             "grouped_mm",  "marlin",
                             "Marlin",      "machete",
                             "bmm_",        "GemmKernel"}},
      {KernelRole::kReduction,
       {"reduce_kernel", "GammaBetaBackward", "cuComputePartGradGammaBeta"}},
      {KernelRole::kConverted, {"LoadWithCast"}},
      {KernelRole::kElementwise, {"vectorized_elementwise", "unrolled_elementwise"}},
      // Copies by 16 bytes stream.
      {KernelRole::kElementwise,
       {"CatArrayBatchedCopy_aligned16", "CatArrayBatchedCopy_vectorized"}},
      {KernelRole::kConcat, {"CatArrayBatchedCopy"}},
      {KernelRole::kGather, {"index_elementwise_kernel", "indexSelect"}},
      {KernelRole::kUnknown, {"elementwise_kernel_with_index"}},
      {KernelRole::kStrided, {"elementwise_kernel"}},
  };
  for (const RoleRule& rule : kRules) {
    if (ContainsAny(name, rule.parts)) return rule.role;
  }
  return KernelRole::kUnknown;
}

// Element-wise kernels over strided memory name how many elements a thread has
// (aten/src/ATen/native/cuda/CUDALoops.cuh): four where types are looked up, else two, or four of
// those under 4 bytes. gpu_kernel_impl has also run those that look nothing up, but for results of
// 4 bytes by two. Of two elements the second is not seen to wait (DLRM-8).
void ReadTurns(std::string_view name, KernelTraits& traits) {
  constexpr int64_t kElements = 4;
  if (traits.role == KernelRole::kConverted) traits.elements_in_turn = kElements;
  if (traits.role != KernelRole::kStrided || !ContainsAny(name, {"elementwise_kernel<128, 4, "}))
    return;
  traits.elements_in_turn = kElements;
  const bool looks_up = ContainsAny(name, {"at::native::gpu_kernel_impl<"}) &&
                        !ContainsAny(name, {"BFloat16", "Half", "bool", "char"});
  if (looks_up) traits.role = KernelRole::kStridedConverted;
}

// The number after the last `key` in the name; 0: there is none, or it is no width of a load.
int64_t NumberAfter(std::string_view name, std::string_view key) {
  const size_t at = name.rfind(key);
  if (at == name.npos) return 0;
  int64_t number = 0;
  constexpr int64_t kWidest = 16;
  for (size_t i = at + key.size(); i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i) {
    number = 10 * number + (name[i] - '0');
    if (number > kWidest) return 0;
  }
  return number;
}

// rows x cols and depth, with `between` before the depth: "256x64_32" and "128x128x64".
NamedTile TileAt(std::string_view text, char between) {
  constexpr size_t kDigits = 4;
  NamedTile tile;
  tile.rows = TakeNumber(text, kDigits).value_or(0);
  if (!text.starts_with('x')) return {};
  text.remove_prefix(1);
  tile.cols = TakeNumber(text, kDigits).value_or(0);
  if (!text.starts_with(between)) return {};
  text.remove_prefix(1);
  tile.depth = TakeNumber(text, kDigits).value_or(0);
  return std::min({tile.rows, tile.cols, tile.depth}) > 0 ? tile : NamedTile();
}

// Of a convolution, or of AMD's GEMMs.
NamedTile TileOf(std::string_view name) {
  const bool tiled = name.starts_with("Cijk_") || ContainsAny(name, {"fprop", "dgrad", "wgrad"});
  return tiled ? StatedTile(name) : NamedTile();
}

// flash_fwd_kernel<traits, Is_dropout, Is_causal, ...> and flash_bwd_..._kernel<the same>
// (csrc/flash_attn/src/flash_{fwd,bwd}_kernel.h); those with split keys have other parameters.
void ReadFlashAttention(std::string_view name, KernelTraits& traits) {
  if (!ContainsAny(name, {"flash_fwd_kernel<", "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<"}))
    return;
  traits.flash_attention_2 = true;
  constexpr std::string_view kEndOfTraits = "> >, ";
  const size_t end = name.find(kEndOfTraits);
  if (end == name.npos) return;
  std::string_view rest = name.substr(end + kEndOfTraits.size());
  const size_t comma = rest.find(", ");
  traits.causal = comma != rest.npos && rest.substr(comma + 2).starts_with("true");
}

}  // namespace

NamedTile StatedTile(std::string_view name) {
  constexpr std::string_view kMacroTile = "_MT";
  if (name.starts_with("Cijk_")) {
    const size_t at = name.find(kMacroTile);
    return at == name.npos ? NamedTile() : TileAt(name.substr(at + kMacroTile.size()), 'x');
  }
  constexpr std::string_view kSize = "tilesize";
  if (const size_t at = name.find(kSize); at != name.npos) {
    return TileAt(name.substr(at + kSize.size()), 'x');
  }
  for (size_t at = name.find('_'); at != name.npos; at = name.find('_', at + 1)) {
    const NamedTile tile = TileAt(name.substr(at + 1), '_');
    if (tile.known()) return tile;
  }
  return {};
}

KernelTraits TraitsOfKernel(std::string_view name) {
  KernelTraits traits;
  traits.role = RoleOf(name);
  ReadFlashAttention(name, traits);
  ReadTurns(name, traits);
  traits.element_bytes = NumberAfter(name, "OpaqueType<");
  if (traits.role != KernelRole::kMatmul) return traits;
  traits.tile = TileOf(name);
  traits.by_warps = traits.tile.known() && !ContainsAny(name, {"sm90", "sm100"});
  traits.load_elements = std::max(NumberAfter(name, "align"), NumberAfter(name, "ldg"));
  // cuBLAS's kernels for Hopper and later name the types of operands and results by a letter each:
  // h fp16, t bf16, q and o fp8, s fp32, which they take through TF32: "nvjet_tst_...", since
  // cuBLAS 13 "nvjet_sm90_tst_...".
  constexpr std::string_view kJet = "nvjet_";
  if (const size_t at = name.find(kJet); at != name.npos && at + kJet.size() < name.size()) {
    std::string_view types = name.substr(at + kJet.size());
    if (const size_t chip = types.find('_'); types.starts_with("sm") && chip + 1 < types.size()) {
      types.remove_prefix(chip + 1);
    }
    const char type = types[0];
    traits.precision_known = true;
    traits.precision = type == 'h' || type == 't'   ? Precision::kHalf
                       : type == 'q' || type == 'o' ? Precision::kFloat8
                                                    : Precision::kTensorFloat32;
    return traits;
  }
  // cuBLAS and CUTLASS name the tensor instruction: s1688 takes fp32 operands through TF32.
  if (ContainsAny(name, {"s1688gemm", "tf32", "tfloat32_t", "s1688cudnn", "s1688fprop",
                         "s1688dgrad", "s1688wgrad"})) {
    traits.precision = Precision::kTensorFloat32;
    traits.precision_known = true;
  } else if (ContainsAny(name, {"e4m3", "e5m2", "E4m3", "fp8_gemm", "_F8"})) {
    // The types of the operands stand first, before that of the result, which may be of 16 bits.
    traits.precision = Precision::kFloat8;
    traits.precision_known = true;
  } else if (ContainsAny(name, {"h884", "h1688", "s884", "f16", "16816", "hgemm", "hmma", "bf16",
                                "bfloat16_tE", "half_tE"})) {
    traits.precision = Precision::kHalf;
    traits.precision_known = true;
  } else if (ContainsAny(name, {"_HHS_", "_HB_", "_BBS_", "_BB_", "_HSS_", "_BSS_"})) {
    // Tensile's names begin with the types of operands, accumulator and scale: Cijk_Ailk_Bljk_BBS_.
    traits.precision = Precision::kHalf;
    traits.precision_known = true;
  } else if (ContainsAny(name, {"sgemm", "scudnn", "gemmSN", "<float"})) {
    traits.precision_known = true;
  }
  return traits;
}

std::optional<bool> SumsOverRows(std::string_view name) {
  if (ContainsAny(name, {"_nt_", "_NTT", "_NTN"}) || name.ends_with("_nt")) return true;
  if (ContainsAny(name, {"_nn_", "_NNT", "_NNN"}) || name.ends_with("_nn")) return false;
  return std::nullopt;
}

}  // namespace foretrace
