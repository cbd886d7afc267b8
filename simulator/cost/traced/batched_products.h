#pragma once
// Sizes of products of batches whose calls have no shapes, by what is done with their results.

#include <cstdint>
#include <vector>

#include "simulator/cost/operator/operator.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/sparse_lookups.h"

namespace foretrace {

// Scores have a softmax, whose rows are those of all their heads. Of features that meet each other
// (as DLRM's do) there is one for each table and one of what is dense.
class BatchedProducts {
 public:
  // Keeps references to what it is given.
  BatchedProducts(const RankTrace& rank, const LaunchFlow& flow, const SparseLookups& lookups)
      : rank_(rank), flow_(flow), lookups_(lookups) {}

  // Whether the GEMM at that place, which no call was recorded around, is one.
  bool Is(size_t place) const;
  // b = 0: not known.
  BatchedMatmulOp Of(size_t place) const;
  // Columns of scores, by the tiles of a GEMM that makes or takes them: what an element-wise kernel
  // beside moves, else as many as there are rows in a batch, where they may be; 0: not known.
  int64_t ScoreColumns(size_t softmax) const;

 private:
  int64_t Batch(size_t place) const { return rank_.launch(flow_.order()[place])->grid[2]; }
  size_t SoftmaxAmong(const std::vector<size_t>& places) const;
  BatchedMatmulOp Interaction(size_t place) const;

  const RankTrace& rank_;
  const LaunchFlow& flow_;
  const SparseLookups& lookups_;
};

}  // namespace foretrace
