#pragma once
// To which kind of work a device node belongs: the groups of the multi-GPU paper's Figure 2
// (embedding, GEMM, memory, other, all-to-all, all-reduce), with convolution and attention kept
// apart from GEMM, and the remaining communication apart from both collectives.

#include <cstdint>
#include <string_view>
#include <vector>

#include "simulator/engine/observer.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

enum class WorkGroup : uint8_t {
  kEmbeddingForward,
  kEmbeddingBackward,
  kGemmForward,
  kGemmBackward,
  kConvolutionForward,
  kConvolutionBackward,
  kAttentionForward,
  kAttentionBackward,
  kMemory,  // concat, copy, transpose, permute, gather, fill, memcpy, memset
  kOther,   // element-wise, normalisation, reduction, optimizer, ...
  kAllToAll,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kOtherCollective,
  kSendRecv,
  kCount,
};
std::string_view Name(WorkGroup group);

// Classifies device nodes by the roles of names. Each op inherits from the ops around it once, at
// construction; Group() is two array reads.
class Classifier {
 public:
  explicit Classifier(const TraceStore& store);
  // The node must be device work.
  WorkGroup Group(RankIndex rank, NodeIndex node) const;
  // The innermost framework op that issued a device node or encloses a CPU node; invalid when none.
  // An op of bookkeeping stands for the op around it, where there is one.
  NodeIndex FrameworkOp(RankIndex rank, NodeIndex node) const;

 private:
  const TraceStore& store_;
  std::vector<std::vector<uint8_t>> op_flags_;  // by rank, node
};

}  // namespace foretrace
