#pragma once
// Sizes of linear layers whose calls have no shapes, by what flows through the kernels around them.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cost/traced/autograd_functions.h"
#include "simulator/cost/traced/forward_layers.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/matrix_sizes.h"

namespace foretrace {

// Of the forward pass they are told by what is around (forward_layers.h); the GEMMs of the backward
// pass follow: autograd goes through forward calls in reverse order. Given kernels in the order of
// the flow.
class LinearLayers {
 public:
  // Keeps references to what it is given.
  LinearLayers(const TraceStore& store, const RankTrace& rank, const LaunchFlow& flow,
               const AttentionLaunches& attention, const AutogradFunctions& functions)
      : store_(store), rank_(rank), flow_(flow), functions_(functions), forward_(flow, attention) {}

  // Of the GEMM at place i, launched by `call`, or by none: then that is the kernel itself. Not
  // known: another operator's, or its neighbours do not tell.
  MatrixSizes Next(size_t i, NodeIndex call);
  // The GEMM at place i has shapes; of the backward pass these are its own.
  void Known(size_t i, NodeIndex call, const MatrixSizes& sizes);
  // The layer whose backward pass the kernel at place i, or its call, belongs to, where its
  // gradients came last.
  MatrixSizes Behind(size_t i, NodeIndex call) const;
  // The forward layer before.
  MatrixSizes last() const { return forward_.last(); }

 private:
  struct Open {  // a layer whose backward pass has not come
    NodeIndex call;
    std::vector<MatrixSizes> layers;      // one, but of a function's
    bool input = false, weights = false;  // of a compiled graph: which gradients have come
  };
  struct Pass {
    NodeIndex node;         // autograd's around a call, or that itself; invalid: forward
    bool again = false;     // forward within it: computed again
    bool compiled = false;  // a graph's, compiled, of either pass
  };
  Pass PassOf(NodeIndex call) const;
  std::string ForwardOf(NodeIndex autograd) const;
  std::string LayerName(NodeIndex call) const;
  void Begin(size_t i, NodeIndex call, const MatrixSizes& sizes);
  MatrixSizes Gradient(size_t i, NodeIndex backward, const std::string& forward);
  MatrixSizes GradientOf(size_t i);
  MatrixSizes OfWeights(size_t i, const MatrixSizes& layer) const;
  MatrixSizes OfCompiled(size_t i, NodeIndex call, const Pass& pass);
  bool GivenWeights(size_t i, const MatrixSizes& layer) const;
  MatrixSizes OfNoCall(size_t i, NodeIndex kernel);
  MatrixSizes SumOverRows(size_t i) const;

  const TraceStore& store_;
  const RankTrace& rank_;
  const LaunchFlow& flow_;
  const AutogradFunctions& functions_;
  ForwardLayers forward_;
  std::map<std::string, std::vector<Open>> open_;  // by the name of the call, or of its function
  LaneIndex thread_;                               // of the forward pass
  NodeIndex backward_;  // autograd's node, how many gradients it has made, and of which layers
  size_t made_ = 0, last_gradient_ = SIZE_MAX;
  std::vector<MatrixSizes> layers_;
};

}  // namespace foretrace
