#pragma once
// A model as operators on tensors over named axes. What an operator computes, reads, keeps and
// passes on follows from the axes of its tensors: this room and KernelExpander (FLOP and bytes of a
// bound operator) are the only places that derive it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/units.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

using AxisId = int32_t;
using TensorId = int32_t;
using OpId = int32_t;
inline constexpr OpId kNoOp = -1;

// Size 0: a symbol, which a binding gives.
struct Axis {
  std::string_view name;
  int64_t size = 0;
};

enum class TensorRole : uint8_t {
  kActivation,
  kWeight,
  kGradient,
  kOptimizerState,
  kKvCache,
  kIndex,
  kCount
};
std::string_view Name(TensorRole role);

struct GraphTensor {
  std::string name;
  TensorRole role = TensorRole::kActivation;
  DType dtype = DType::kFloat16;
  absl::InlinedVector<AxisId, 4> axes;
  OpId producer = kNoOp;  // of weights and inputs: none
  absl::InlinedVector<OpId, 3> consumers;
};

enum class GraphOpKind : uint8_t {
  // out_i = in W_i (+ biases) for one or more weights of one kernel: contracts the axes that input
  // and weights share. Where the weights have an axis that neither end has (experts), one GEMM
  // for each of its indices, rows shared evenly. Rows are those of the longer end: the other one is
  // divided over devices, and gathered before or scattered after.
  kMatmul,
  // Scores [.., heads, queries, keys] = q k^T, and the context from probabilities and values.
  kScores,
  kContext,
  kAttention,  // fused: scores never leave the chip
  kNorm,       // over the last axis
  kSoftmax,
  kDropout,        // two outputs: result and mask
  kElementwise,    // reads every input once; keeps its first `kept` inputs
  kAdd,            // residual; a second output is the mask of a dropout that is fused into it
  kGather,         // rows of its first input by indices
  kLogSoftmax,     // in 32 bits, whatever the input
  kBatchedMatmul,  // of two activations, [.., m, k] and [.., k, n]
  // [n, c, ..] by weights [k, c / groups, ..] to [n, k, ..], over the dimensions that follow.
  kConvolution,
  kPool,       // of `window` elements each
  kReduction,  // to as many sums as there are results
  kConcat,     // of all its inputs
  kCopy,       // another order of its input (`strided`), or another shape
  // Convolution, scan and gate of a state-space mixer, whose backward pass makes again what its own
  // kernels gave (state_scan.h).
  kStateScan,
  kOpaque,    // nothing is known of what it computes
  kExchange,  // among devices that divide the graph's axes (shard.h); runs no kernels
  kCount,
};
std::string_view Name(GraphOpKind kind);

// Devices that divide axes among them: layers' widths and heads, sequences, experts. Those of the
// first two together (kTokens) have all tokens of a sequence.
enum class ShardGroup : uint8_t {
  kTensor,
  kContext,
  kExpert,
  kTokens,
  // Parts of an exchange of kExpert: among devices of the same place in their nodes, and among
  // those of a node.
  kExpertNodes,
  kExpertPeers,
  kCount
};

// Of kExchange: what happens to its input forward, and to its output's gradient backward; unknown:
// nothing.
struct GroupExchange {
  ShardGroup group = ShardGroup::kTensor;
  CollectiveOp forward = CollectiveOp::kUnknown, backward = CollectiveOp::kUnknown;
  int8_t count = 1;  // of collectives of this size, each way
};

struct GraphOp {
  std::string name;
  GraphOpKind kind = GraphOpKind::kElementwise;
  absl::InlinedVector<TensorId, 4> inputs;  // activations first, then weights
  absl::InlinedVector<TensorId, 2> outputs;
  bool in_block = true;         // of the repeated block; else before or after it
  bool attention_core = false;  // dropped by selective recomputation
  bool causal = false;
  AxisId keys =
      -1;  // kAttention: the axis of keys and values, which other devices may hold in part
  // kElementwise: inputs that its backward pass reads. kLogSoftmax: 1, it keeps its input and runs
  // as one kernel each way, which writes nothing in 32 bits.
  int8_t kept = 0;
  // kMatmul: GEMMs of equal width that each output stands for, where software runs them one by
  // one (both branches of a gated layer).
  int8_t parts = 1;
  double flop_per_element = 1;
  int64_t window = 1;    // kPool
  bool strided = false;  // kCopy
  int64_t chunk = 0;     // kStateScan: tokens
  GroupExchange exchange;
  // What backends and tables of measured operators call it ("relu", "conv2d"), where its kind does
  // not say it, and with which attributes ("strides" -> "1x1").
  std::string function;
  std::map<std::string, std::string> attributes;
};

// Local sizes of axes: a device's share after sharding.
struct Binding {
  absl::InlinedVector<int64_t, 16> size;  // by axis; 0: not bound
  int64_t of(AxisId axis) const { return size[static_cast<size_t>(axis)]; }
};

class OperatorGraph {
 public:
  AxisId AddAxis(std::string_view name, int64_t size = 0);
  TensorId AddTensor(GraphTensor tensor);
  // Sets producer and consumers. Operators are added in a topological order.
  OpId AddOp(GraphOp op);

  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<GraphTensor>& tensors() const { return tensors_; }
  const std::vector<GraphOp>& ops() const { return ops_; }
  const GraphTensor& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id)]; }
  const GraphOp& op(OpId id) const { return ops_[static_cast<size_t>(id)]; }

  // Sizes as declared; symbols are 0.
  Binding Declared() const;
  // Every operator's inputs come before it; GEMMs and convolutions have weights.
  absl::Status Validate() const;

 private:
  std::vector<Axis> axes_;
  std::vector<GraphTensor> tensors_;
  std::vector<GraphOp> ops_;
};

int64_t Elements(const OperatorGraph& graph, const Binding& sizes, TensorId tensor);
Bytes SizeOf(const OperatorGraph& graph, const Binding& sizes, TensorId tensor);

// How the gradient of a table of rows, a weight that kGather reads, is kept: cleared, made of the
// rows' gradients, and then added to what earlier micro-batches gave, or not.
struct TableGradient {
  bool added = true;
  int64_t bytes = 4;  // an element of what it is added to
};

// The bound operator as calls whose kernels kernel_work.h derives, in order of issue.
using CallList = absl::InlinedVector<OperatorCall, 3>;
CallList CallsOf(const OperatorGraph& graph, const Binding& sizes, OpId op, Direction pass,
                 const TableGradient& table = {});

// Forward FLOP of GEMMs alone ("model FLOP"), without biases or a saving for causal
// masks: of a call, of an operator, and of a model of `blocks` blocks.
Flop GemmFlopOf(OperatorCall call);
Flop GemmFlopOf(const OperatorGraph& graph, const Binding& sizes, OpId op);
Flop GemmFlop(const OperatorGraph& graph, const Binding& sizes, int64_t blocks);

// Activations that an operator's backward pass reads.
absl::InlinedVector<TensorId, 4> KeptBy(const GraphOp& op);

}  // namespace foretrace
