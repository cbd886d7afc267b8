#include "simulator/workload/multi_branch.h"

#include <string>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/operator_graph.h"
#include "simulator/workload/tensor_parallel.h"

namespace foretrace {
namespace {

// GraphPipe runs on FlexFlow, which trains in 32 bits.
constexpr int64_t kElement = 4;
constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxBranches = 1024;

absl::Status CheckSize(const char* model, const char* what, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return InvalidInput("{}: {} must be between 1 and {}, not {}", model, what, limit, value);
}

// FLOP of GEMMs, and traffic of activations, of one sample: what the operator's calls come to
// but for `weights`, of which a backward pass reads one and writes the gradient.
void SetWork(Operator& op, Bytes weights) {
  Bytes forward, backward;
  for (OperatorCall call : op.calls) {
    op.forward_flop += GemmFlopOf(call);
    forward += TotalWork(call).bytes;
    call.pass = Direction::kBackward;
    backward += TotalWork(call).bytes;
  }
  op.backward_flop = Flop(2 * op.forward_flop.count());
  op.forward_bytes = forward - weights;
  op.backward_bytes = backward - weights * 2;
}

Operator Linear(std::string name, int64_t in, int64_t out, int64_t rows, int32_t block) {
  Operator op;
  op.name = std::move(name);
  op.kind = OperatorKind::kLinear;
  op.block = block;
  op.parameters = op.active_parameters = in * out + out;
  op.calls = {{LinearOp{rows, out, in, true}, DType::kFloat32}};
  op.stash_tensor = Bytes(in * rows * kElement);
  op.output_bytes = Bytes(out * rows * kElement);
  SetWork(op, Bytes(op.parameters * kElement));
  return op;
}

// Input, output, query, key and value GEMMs with the score matrix, as FlexFlow's one operator.
Operator MultiHeadAttention(std::string name, int64_t h, int64_t heads, int64_t s, int32_t block) {
  Operator op;
  op.name = std::move(name);
  op.kind = OperatorKind::kAttention;
  op.block = block;
  op.parameters = op.active_parameters = 4 * h * h + 4 * h;
  op.calls = {{LinearOp{s, 3 * h, h, true}, DType::kFloat32},
              {AttentionOp{1, heads, heads, s, s, h / heads, false, false}, DType::kFloat32},
              {LinearOp{s, h, h, true}, DType::kFloat32}};
  // Its input, queries, keys, values and context; probabilities.
  op.stash_tensor = Bytes(5 * h * s * kElement) + Bytes(heads * s * s * kElement);
  op.output_bytes = Bytes(h * s * kElement);
  // Divided by heads as a whole.
  op.tensor_ways = heads;
  op.reduces_output = op.reduces_gradient = true;
  SetWork(op, Bytes(op.parameters * kElement));
  return op;
}

Operator Concat(std::string name, Bytes inputs, int64_t parts) {
  Operator op;
  op.name = std::move(name);
  op.kind = OperatorKind::kConcat;
  op.output_bytes = inputs;
  op.calls = {{ConcatOp{inputs.count() / kElement, parts}, DType::kFloat32}};
  SetWork(op, Bytes());
  return op;
}

int32_t Append(Workload& w, Operator op, const std::vector<int32_t>& inputs) {
  const auto index = static_cast<int32_t>(w.operators.size());
  for (const int32_t from : inputs) {
    w.edges.push_back({from, index, w.operators[from].output_bytes});
  }
  w.operators.push_back(std::move(op));
  return index;
}

int32_t AppendConcat(Workload& w, const std::vector<int32_t>& inputs) {
  Bytes total;
  for (const int32_t i : inputs) total += w.operators[i].output_bytes;
  return Append(w, Concat("concat", total, std::ssize(inputs)), inputs);
}

// Returns the last operator of a branch of dense layers.
int32_t DenseBranch(Workload& w, const std::string& name, int64_t layers, int64_t width) {
  std::vector<int32_t> last;
  for (int64_t i = 0; i < layers; ++i) {
    last = {
        Append(w, Linear(fmt::format("{} layer {}", name, i), width, width, 1, w.blocks++), last)};
  }
  return last[0];
}

}  // namespace

absl::StatusOr<Workload> BuildMultiModalTransformer(const MultiModalConfig& c) {
  FORETRACE_RETURN_IF_ERROR(CheckSize("mmt", "branches", c.branches, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("mmt", "layers", c.layers, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("mmt", "hidden", c.hidden, kMaxSize / 16));
  FORETRACE_RETURN_IF_ERROR(CheckSize("mmt", "heads", c.heads, kMaxSize / 16));
  FORETRACE_RETURN_IF_ERROR(CheckSize("mmt", "ffn", c.ffn, kMaxSize / 16));
  FORETRACE_RETURN_IF_ERROR(CheckSize("mmt", "sequence", c.sequence, kMaxSize / 256));
  Workload w;
  w.name = "mmt";
  w.dtype = DType::kFloat32;
  w.sequence_length = c.sequence;
  w.hidden = c.hidden;
  std::vector<int32_t> ends;
  for (int64_t b = 0; b < c.branches; ++b) {
    std::vector<int32_t> last;
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string prefix = fmt::format("branch {} layer {} ", b, i);
      const int32_t block = w.blocks++;
      last = {Append(
          w, MultiHeadAttention(prefix + "attention", c.hidden, c.heads, c.sequence, block), last)};
      last = {Append(w, Linear(prefix + "ffn up", c.hidden, c.ffn, c.sequence, block), last)};
      last = {Append(w, Linear(prefix + "ffn down", c.ffn, c.hidden, c.sequence, block), last)};
    }
    ends.push_back(last[0]);
  }
  AppendConcat(w, ends);
  FindTensorParallelism(w, Kept::kInputs);
  return w;
}

absl::StatusOr<Workload> BuildTwoBranchCaseStudy() {
  MultiModalConfig config;
  config.branches = 2;
  config.layers = 4;
  FORETRACE_ASSIGN_OR_RETURN(Workload w, BuildMultiModalTransformer(config));
  w.name = "two_branch";
  return w;
}

absl::StatusOr<Workload> BuildDlrm(const DlrmConfig& c) {
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "dense_branches", c.dense_branches, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "dense_layers", c.dense_layers, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "dense_width", c.dense_width, kMaxSize));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "sparse_branches", c.sparse_branches, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "rows", c.rows, int64_t{1} << 36));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "dimension", c.dimension, 1 << 16));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "bag", c.bag, 1 << 16));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "top_layers", c.top_layers, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("dlrm", "top_width", c.top_width, kMaxSize));
  Workload w;
  w.name = "dlrm";
  w.dtype = DType::kFloat32;
  std::vector<int32_t> ends;
  for (int64_t b = 0; b < c.dense_branches; ++b) {
    ends.push_back(DenseBranch(w, fmt::format("dense {}", b), c.dense_layers, c.dense_width));
  }
  int64_t width = c.dense_branches * c.dense_width;
  for (int64_t b = 0; b < c.sparse_branches; ++b) {
    Operator op;
    op.name = fmt::format("sparse {}", b);
    op.kind = OperatorKind::kEmbeddingBag;
    op.block = w.blocks++;
    op.parameters = c.rows * c.dimension;
    op.active_parameters = c.bag * c.dimension;
    op.output_bytes = Bytes(c.bag * c.dimension * kElement);
    op.stash_tensor = Bytes(c.bag * 8);
    op.calls = {{EmbeddingOp{c.bag, c.bag, c.dimension, c.bag}, DType::kFloat32}};
    SetWork(op, Bytes());
    ends.push_back(Append(w, std::move(op), {}));
    width += c.bag * c.dimension;
  }
  std::vector<int32_t> last = {AppendConcat(w, ends)};
  for (int64_t i = 0; i < c.top_layers; ++i) {
    last = {Append(w,
                   Linear(fmt::format("top layer {}", i), i == 0 ? width : c.top_width, c.top_width,
                          1, w.blocks++),
                   last)};
  }
  FindTensorParallelism(w, Kept::kInputs);
  return w;
}

absl::StatusOr<Workload> BuildCandleUno(const CandleUnoConfig& c) {
  FORETRACE_RETURN_IF_ERROR(CheckSize("candle_uno", "branches", c.branches, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("candle_uno", "layers", c.layers, kMaxBranches));
  FORETRACE_RETURN_IF_ERROR(CheckSize("candle_uno", "width", c.width, kMaxSize));
  Workload w;
  w.name = "candle_uno";
  w.dtype = DType::kFloat32;
  std::vector<int32_t> ends;
  for (int64_t b = 0; b < c.branches; ++b) {
    ends.push_back(DenseBranch(w, fmt::format("branch {}", b), c.layers, c.width));
  }
  AppendConcat(w, ends);
  FindTensorParallelism(w, Kept::kInputs);
  return w;
}

}  // namespace foretrace
