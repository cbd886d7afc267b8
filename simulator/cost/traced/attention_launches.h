#pragma once
// Sizes of attention by the launches of its kernels.

#include <cstdint>
#include <optional>

#include "simulator/cost/operator/operator.h"
#include "simulator/cost/traced/launch_flow.h"

namespace foretrace {

// FlashAttention-2 and PyTorch's memory-efficient attention have a block for so many queries of a
// head; cuDNN's as many as there are multiprocessors, but its passes around gradients say more.
// FlashAttention-2 names its mask; of others nothing tells which tokens it hides, but attention of
// a model that is trained to say the next token (next_token.h) is taken to be causal.
class AttentionLaunches {
 public:
  // Of a head, where nothing tells.
  static constexpr int64_t kHeadDimension = 64;

  // Keeps references to what it is given.
  AttentionLaunches(const RankTrace& rank, const LaunchFlow& flow);

  // That of the kernel at place i, which has a launch; nullopt: not one of these.
  std::optional<AttentionOp> Of(size_t i, bool backward) const;

 private:
  std::optional<AttentionOp> Sizes(size_t i, bool backward) const;
  std::optional<AttentionOp> Sdpa(size_t i) const;
  int64_t Sequence(size_t i, int64_t blocks, int64_t block, int64_t batch) const;
  const LaunchAttr* ProductsNear(size_t i) const;

  const RankTrace& rank_;
  const LaunchFlow& flow_;
  bool causal_ = false;
  const LaunchAttr* alike_products_ = nullptr;  // of all gradients of cuDNN's; null: there are two
};

}  // namespace foretrace
