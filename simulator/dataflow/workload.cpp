#include "simulator/dataflow/workload.h"

#include <algorithm>
#include <span>

#include "simulator/base/error.h"

namespace foretrace::dataflow {
namespace {

// The loop that none of the tensor's axes is of, by name.
Loop LoopWithout(const LoopGraph& graph, OpId op, const GraphTensor& tensor) {
  const std::vector<Axis>& axes = graph.graph().axes();
  for (size_t l = 0; l < kLoops; ++l) {
    const auto& of = graph.nest(op).axes[l];
    if (of.empty()) continue;
    const std::string_view name = axes[static_cast<size_t>(of.front())].name;
    if (std::none_of(tensor.axes.begin(), tensor.axes.end(),
                     [&](AxisId a) { return axes[static_cast<size_t>(a)].name == name; }))
      return static_cast<Loop>(l);
  }
  return Loop::kCount;
}

void AddTransfers(const LoopGraph& graph, OpId op, RealBytes word_bytes, Kernel& kernel) {
  for (const LoopGraph::Moved& moved : graph.moved()) {
    if (moved.op != op) continue;
    const GraphTensor& t = graph.graph().tensor(moved.tensor);
    const RealBytes bytes = static_cast<double>(graph.Elements(t.axes)) * word_bytes;
    (moved.transfer == Transfer::kAllToAll ? kernel.alltoall_bytes : kernel.broadcast_bytes) +=
        bytes;
    if (moved.tensor != graph.graph().op(op).outputs[0]) kernel.memory_bytes += bytes;
  }
}

Kernel KernelOf(const LoopGraph& graph, OpId op, RealBytes word_bytes) {
  const GraphOp& of = graph.graph().op(op);
  const LoopNest& nest = graph.nest(op);
  Kernel k;
  k.name = of.name;
  k.kind = KindOf(of.kind);
  k.times = nest.times;
  k.pass = nest.pass;
  k.size = graph.SizesOf(op);
  for (size_t l = 0; l < kLoops; ++l) k.label[l] = graph.LabelOf(op, static_cast<Loop>(l));
  k.tiled = nest.streamed;
  k.weight_gradient = graph.graph().tensor(of.outputs[0]).role == TensorRole::kGradient;
  k.reduced_elsewhere = nest.reduced_elsewhere;
  for (const TensorId id : of.inputs) {
    const GraphTensor& t = graph.graph().tensor(id);
    if (t.role != TensorRole::kKvCache) continue;
    k.stored_bytes += static_cast<double>(graph.Elements(t.axes)) * word_bytes;
    k.stored_lacks = LoopWithout(graph, op, t);
  }
  AddTransfers(graph, op, word_bytes, k);
  return k;
}

AttentionPart AttentionOf(GraphOpKind kind, std::span<const Kernel> before,
                          std::span<const OpId> producers) {
  if (kind == GraphOpKind::kAttention || kind == GraphOpKind::kContext)
    return AttentionPart::kResult;
  const bool within = std::any_of(producers.begin(), producers.end(), [&](OpId p) {
    return before[static_cast<size_t>(p)].attention == AttentionPart::kInner;
  });
  return within || kind == GraphOpKind::kScores ? AttentionPart::kInner : AttentionPart::kNone;
}

}  // namespace

Workload MakeWorkload(std::string name, LoopGraph graph, RealBytes word_bytes) {
  Workload w;
  w.name = std::move(name);
  w.word_bytes = word_bytes;
  const auto name_of = [&](AxisId axis) {
    return axis < 0 ? std::string()
                    : std::string(graph.graph().axes()[static_cast<size_t>(axis)].name);
  };
  for (OpId op = 0; static_cast<size_t>(op) < graph.size(); ++op) {
    const std::vector<OpId> producers = graph.Producers(op);
    Kernel kernel = KernelOf(graph, op, word_bytes);
    if (kernel.pass == Direction::kForward)
      kernel.attention = AttentionOf(graph.graph().op(op).kind, w.kernels, producers);
    w.kernels.push_back(std::move(kernel));
    for (const OpId from : producers) w.tensors.push_back({from, op, {}});
  }
  for (const LoopGraph::Reading& r : graph.readings()) {
    for (Tensor& t : w.tensors) {
      if (t.from == r.producer && t.to == r.op) t.renamed = {name_of(r.made), name_of(r.read)};
    }
  }
  for (const LoopGraph::Carried& c : graph.carried())
    w.next_layer.push_back({c.from, c.to, {name_of(c.made), name_of(c.read)}});
  w.graph = std::move(graph);
  return w;
}

void StackLayers(int64_t layers, double batch, int64_t sequence, int64_t hidden,
                 Workload& workload) {
  workload.layers = layers;
  workload.batch = batch;
  workload.tiled_size = sequence;
  workload.layer_input_bytes =
      static_cast<double>(hidden) * static_cast<double>(sequence) * workload.word_bytes;
}

Workload ForwardOf(const Workload& workload) {
  Workload w = MakeWorkload(workload.name, ForwardPass(workload.graph), workload.word_bytes);
  w.layers = workload.layers;
  w.batch = workload.batch;
  w.layer_input_bytes = workload.layer_input_bytes;
  w.tiled_size = workload.tiled_size;
  w.per_chip = workload.per_chip;
  if (workload.head) w.head = std::make_shared<const Workload>(ForwardOf(*workload.head));
  return w;
}

Flop Workload::flop() const {
  Flop sum;
  for (const Kernel& k : kernels) sum += k.flop(k.size);
  return sum;
}

bool Workload::trains() const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const Kernel& k) { return k.pass == Direction::kBackward; });
}

absl::Status Validate(const Workload& workload) {
  const size_t n = workload.kernels.size();
  if (n == 0) return InvalidInput("workload {}: it has no kernels", workload.name);
  if (n > 64) {
    return InvalidInput("workload {}: {} kernels; the exact solver takes up to 64; give one layer",
                        workload.name, n);
  }
  for (const Kernel& k : workload.kernels) {
    for (size_t d = 0; d < kLoops; ++d) {
      if (k.size[d] < 1) {
        return InvalidInput("workload {}: kernel {}: size {} of axis {}; sizes are from 1",
                            workload.name, k.name, k.size[d], Name(static_cast<Loop>(d)));
      }
    }
  }
  return absl::OkStatus();
}

std::vector<int> Levels(const Workload& workload) {
  std::vector<int> level(workload.kernels.size(), 0);
  // In order of consumers, each after its producers.
  for (const Tensor& t : workload.tensors) {
    int& to = level[static_cast<size_t>(t.to)];
    to = std::max(to, level[static_cast<size_t>(t.from)] + 1);
  }
  return level;
}

}  // namespace foretrace::dataflow
