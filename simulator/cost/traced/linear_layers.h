#pragma once
// Sizes of linear layers whose calls have no shapes, by what flows through the kernels around them.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cost/traced/attention_launches.h"
#include "simulator/cost/traced/autograd_functions.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/matrix_sizes.h"

namespace foretrace {

// Norms and losses tell how many rows activations have, and element-wise kernels how many elements,
// so that the columns of a layer's input and result are known where such a kernel is beside it.
// Where several could be meant, those sizes are taken by which most of what is around is explained:
// x before the layer, y behind it, copies of weights, attention's heads, the tiles of the layer's
// own kernel; where there are norms, x or y has the columns of one. What several layers of one
// input make is used in their order. The GEMMs of its backward pass follow: autograd goes through
// forward calls in reverse order. Given kernels in the order of the flow.
class LinearLayers {
 public:
  // Keeps references to what it is given.
  LinearLayers(const TraceStore& store, const RankTrace& rank, const LaunchFlow& flow,
               const AttentionLaunches& attention, const AutogradFunctions& functions)
      : store_(store), rank_(rank), flow_(flow), attention_(attention), functions_(functions) {}

  // Of the GEMM at place i, launched by `call`, or by none: then that is the kernel itself. Not
  // known: another operator's, or its neighbours do not tell.
  MatrixSizes Next(size_t i, NodeIndex call);
  // The GEMM at place i has shapes; of the backward pass these are its own.
  void Known(size_t i, NodeIndex call, const MatrixSizes& sizes);
  // The layer whose backward pass the kernel at place i, or its call, belongs to, where its
  // gradients came last.
  MatrixSizes Behind(size_t i, NodeIndex call) const;
  // The forward layer before.
  MatrixSizes last() const { return last_sizes_; }

 private:
  struct Open {  // a layer whose backward pass has not come
    NodeIndex call;
    std::vector<MatrixSizes> layers;  // one, but of a function's
  };
  struct Around {
    std::vector<size_t> before, behind;  // element-wise kernels
    int64_t same_input = 0;              // columns, where the layer before has the same
    int64_t copied = 0;                  // elements that came from the host right before
    bool gated = false;                  // what lies before is made of that one's result
    bool to_attention = false;           // which is given the result at once
    int64_t attended = 0;                // columns of the result of attention right before
    int64_t queries = 0;     // columns of what attention behind asks with, where this makes them
    bool as_before = false;  // values, which are as many as the keys that the layer before made
  };

  struct Pass {
    NodeIndex node;      // autograd's around a call, or that itself; invalid: forward
    bool again = false;  // forward within it: computed again
  };
  Pass PassOf(NodeIndex call) const;
  std::string ForwardOf(NodeIndex autograd) const;
  std::string LayerName(NodeIndex call) const;
  void Begin(size_t i, NodeIndex call, const MatrixSizes& sizes);
  void Passed(size_t i, const MatrixSizes& sizes);
  MatrixSizes Gradient(size_t i, NodeIndex backward, const std::string& forward);
  MatrixSizes GradientOf(size_t i);
  MatrixSizes OfNoCall(size_t i, NodeIndex kernel);
  MatrixSizes SumOverRows(size_t i) const;
  MatrixSizes Forward(size_t i) const;
  Around Look(size_t i) const;
  void LookBehind(size_t i, Around& around) const;
  int64_t HeadsTogether(size_t attention) const;
  // Columns that its input and its result may have.
  std::pair<std::vector<int64_t>, std::vector<int64_t>> Candidates(size_t i, int64_t rows,
                                                                   const Around& around) const;
  // How much of what is around is explained by these sizes; 0: what the kernel's tiles hold is not.
  double Score(size_t i, const MatrixSizes& sizes, const Around& around) const;

  const TraceStore& store_;
  const RankTrace& rank_;
  const LaunchFlow& flow_;
  const AttentionLaunches& attention_;
  const AutogradFunctions& functions_;
  std::map<std::string, std::vector<Open>> open_;  // by the name of the call, or of its function
  LaneIndex thread_;                               // of the forward pass
  size_t last_ = SIZE_MAX;                         // the layer before
  size_t run_ = 0;  // the first of the layers that end with it and follow each other at once
  MatrixSizes last_sizes_;
  NodeIndex backward_;  // autograd's node, how many gradients it has made, and of which layers
  size_t made_ = 0, last_gradient_ = SIZE_MAX;
  std::vector<MatrixSizes> layers_;
};

}  // namespace foretrace
