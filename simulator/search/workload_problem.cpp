#include "simulator/search/workload_problem.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/dtype.h"

namespace foretrace {

GraphPipeProblem GraphPipeProblemOf(const Workload& workload, const PartitionDevice& device,
                                    int32_t mini_batch) {
  GraphPipeProblem p;
  p.devices = device.devices;
  p.memory_bytes = static_cast<double>(device.memory.count());
  p.bandwidth = device.network.bytes_per_second();
  p.mini_batch = mini_batch;
  const auto element = static_cast<double>(ElementSize(workload.dtype));
  for (const Operator& op : workload.operators) {
    GraphPipeOp o;
    // Of an embedding table, a sample reads, and its gradient touches, a few rows.
    const bool sparse = op.kind == OperatorKind::kEmbeddingBag;
    const double touched = static_cast<double>(sparse ? 0 : op.parameters) * element;
    const auto seconds = [&](Flop flop, Bytes bytes, double samples) {
      const double compute = flop.count() * samples / device.flop_rate.per_second();
      const double memory = (touched + static_cast<double>(bytes.count()) * samples) /
                            device.memory_bandwidth.bytes_per_second();
      return device.overhead.seconds() + std::max(compute, memory);
    };
    for (int64_t x = 1; x <= mini_batch; x *= 2) {
      o.forward_s.push_back(seconds(op.forward_flop, op.forward_bytes, static_cast<double>(x)));
      o.backward_s.push_back(seconds(op.backward_flop, op.backward_bytes, static_cast<double>(x)));
    }
    o.fixed_bytes = static_cast<double>(op.parameters) * device.bytes_per_parameter;
    o.gradient_bytes =
        element * (sparse ? std::min(static_cast<double>(op.parameters),
                                     static_cast<double>(op.active_parameters) * mini_batch)
                          : static_cast<double>(op.parameters));
    o.stash_bytes = static_cast<double>((op.stash_tensor + op.stash_sequence).count());
    p.ops.push_back(std::move(o));
  }
  for (const OperatorEdge& e : workload.edges) {
    p.edges.push_back({e.from, e.to, static_cast<double>(e.bytes.count())});
  }
  return p;
}

PipeDreamProblem PipeDreamProblemOf(const GraphPipeProblem& problem, int32_t micro_batch) {
  PipeDreamProblem out;
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(micro_batch)));
  std::vector<std::pair<int32_t, int32_t>> edges;
  std::vector<double> output(problem.ops.size(), 0.0);
  for (const GraphPipeEdge& e : problem.edges) {
    edges.emplace_back(e.from, e.to);
    output[static_cast<size_t>(e.from)] = std::max(output[static_cast<size_t>(e.from)], e.bytes);
  }
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const GraphPipeOp& op = problem.ops[i];
    // Weights are exchanged once per mini-batch, PipeDream's formula counts them per micro-batch.
    out.layers.push_back({"", op.forward_s[log] + op.backward_s[log], output[i] * micro_batch,
                          op.gradient_bytes * micro_batch / problem.mini_batch});
  }
  auto graph = OpGraph::Create(static_cast<int32_t>(problem.ops.size()), edges);
  FORETRACE_CHECK(graph.ok());
  out.graph = *std::move(graph);
  return out;
}

PiperProblem PiperProblemOf(const GraphPipeProblem& problem, int32_t micro_batch) {
  PiperProblem out;
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(micro_batch)));
  out.max_devices = problem.devices;
  out.memory_bytes = problem.memory_bytes;
  out.bandwidth = problem.bandwidth;
  out.batch = problem.mini_batch / micro_batch;
  std::vector<double> input(problem.ops.size(), 0.0);
  for (const GraphPipeEdge& e : problem.edges) input[static_cast<size_t>(e.to)] += e.bytes;
  size_t i = 0;
  for (const GraphPipeOp& op : problem.ops) {
    PiperOption o;
    o.name = "vanilla";
    o.time_s = op.forward_s[log] + op.backward_s[log];
    o.parameter_bytes = op.gradient_bytes;
    o.memory_per_inflight = op.stash_bytes * micro_batch;
    o.memory_fixed = op.fixed_bytes;
    // Of what is repeated, one micro-batch's activations are there at a time.
    PiperOption repeated = o;
    repeated.name = "recompute";
    repeated.recompute = true;
    repeated.time_s += op.forward_s[log];
    repeated.memory_per_inflight = input[i++] * micro_batch;
    repeated.memory_fixed += o.memory_per_inflight;
    out.nodes.push_back({{1, {o, repeated}}});
  }
  for (const GraphPipeEdge& e : problem.edges) {
    out.edges.push_back({e.from, e.to, e.bytes * micro_batch});
  }
  return out;
}

namespace {

PhazeLayers PhazeLayersOf(const GraphPipeProblem& problem, int32_t micro_batch) {
  PhazeLayers out;
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(micro_batch)));
  for (const GraphPipeOp& op : problem.ops) {
    PhazeLayer layer;
    layer.forward_s = op.forward_s[log];
    layer.backward_s = op.backward_s[log];
    // Equation 18 then is a ring's all-reduce of the gradients.
    layer.parameter_bytes = op.gradient_bytes / 2;
    layer.state_bytes = op.fixed_bytes - op.gradient_bytes;
    layer.activation_bytes = op.stash_bytes * micro_batch;
    out.layers.push_back(layer);
  }
  for (const GraphPipeEdge& e : problem.edges) {
    out.edges.push_back({e.from, e.to, e.bytes * micro_batch});
  }
  return out;
}

}  // namespace

PhazeProblem PhazeProblemOf(const GraphPipeProblem& problem,
                            const std::vector<int32_t>& micro_batches) {
  PhazeProblem out;
  out.layers = static_cast<int32_t>(problem.ops.size());
  out.accelerators = problem.devices;
  out.samples = problem.mini_batch;
  out.bandwidth = problem.bandwidth;
  out.memory_bytes = problem.memory_bytes;
  out.activations = {PhazeActivations::kStash, PhazeActivations::kRecompute};
  for (const int32_t b : micro_batches) out.options.push_back({1, b});
  out.layers_of = [&problem](const PhazeOption& option) {
    return PhazeLayersOf(problem, option.micro_batch);
  };
  return out;
}

}  // namespace foretrace
