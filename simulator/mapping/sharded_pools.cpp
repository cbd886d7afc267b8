#include "simulator/mapping/sharded_pools.h"

#include <utility>

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"

namespace foretrace {

ShardedPools::ShardedPools(const MappedLayer& layer, const ParallelMapping& m, int32_t stage,
                           std::vector<double> weights, Bytes gradients, bool expandable,
                           CachingAllocator& main)
    : layer_(layer),
      main_(main),
      gathered_(expandable),
      reduced_(gradients),
      weights_(std::move(weights)),
      e_(static_cast<double>(ElementSize(layer.dtype()))),
      g_(static_cast<double>(layer.gradient_bytes())) {
  const auto [first, last] = layer.RootWeights();
  root_ = (stage == 0 ? first : 0) + (HasHead(m, stage) ? last : 0);
  embedding_ = stage == 0 && m.trains_ends() ? layer.embedding() : 0;
  trained_root_ = m.trains_ends() ? root_ : 0;
}

void ShardedPools::Free(std::vector<Block>& blocks) {
  for (const Block block : blocks) main_.Free(block);
  blocks.clear();
}

void ShardedPools::GatherRoot() {
  const Block buffer = gathered_.Allocate(WholeBytes(e_ * root_));
  for (const double part : {embedding_, root_ - embedding_}) {
    root_copies_.push_back(main_.Allocate(WholeBytes(e_ * part)));
  }
  gathered_.Free(std::exchange(copied_, buffer));
}

void ShardedPools::Gather() {
  const double block = layer_.dense() + layer_.expert();
  buffers_.push_back(gathered_.Allocate(WholeBytes(e_ * block)));
}

void ShardedPools::CopyOut() {
  if (buffers_.empty()) return;
  for (const double elements : weights_)
    copies_.push_back(main_.Allocate(WholeBytes(e_ * elements)));
  gathered_.Free(std::exchange(copied_, buffers_.front()));
  buffers_.erase(buffers_.begin());
}

void ShardedPools::Reshard() { Free(copies_); }

void ShardedPools::ReduceLayer() {
  main_.Free(reducing_);
  reducing_ = main_.Allocate(WholeBytes(g_ * (layer_.trained() + layer_.trained_expert())));
  Free(gradients_);
}

void ShardedPools::ReduceRoot() {
  const Block embedding = main_.Allocate(WholeBytes(e_ * embedding_));
  Free(root_copies_);
  main_.Free(reducing_);
  reducing_ = main_.Allocate(WholeBytes(g_ * trained_root_));
  main_.Free(embedding);
  main_.Free(std::exchange(head_, -1));
  main_.Free(std::exchange(reducing_, -1));
}

}  // namespace foretrace
