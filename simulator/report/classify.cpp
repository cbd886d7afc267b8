#include "simulator/report/classify.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"

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
    // Embedding lookup: FBGEMM table-batched, PyTorch's embedding and embedding_bag.
    {"embedding", Family::kEmbedding},
    {"EmbeddingBag", Family::kEmbedding},
    {"bounds_check_indices", Family::kEmbedding},
    {"linearize_index_kernel", Family::kEmbedding},
    {"krn_partials_reduce", Family::kEmbedding},
    {"compute_grad_weight", Family::kEmbedding},
    // Attention: memory-efficient and flash kernels.
    {"fmha", Family::kAttention},
    {"flash_fwd", Family::kAttention},
    {"flash_bwd", Family::kAttention},
    {"flash::", Family::kAttention},
    {"attn_fwd", Family::kAttention},
    {"attn_bwd", Family::kAttention},
    {"AttentionKernel", Family::kAttention},
    {"AttentionBackwardKernel", Family::kAttention},
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
    // Matrix products, their split-K reductions and fused epilogues.
    {"gemm", Family::kGemm},
    {"gemv", Family::kGemm},
    {"Cijk_", Family::kGemm},
    {"cutlass", Family::kGemm},
    {"nvjet", Family::kGemm},
    {"splitKreduce", Family::kGemm},
    {"cublas", Family::kGemm},
    {"dot_kernel", Family::kGemm},
    {"epilogue::impl", Family::kGemm},
    // A name that is recognised as none of these.
    {"bn_fw", Family::kOther},
    {"bn_bw", Family::kOther},
    {"elementwise", Family::kOther},
    {"reduce_kernel", Family::kOther},
};

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

// Bits of op_flags_.
constexpr uint8_t kBackwardBit = 1;
constexpr uint8_t kEmbeddingBit = 2;
constexpr uint8_t kConvolutionBit = 4;
constexpr int kCollectiveShift = 3;  // CollectiveOp in the upper five bits
static_assert(static_cast<int>(CollectiveOp::kCount) <= 32);

uint8_t Pack(const OpClass& c) {
  return static_cast<uint8_t>((c.backward ? kBackwardBit : 0) | (c.embedding ? kEmbeddingBit : 0) |
                              (c.convolution ? kConvolutionBit : 0) |
                              (static_cast<int>(c.collective) << kCollectiveShift));
}

WorkGroup CollectiveGroup(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllToAll:
      return WorkGroup::kAllToAll;
    case CollectiveOp::kAllReduce:
      return WorkGroup::kAllReduce;
    case CollectiveOp::kSendRecv:
      return WorkGroup::kSendRecv;
    default:
      return WorkGroup::kOtherCollective;
  }
}

WorkGroup Directed(WorkGroup forward, bool backward) {
  return static_cast<WorkGroup>(static_cast<int>(forward) + (backward ? 1 : 0));
}

}  // namespace

std::string_view Name(WorkGroup group) {
  static constexpr std::array<std::string_view, 14> kNames = {"embedding_forward",
                                                              "embedding_backward",
                                                              "gemm_forward",
                                                              "gemm_backward",
                                                              "convolution_forward",
                                                              "convolution_backward",
                                                              "attention_forward",
                                                              "attention_backward",
                                                              "memory",
                                                              "other",
                                                              "all_to_all",
                                                              "all_reduce",
                                                              "other_collective",
                                                              "send_recv"};
  return EnumName(kNames, group);
}

KernelClass ClassifyKernelName(std::string_view name) {
  static constexpr FirstMatch kFamilies(kKernelPatterns);
  static constexpr FirstMatch kDirections(kDirectionPatterns);
  KernelClass result;
  if (const Pattern* pattern = kFamilies.Find(kKernelPatterns, name)) {
    result.family = pattern->family;
  }
  if (const DirectionPattern* pattern = kDirections.Find(kDirectionPatterns, name)) {
    result.direction = pattern->direction;
  }
  return result;
}

OpClass ClassifyOpName(std::string_view name, NodeKind kind) {
  OpClass result;
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

Classifier::Classifier(const TraceStore& store)
    : store_(store), record_param_comms_(store.strings().Find("record_param_comms")) {
  const size_t names = store.strings().size();
  kernel_class_.resize(names);
  // Per name, as op and as annotation; 0xff: not yet looked at (an impossible value: its collective
  // bits exceed CollectiveOp).
  std::array<std::vector<uint8_t>, 2> own = {std::vector<uint8_t>(names, 0xff),
                                             std::vector<uint8_t>(names, 0xff)};
  std::vector<bool> kernel_seen(names);
  op_flags_.resize(store.ranks().size());
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    std::vector<uint8_t>& flags = op_flags_[r];
    flags.assign(rank.size(), 0);
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      const uint32_t name = rank.name(n).value;
      const NodeKind kind = rank.kind(n);
      if (kind == NodeKind::kKernel && !kernel_seen[name]) {
        kernel_seen[name] = true;
        kernel_class_[name] = ClassifyKernelName(store.strings().Get(StringId(name)));
      }
      uint8_t own_flags = 0;
      if (kind == NodeKind::kCpuOp || kind == NodeKind::kAnnotation) {
        uint8_t& cached = own[kind == NodeKind::kAnnotation][name];
        if (cached == 0xff) {
          cached = Pack(ClassifyOpName(store.strings().Get(StringId(name)), kind));
        }
        own_flags = cached;
      }
      // Nodes come after what encloses them. Only device nodes take from their launcher instead,
      // and Group() does that; in file-ordered traces a parent may come later and is then not
      // inherited from.
      const NodeIndex parent = rank.parent(n);
      const uint8_t inherited = parent.valid() && parent.value < i ? flags[parent.value] : 0;
      // The innermost collective wins over an outer one; the other bits add up.
      const uint8_t collective = (own_flags >> kCollectiveShift) != 0 ? own_flags : inherited;
      flags[i] = static_cast<uint8_t>(((own_flags | inherited) & 7) | (collective & ~7));
    }
  }
}

NodeIndex Classifier::FrameworkOp(RankIndex rank_index, NodeIndex node) const {
  const RankTrace& rank = store_.ranks()[rank_index];
  const NodeIndex launcher = rank.launcher(node);
  NodeIndex op = rank.parent(launcher.valid() ? launcher : node);
  // Bounded: nesting is finite in a valid store, and a corrupt one must not hang a report.
  NodeIndex bookkeeping;
  for (int depth = 0; depth < 1000 && op.valid(); ++depth) {
    if (rank.kind(op) == NodeKind::kCpuOp) {
      if (rank.name(op) != record_param_comms_) return op;
      bookkeeping = op;
    }
    op = rank.parent(op);
  }
  return bookkeeping;
}

WorkGroup Classifier::Group(RankIndex rank_index, NodeIndex node) const {
  const RankTrace& rank = store_.ranks()[rank_index];
  const NodeKind kind = rank.kind(node);
  if (kind == NodeKind::kMemcpy || kind == NodeKind::kMemset) return WorkGroup::kMemory;
  if (kind == NodeKind::kSend || kind == NodeKind::kRecv) return WorkGroup::kSendRecv;
  const NodeIndex launcher = rank.launcher(node);
  const std::vector<uint8_t>& all_flags = op_flags_[rank_index];
  const uint8_t flags = all_flags[launcher.valid() ? launcher.value : node.value];
  const auto declared = static_cast<CollectiveOp>(flags >> kCollectiveShift);
  if (kind == NodeKind::kCollective) {
    // NCCL runs all-to-all as grouped send/recv; the op that issued it tells.
    const CollectiveOp op = rank.collective_op(node);
    const bool vague = op == CollectiveOp::kUnknown || op == CollectiveOp::kSendRecv;
    return CollectiveGroup(vague && declared != CollectiveOp::kUnknown ? declared : op);
  }
  const KernelClass c = kernel_class_[rank.name(node).value];
  const bool backward = c.direction == Direction::kUnknown ? (flags & kBackwardBit) != 0
                                                           : c.direction == Direction::kBackward;
  switch (c.family) {
    case Family::kCommunication:
      return CollectiveGroup(declared);
    case Family::kAttention:
      return Directed(WorkGroup::kAttentionForward, backward);
    case Family::kConvolution:
      return Directed(WorkGroup::kConvolutionForward, backward);
    case Family::kGemm:
      // A library may run a convolution as a plain matrix product.
      return Directed(
          (flags & kConvolutionBit) != 0 ? WorkGroup::kConvolutionForward : WorkGroup::kGemmForward,
          backward);
    case Family::kEmbedding:
      return Directed(WorkGroup::kEmbeddingForward, backward);
    default:
      break;
  }
  // Sorts, scans and fills within an embedding op are part of the lookup or of its backward.
  if ((flags & kEmbeddingBit) != 0) return Directed(WorkGroup::kEmbeddingForward, backward);
  return c.family == Family::kMemory ? WorkGroup::kMemory : WorkGroup::kOther;
}

}  // namespace foretrace
