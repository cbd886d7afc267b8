#pragma once
// What calls of functions compute that no operator of PyTorch stands behind: layers of Transformer
// Engine, Megatron and others, as torch.autograd.Function's or an extension's own.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/cost/operator/trace_operator.h"
#include "simulator/cost/traced/autograd_functions.h"
#include "simulator/cost/traced/kernel_calls.h"
#include "simulator/cost/traced/launch_flow.h"
#include "simulator/cost/traced/matrix_sizes.h"

namespace foretrace {

// By the name and tensors of a forward call: its layers, one behind the other (an input, and
// matrices of weights whose rows are as long as what they are given, or half of it where the layer
// before is gated), its attention, its input as rows. Grouped layers have weights for each expert,
// as many matrices or one array, among which the rows are taken to be spread evenly.
struct FunctionWork {
  std::vector<MatrixSizes> layers;  // of all rows
  int64_t experts = 1;
  std::optional<AttentionOp> attention;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kUnknown;
};
FunctionWork WorkOfFunction(std::string_view name, std::span<const TensorShape> inputs);

// A backward pass ("_LinearBackward") has gradients for arguments: what it computes is its forward
// call's ("_Linear") work, of which autograd goes through the calls in reverse order.
class FunctionLayers {
 public:
  // Keeps references to what it is given.
  FunctionLayers(const TraceStore& store, const RankTrace& rank, const AutogradFunctions& functions,
                 const std::map<uint32_t, CallKernels>& calls);

  // The kernels of a call that compute one operator: a GEMM with what is cleared for it and what
  // adds up its parts, attention's; nullopt: the tensors do not tell which.
  struct Part {
    std::optional<TracedOperator> traced;
    std::vector<NodeIndex> kernels;
  };
  // That of the kernel at place i; without kernels where these are another one's. Asked once for
  // each kernel of a call, in order.
  Part Next(const LaunchFlow& flow, size_t i, NodeIndex call);

 private:
  struct Gemm {
    MatrixSizes sizes;
    bool over_rows = false;  // k, not m, is the rows of the input
    int64_t groups = 1;      // of one kernel
    bool taken = false;
  };
  struct Pass {
    FunctionWork work;
    bool backward = false;
    std::vector<NodeIndex> kernels, matmuls;  // the latter among the former
    std::vector<Gemm> gemms;
  };

  static std::vector<Gemm> GemmsOf(const Pass& pass);
  static const Gemm* Take(const LaunchPlace& place, NodeIndex kernel, Pass& pass);
  std::vector<NodeIndex> Together(const Pass& pass, NodeIndex kernel) const;

  const TraceStore& store_;
  const RankTrace& rank_;
  std::map<uint32_t, Pass> passes_;  // by call
};

}  // namespace foretrace
