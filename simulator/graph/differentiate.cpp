#include "simulator/graph/differentiate.h"
#include "simulator/base/real_sizes.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace foretrace {
namespace {

bool IsInBlock(const OperatorGraph& graph, OpId op) { return op != kNoOp && graph.op(op).in_block; }

// Gradients of an input that several operators read are added up once all are there: by the first
// reader, whose backward pass comes last.
void AppendSums(const OperatorGraph& graph, const Binding& sizes, OpId op, KernelList& list) {
  for (const TensorId id : graph.op(op).inputs) {
    const GraphTensor& t = graph.tensor(id);
    if (t.role != TensorRole::kActivation || t.consumers.front() != op) continue;
    const int64_t all = Elements(graph, sizes, id);
    for (size_t i = 1; i < t.consumers.size(); ++i) {
      const OperatorCall sum{ElementwiseOp{all, SaturatingProduct({2, all})}, t.dtype,
                             Direction::kForward};
      for (const KernelWork& work : Kernels(sum)) list.push_back(work);
    }
  }
}

bool IsLight(const GraphOp& op) {
  switch (op.kind) {
    case GraphOpKind::kNorm:
      return true;
    case GraphOpKind::kElementwise:
      return op.function == "silu" || op.function == "rotary";
    case GraphOpKind::kMatmul:
      return op.name == "query up" || op.name == "key and value up";
    default:
      return false;
  }
}

}  // namespace

std::vector<bool> KeptOfBlock(const OperatorGraph& graph,
                              const std::function<bool(const GraphOp&)>& needs_input) {
  std::vector<bool> kept(graph.tensors().size());
  for (const GraphOp& op : graph.ops()) {
    if (!op.in_block) continue;
    if (op.kind == GraphOpKind::kMatmul && needs_input && !needs_input(op)) continue;
    for (const TensorId t : KeptBy(op)) kept[static_cast<size_t>(t)] = true;
  }
  return kept;
}

PartialRecomputation RunPartsAgain(const OperatorGraph& graph,
                                   const std::function<int(const GraphOp&)>& part_of,
                                   const std::function<bool(const GraphOp&)>& needs_input) {
  const auto part = [&](OpId id) {
    return IsInBlock(graph, id) ? part_of(graph.op(id)) : kNotAgain;
  };
  PartialRecomputation out{std::vector<bool>(graph.ops().size()),
                           std::vector<bool>(graph.tensors().size())};
  const auto keep = [&](TensorId t) { out.kept[static_cast<size_t>(t)] = true; };
  // By operators outside of parts what they need; of parts what enters them.
  for (OpId id = 0; static_cast<size_t>(id) < graph.ops().size(); ++id) {
    const GraphOp& op = graph.op(id);
    const int own = part(id);
    if (!op.in_block) continue;
    if (own < 0) {
      if (op.kind == GraphOpKind::kMatmul && needs_input && !needs_input(op)) continue;
      for (const TensorId t : KeptBy(op)) keep(t);
      continue;
    }
    out.again[static_cast<size_t>(id)] = true;
    for (const TensorId t : op.inputs) {
      const bool enters = part(graph.tensor(t).producer) != own;
      if (enters && graph.tensor(t).role == TensorRole::kActivation) keep(t);
    }
  }
  for (size_t id = graph.ops().size(); id-- > 0;) {
    const GraphOp& op = graph.ops()[id];
    if (part(static_cast<OpId>(id)) != kOutputs) continue;
    for (const TensorId t : op.outputs) {
      if (out.kept[static_cast<size_t>(t)]) out.again[id] = true;
      out.kept[static_cast<size_t>(t)] = false;
    }
    for (const TensorId t : op.inputs) {
      if (out.again[id] && graph.tensor(t).role == TensorRole::kActivation) keep(t);
    }
  }
  return out;
}

PartialRecomputation RunLightAgain(const OperatorGraph& graph,
                                   const std::function<bool(const GraphOp&)>& needs_input) {
  return RunPartsAgain(
      graph, [](const GraphOp& op) { return IsLight(op) ? kOutputs : kNotAgain; }, needs_input);
}

KernelList ForwardWork(const OperatorGraph& graph, const Binding& sizes, OpId op) {
  KernelList list;
  for (const OperatorCall& call : CallsOf(graph, sizes, op, Direction::kForward)) {
    for (const KernelWork& work : Kernels(call)) list.push_back(work);
  }
  return list;
}

BackwardWork Differentiate(const OperatorGraph& graph, const Binding& sizes, OpId id,
                           const TableGradient& table) {
  const GraphOp& op = graph.op(id);
  BackwardWork work;
  AppendSums(graph, sizes, id, work.input);
  for (OperatorCall call : CallsOf(graph, sizes, id, Direction::kBackward, table)) {
    const auto append = [&](KernelList& list) {
      for (const KernelWork& kernel : Kernels(call)) list.push_back(kernel);
    };
    const auto append_both = [&](auto& gemm) {
      gemm.needs_weight_gradient = false;
      append(work.input);
      gemm.needs_weight_gradient = true;
      gemm.needs_input_gradient = false;
      append(work.weights);
    };
    if (auto* linear = std::get_if<LinearOp>(&call.shape)) {
      append_both(*linear);
    } else if (auto* convolution = std::get_if<Conv2dOp>(&call.shape)) {
      append_both(*convolution);
    } else if (op.kind == GraphOpKind::kMatmul) {
      // One GEMM a group: the first kernel is the input's gradient, the second the weights'.
      const KernelList both = Kernels(call);
      work.input.push_back(both[0]);
      work.weights.push_back(both[1]);
    } else {
      append(work.input);
    }
  }
  return work;
}

Stash StashOfBlock(const OperatorGraph& graph, const Binding& sizes,
                   const std::function<bool(const GraphOp&)>& needs_input) {
  const std::vector<bool> kept = KeptOfBlock(graph, needs_input);
  Stash stash;
  for (TensorId t = 0; static_cast<size_t>(t) < kept.size(); ++t) {
    const GraphTensor& tensor = graph.tensor(t);
    if (!kept[static_cast<size_t>(t)] || tensor.role != TensorRole::kActivation) continue;
    const Bytes bytes = SizeOf(graph, sizes, t);
    stash.whole += bytes;
    if (IsInBlock(graph, tensor.producer) &&
        graph.op(tensor.producer).kind == GraphOpKind::kAttention) {
      stash.fused += bytes;
    }
    if (!IsInBlock(graph, tensor.producer)) {
      stash.input += bytes;
    } else if (graph.op(tensor.producer).attention_core) {
      stash.attention += bytes;
    }
  }
  return stash;
}

AlternateGemms EverySecondGemm(const OperatorGraph& graph, const Binding& sizes) {
  // What is kept, and what that follows from.
  std::vector<bool> needed = KeptOfBlock(graph);
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
    if (!op->in_block) continue;
    const bool read = std::any_of(op->outputs.begin(), op->outputs.end(),
                                  [&](TensorId t) { return needed[static_cast<size_t>(t)]; });
    for (const TensorId t : op->inputs) {
      if (read) needed[static_cast<size_t>(t)] = true;
    }
  }
  AlternateGemms gemms;
  gemms.share.resize(graph.ops().size());
  double outputs = 0, of_needed = 0;
  int64_t index = 0;
  for (size_t id = 0; id < graph.ops().size(); ++id) {
    const GraphOp& op = graph.ops()[id];
    if (!op.in_block || op.kind != GraphOpKind::kMatmul) continue;
    double all = 0, kept = 0;
    for (const TensorId t : op.outputs) {
      const auto part = static_cast<double>(SizeOf(graph, sizes, t).count()) / op.parts;
      for (int8_t i = 0; i < op.parts; ++i, ++index) {
        all += part;
        if (index % 2 != 0) continue;
        kept += part;
        if (needed[static_cast<size_t>(t)]) of_needed += part;
      }
    }
    outputs += kept;
    gemms.share[id] = all > 0 ? kept / all : 0;
  }
  gemms.outputs = WholeBytes(outputs);
  gemms.needed = WholeBytes(of_needed);
  gemms.followed = std::move(needed);
  return gemms;
}

int64_t Parameters(const OperatorGraph& graph, const Binding& sizes, bool in_block) {
  int64_t total = 0;
  for (TensorId t = 0; static_cast<size_t>(t) < graph.tensors().size(); ++t) {
    const GraphTensor& tensor = graph.tensor(t);
    if (tensor.role != TensorRole::kWeight || tensor.consumers.empty()) continue;
    if (graph.op(tensor.consumers.front()).in_block != in_block) continue;
    total += Elements(graph, sizes, t);
  }
  return total;
}

}  // namespace foretrace
