#pragma once
// Sizes of linear layers of the forward pass, by what flows through the kernels around them.

#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/cost/traced/attention_launches.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/matrix_sizes.h"

namespace foretrace {

// Norms and losses tell how many rows activations have, and element-wise kernels how many elements,
// so that the columns of a layer's input and result are known where such a kernel is beside it.
// Where several could be meant, those sizes are taken by which most of what is around is explained:
// x before the layer, y behind it, copies of weights, attention's heads, the tiles of the layer's
// own kernel; where there are norms, x or y has the columns of one. What several layers of one
// input make is used in their order.
class ForwardLayers {
 public:
  // Keeps references to what it is given.
  ForwardLayers(const LaunchFlow& flow, const AttentionLaunches& attention)
      : flow_(flow), attention_(attention) {}

  // Of the GEMM at place i; not known: its neighbours do not tell.
  MatrixSizes Of(size_t i) const;
  // That GEMM was of those sizes. Given in the order of the flow.
  void Passed(size_t i, const MatrixSizes& sizes);
  // The last one's.
  MatrixSizes last() const { return sizes_; }

 private:
  struct Around {
    std::vector<size_t> before, behind;  // element-wise kernels
    int64_t same_input = 0;              // columns, where the layer before has the same
    int64_t copied = 0;                  // elements that came from the host right before
    bool gated = false;                  // what lies before is made of that one's result
    bool to_attention = false;           // which is given the result at once
    int64_t attended = 0;                // columns of the result of attention right before
    int64_t queries = 0;     // columns of what attention behind asks with, where this makes them
    bool to_loss = false;    // of as many classes
    bool as_before = false;  // values, which are as many as the keys that the layer before made
  };

  Around Look(size_t i) const;
  void LookBehind(size_t i, Around& around) const;
  bool GivesLoss(size_t i) const;
  int64_t HeadsTogether(size_t attention) const;
  // Columns that its input and its result may have.
  std::pair<std::vector<int64_t>, std::vector<int64_t>> Candidates(size_t i, int64_t rows,
                                                                   const Around& around) const;
  bool Weighs(int64_t w, int64_t x, const Around& around) const;
  // How much of what is around is explained by these sizes; 0: what the kernel's tiles hold is not.
  double Score(size_t i, const MatrixSizes& sizes, const Around& around) const;

  const LaunchFlow& flow_;
  const AttentionLaunches& attention_;
  size_t last_ = SIZE_MAX;  // the layer before
  size_t run_ = 0;  // the first of the layers that end with it and follow each other at once
  MatrixSizes sizes_;
};

}  // namespace foretrace
