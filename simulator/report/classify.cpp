#include "simulator/report/classify.h"

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

using Family = KernelClass::Family;
using Direction = KernelClass::Direction;

// Bits of op_flags_.
constexpr uint8_t kBackwardBit = 1;
constexpr uint8_t kEmbeddingBit = 2;
constexpr uint8_t kConvolutionBit = 4;
constexpr int kCollectiveShift = 3;  // CollectiveOp in the upper five bits
static_assert(static_cast<int>(CollectiveOp::kCount) <= 32);

uint8_t Pack(const OpRole& c) {
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
    case CollectiveOp::kAllGather:
      return WorkGroup::kAllGather;
    case CollectiveOp::kReduceScatter:
      return WorkGroup::kReduceScatter;
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
  static constexpr std::array<std::string_view, 16> kNames = {"embedding_forward",
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
                                                              "all_gather",
                                                              "reduce_scatter",
                                                              "other_collective",
                                                              "send_recv"};
  return EnumName(kNames, group);
}

Classifier::Classifier(const TraceStore& store) : store_(store) {
  op_flags_.resize(store.ranks().size());
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    std::vector<uint8_t>& flags = op_flags_[r];
    flags.assign(rank.size(), 0);
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      const uint8_t own_flags = Pack(store.roles().of_op(rank.kind(n), rank.name(n)));
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
      if (!store_.roles().of_op(NodeKind::kCpuOp, rank.name(op)).bookkeeping) return op;
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
  const KernelClass c = store_.roles().of_kernel(rank.name(node));
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
      // A library may run a convolution as a plain GEMM.
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
