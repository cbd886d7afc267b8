#include "simulator/trace/name_roles.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {
namespace {

using Family = KernelClass::Family;
using Direction = KernelClass::Direction;

struct Pattern {
  std::string_view text;  // case-sensitive substring of the kernel's name
  Family family;
};

// The first match wins, so that the specific stand before the general: "fbgemm_gpu" and
// "implicit_convolve_sgemm" contain "gemm" and are none. Names as PyTorch, FBGEMM, cuBLAS, cuDNN,
// CUTLASS, NCCL, RCCL, Tensile (AMD), MIOpen and FlashAttention give them to profilers.
constexpr Pattern kKernelPatterns[] = {
    // Communication kernels of traces whose importer could not tell them.
    {"nccl", Family::kCommunication},
    {"rccl", Family::kCommunication},
    // Positions are turned, not looked up; samples are taken where a layer says; passes around
    // experts' GEMMs stand in a namespace of CUTLASS's name (TensorRT-LLM's moe_kernels.cu).
    {"rotary_embedding", Family::kOther},
    {"rope_embedding", Family::kOther},
    {"deformable_", Family::kOther},
    {"doActivation", Family::kOther},
    {"doGatedActivation", Family::kOther},
    {"expandInputRows", Family::kOther},
    {"finalizeMoe", Family::kOther},
    {"ExpertPrefixSum", Family::kOther},
    {"BuildExpertMaps", Family::kOther},
    {"computeStridesTma", Family::kOther},
    {"loraAddBias", Family::kOther},
    {"loraReorder", Family::kOther},
    // Embedding lookup: FBGEMM table-batched, PyTorch's embedding and embedding_bag.
    {"embedding", Family::kEmbedding},
    {"EmbeddingBag", Family::kEmbedding},
    {"bounds_check_indices", Family::kEmbedding},
    {"linearize_index_kernel", Family::kEmbedding},
    {"krn_partials_reduce", Family::kEmbedding},
    {"compute_grad_weight", Family::kEmbedding},
    // Attention: memory-efficient and flash kernels; not what fills its cache.
    {"AppendPagedKVCache", Family::kMemory},
    {"reshape_and_cache", Family::kMemory},
    {"fmha", Family::kAttention},
    {"flash_fwd", Family::kAttention},
    {"flash_bwd", Family::kAttention},
    {"flash::", Family::kAttention},
    {"attn_fwd", Family::kAttention},
    {"attn_bwd", Family::kAttention},
    {"AttentionKernel", Family::kAttention},
    {"AttentionBackwardKernel", Family::kAttention},
    {"paged_attention", Family::kAttention},
    {"flex_attention", Family::kAttention},
    {"multihead_attention", Family::kAttention},
    {"_fwd_grouped_kernel_stage1", Family::kAttention},
    {"unified_attention", Family::kAttention},
    {"PagedKVCache", Family::kAttention},
    {"RaggedKVCache", Family::kAttention},
    {"FlashAttn", Family::kAttention},
    {"Fmha", Family::kAttention},
    {"sdpa", Family::kAttention},
    // Movement of data, before the families whose names these contain.
    {"direct_copy_kernel", Family::kMemory},
    {"copy_kernel", Family::kMemory},
    {"copy_async_kernel", Family::kMemory},
    {"copyBuffer", Family::kMemory},
    {"fillBuffer", Family::kMemory},
    {"CatArrayBatchedCopy", Family::kMemory},
    {"FillFunctor", Family::kMemory},
    {"nchwToNhwc", Family::kMemory},
    {"nhwcToNchw", Family::kMemory},
    {"transpose", Family::kMemory},
    {"permute_", Family::kMemory},
    {"index_elementwise_kernel", Family::kMemory},
    {"indexSelect", Family::kMemory},
    {"index_select", Family::kMemory},
    {"gather_kernel", Family::kMemory},
    {"scatter_gather", Family::kMemory},
    {"indexing_backward_kernel", Family::kMemory},
    {"indexFuncLargeIndex", Family::kMemory},
    {"triu_tril", Family::kMemory},
    {"fbgemm_gpu", Family::kOther},
    // Convolution by any algorithm, before GEMM: most are implicit GEMMs.
    {"fprop", Family::kConvolution},
    {"dgrad", Family::kConvolution},
    {"wgrad", Family::kConvolution},
    {"scudnn", Family::kConvolution},
    {"hcudnn", Family::kConvolution},
    {"h884cudnn", Family::kConvolution},
    {"s16816cudnn", Family::kConvolution},
    {"winograd", Family::kConvolution},
    {"convolve", Family::kConvolution},
    {"conv2d", Family::kConvolution},
    {"conv_depthwise", Family::kConvolution},
    {"naive_conv", Family::kConvolution},
    {"causal_conv1d", Family::kConvolution},
    {"grouped_conv", Family::kConvolution},
    {"igemm_fwd", Family::kConvolution},
    {"igemm_bwd", Family::kConvolution},
    {"igemm_wrw", Family::kConvolution},
    {"miopenSp3Asm", Family::kConvolution},
    {"im2col", Family::kConvolution},
    {"Im2d2Col", Family::kConvolution},
    {"col2im", Family::kConvolution},
    {"fft2d_", Family::kConvolution},
    {"implicit_gemm", Family::kConvolution},
    {"computeOffsetsKernel", Family::kConvolution},
    {"cudnn::cnn::", Family::kConvolution},
    // GEMMs, their split-K reductions and fused epilogues.
    {"gemm", Family::kGemm},
    {"gemv", Family::kGemm},
    {"Cijk_", Family::kGemm},
    {"cutlass", Family::kGemm},
    {"nvjet", Family::kGemm},
    {"matmul", Family::kGemm},
    {"fused_moe_kernel", Family::kGemm},
    {"grouped_mm", Family::kGemm},
    {"arlin::", Family::kGemm},
    {"machete", Family::kGemm},
    {"triton_tem_", Family::kGemm},
    {"triton_mm", Family::kGemm},
    {"triton_bmm", Family::kGemm},
    {"bmm_E", Family::kGemm},
    {"splitKreduce", Family::kGemm},
    {"cublas", Family::kGemm},
    {"dot_kernel", Family::kGemm},
    {"epilogue::impl", Family::kGemm},
    // A name that is recognised as none of these.
    {"bn_fw", Family::kOther},
    {"bn_bw", Family::kOther},
    {"elementwise", Family::kOther},
    {"reduce_kernel", Family::kOther},
    {"triton_", Family::kOther},
};

// All-reduces by one kernel of PyTorch's symmetric memory, of vLLM, SGLang and AITER, and of
// TensorRT-LLM and FlashInfer, which fuse what follows; DeepEP's dispatch and combine; kernels of
// NVSHMEM and MSCCL++.
constexpr std::string_view kPeerKernels[] = {
    "multimem_",     "one_shot_all_reduce",     "two_shot_all_reduce", "cross_device_reduce",
    "ep::internode", "allreduce_fusion_kernel", "ep::intranode",       "nvshmem",
    "mscclpp"};

struct DirectionPattern {
  std::string_view text;
  Direction direction;
};
constexpr DirectionPattern kDirectionPatterns[] = {
    {"backward", Direction::kBackward}, {"Backward", Direction::kBackward},
    {"dgrad", Direction::kBackward},    {"wgrad", Direction::kBackward},
    {"_bwd", Direction::kBackward},     {"igemm_wrw", Direction::kBackward},
    {"bn_bw", Direction::kBackward},    {"fprop", Direction::kForward},
    {"forward", Direction::kForward},   {"_fwd", Direction::kForward},
};
// Not "winogradForward*": cuDNN names a data transform so in the backward pass too. The pattern
// "forward" above does not match its capital.

// Finds the first of a table's patterns that a text contains, in one pass over the text: at each
// position only patterns that begin with the character there are compared.
template <size_t N>
class FirstMatch {
 public:
  template <typename Entry>
  consteval explicit FirstMatch(const Entry (&table)[N]) {
    static_assert(N < kNone);
    first_.fill(kNone);
    for (size_t i = N; i-- > 0;) {
      uint8_t& first = first_[static_cast<unsigned char>(table[i].text.front())];
      next_[i] = first;
      first = static_cast<uint8_t>(i);
    }
  }
  template <typename Entry>
  const Entry* Find(const Entry (&table)[N], std::string_view text) const {
    size_t best = N;
    for (size_t at = 0; at < text.size(); ++at) {
      for (uint8_t i = first_[static_cast<unsigned char>(text[at])]; i < best; i = next_[i]) {
        if (text.substr(at).starts_with(table[i].text)) best = i;
      }
    }
    return best == N ? nullptr : &table[best];
  }

 private:
  static constexpr uint8_t kNone = 0xff;
  // By first character: the first pattern that begins with it; by pattern: the next that does.
  std::array<uint8_t, 256> first_{};
  std::array<uint8_t, N> next_{};
};
template <typename Entry, size_t N>
FirstMatch(const Entry (&)[N]) -> FirstMatch<N>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsCommunicationOp(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {"c10d::", "nccl:", "rccl:", "gloo:"};
  return name == "record_param_comms" ||
         std::ranges::any_of(kPrefixes, [&](std::string_view p) { return name.starts_with(p); });
}

}  // namespace

KernelClass ClassOfKernel(std::string_view name) {
  static constexpr FirstMatch kFamilies(kKernelPatterns);
  static constexpr FirstMatch kDirections(kDirectionPatterns);
  KernelClass result;
  if (const Pattern* pattern = kFamilies.Find(kKernelPatterns, name)) {
    result.family = pattern->family;
  }
  if (const DirectionPattern* pattern = kDirections.Find(kDirectionPatterns, name)) {
    result.direction = pattern->direction;
  }
  result.peers =
      result.family == Family::kCommunication ||
      std::ranges::any_of(kPeerKernels, [&](std::string_view p) { return Contains(name, p); });
  return result;
}

OpRole RoleOfOp(std::string_view name, NodeKind kind) {
  OpRole result;
  result.communication = IsCommunicationOp(name);
  result.bookkeeping = name == "record_param_comms";
  const std::string lower = LowerCase(name);
  const bool annotation = kind == NodeKind::kAnnotation;
  // A range called "forward_backward" says nothing of its parts.
  result.backward = (Contains(lower, "backward") && !(annotation && Contains(lower, "forward"))) ||
                    Contains(lower, "autograd::engine") || Contains(lower, "torch::autograd::");
  if (annotation) {
    if (name.starts_with("nccl:")) result.collective = ParseCollectiveOp(name.substr(5));
    return result;
  }
  // Ops, not modules: a module range such as "EmbeddingBagCollection" holds its communication too.
  result.embedding =
      Contains(lower, "aten::embedding") || Contains(lower, "aten::_embedding") ||
      Contains(lower, "embedding_codegen") || Contains(lower, "splitlookupfunction") ||
      Contains(lower, "embeddingbackward") || Contains(lower, "embeddingbagbackward") ||
      Contains(lower, "embeddingdensebackward") || Contains(lower, "fbgemm::bounds_check_indices");
  result.convolution = Contains(lower, "aten::conv") || Contains(lower, "aten::_conv") ||
                       Contains(lower, "aten::cudnn_conv") ||
                       Contains(lower, "aten::miopen_conv") ||
                       Contains(lower, "convolutionbackward");
  if (name.starts_with("c10d::") || name.starts_with("nccl:")) {
    result.collective = ParseCollectiveOp(name.substr(name.find_first_of(':') + 1));
  }
  return result;
}

void NameRoles::Assign(std::span<const RankTrace> ranks, const StringPool& strings) {
  roles_.assign(strings.size(), {});
  enum Seen : uint8_t { kOp = 1, kRange = 2, kKernel = 4 };
  std::vector<uint8_t> seen(strings.size(), 0);
  for (const RankTrace& rank : ranks) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      const NodeKind kind = rank.kind(n);
      const uint8_t as = kind == NodeKind::kCpuOp        ? kOp
                         : kind == NodeKind::kAnnotation ? kRange
                         : kind == NodeKind::kKernel     ? kKernel
                                                         : 0;
      uint8_t& before = seen[rank.name(n).value];
      if ((as & ~before) == 0) continue;
      before |= as;
      const std::string_view name = strings.Get(rank.name(n));
      Roles& roles = roles_[rank.name(n).value];
      if (as == kOp) roles.op = RoleOfOp(name, kind);
      if (as == kRange) roles.range = RoleOfOp(name, kind);
      if (as == kKernel) roles.kernel = ClassOfKernel(name);
    }
  }
}

}  // namespace foretrace
