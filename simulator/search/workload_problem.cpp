#include "simulator/search/workload_problem.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/dtype.h"

namespace foretrace {
namespace {

// Operators of a workload as one device of a group has them.
class OpMaker {
 public:
  OpMaker(const Workload& workload, const PartitionDevice& device, int32_t mini_batch)
      : w_(workload),
        device_(device),
        mini_batch_(mini_batch),
        element_(static_cast<double>(ElementSize(workload.dtype))),
        input_(workload.operators.size()) {
    for (const OperatorEdge& e : workload.edges) {
      Bytes& largest = input_[static_cast<size_t>(e.to)];
      largest = std::max(largest, e.bytes);
    }
  }

  GraphPipeOp Make(size_t index, int32_t width) const {
    const Operator& op = w_.operators[index];
    const bool divided = op.DividedBy(width);
    const double share = divided ? 1.0 / width : 1.0;
    // Of an embedding table, a sample reads, and its gradient touches, a few rows.
    const bool sparse = op.kind == OperatorKind::kEmbeddingBag;
    const double parameters = static_cast<double>(op.parameters) * share;
    const double touched = sparse ? 0 : parameters * element_;
    const int32_t ways = divided ? width : 1;
    const bool timed = device_.times != nullptr &&
                       device_.times->Kernels(op, ways, 1, Direction::kForward).has_value();
    const auto exchange = [&](Bytes summed, double samples) {
      if (ways == 1 || summed == Bytes()) return RealSeconds();
      const RealBytes all = samples * RealBytes(summed);
      if (device_.times != nullptr) return device_.times->AllReduce(ways, 1, all);
      return RealSeconds(device_.tensor_latency.seconds()) +
             2.0 * (ways - 1) / ways * all / device_.tensor_network;
    };
    const auto kernels = [&](Direction pass, double samples) {
      if (timed) return *device_.times->Kernels(op, ways, static_cast<int64_t>(samples), pass);
      const bool forward = pass == Direction::kForward;
      const Flop flop = forward ? op.forward_flop : op.backward_flop;
      const Bytes bytes = forward ? op.forward_bytes : op.backward_bytes;
      const double compute = flop.count() * share * samples / device_.flop_rate.per_second();
      const double memory = (touched + static_cast<double>(bytes.count()) * share * samples) /
                            device_.memory_bandwidth.bytes_per_second();
      return RealSeconds(device_.overhead.seconds() + std::max(compute, memory));
    };
    const Bytes result = op.reduces_output ? op.output_bytes : Bytes();
    const Bytes gradient = op.reduces_gradient ? input_[index] : Bytes();
    GraphPipeOp o;
    for (int64_t x = 1; x <= mini_batch_; x *= 2) {
      const auto samples = static_cast<double>(x);
      const auto add = [&](Direction pass, Bytes summed, std::vector<RealSeconds>& times,
                           GraphPipeOp::Exchanges& exchanges) {
        const RealSeconds exchanged = exchange(summed, samples);
        times.push_back(kernels(pass, samples) + exchanged);
        if (ways == 1 || summed == Bytes()) return;
        exchanges.times.push_back(exchanged);
        exchanges.bytes = RealBytes(summed);
        exchanges.count = 1;
      };
      add(Direction::kForward, result, o.forward, o.forward_exchanges);
      add(Direction::kBackward, gradient, o.backward, o.backward_exchanges);
    }
    o.fixed_bytes = RealBytes(parameters * device_.bytes_per_parameter);
    o.gradient_bytes = RealBytes(
        element_ *
        (sparse ? std::min(parameters, static_cast<double>(op.active_parameters) * mini_batch_)
                : parameters));
    o.stash_bytes = share * RealBytes(op.stash_tensor) + RealBytes(op.stash_sequence);
    return o;
  }

 private:
  const Workload& w_;
  const PartitionDevice& device_;
  int32_t mini_batch_;
  double element_;
  std::vector<Bytes> input_;  // by operator, the largest
};

}  // namespace

GraphPipeProblem GraphPipeProblemOf(const Workload& workload, const PartitionDevice& device,
                                    int32_t mini_batch) {
  GraphPipeProblem p;
  p.devices = device.devices;
  p.memory = RealBytes(device.memory);
  p.bandwidth = device.network;
  p.mini_batch = mini_batch;
  // A width that divides nothing is none.
  for (const int32_t t : device.widths) {
    if (std::ranges::any_of(workload.operators, [t](const Operator& op) {
          return op.DividedBy(t) && op.forward_flop > Flop();
        })) {
      p.widths.push_back(t);
    }
  }
  const OpMaker maker(workload, device, mini_batch);
  for (size_t i = 0; i < workload.operators.size(); ++i) {
    p.ops.push_back(maker.Make(i, 1));
    for (const int32_t t : p.widths) p.ops.back().parts.push_back(maker.Make(i, t));
  }
  for (const OperatorEdge& e : workload.edges) {
    p.edges.push_back({e.from, e.to, RealBytes(e.bytes)});
  }
  return p;
}

PipeDreamProblem PipeDreamProblemOf(const GraphPipeProblem& problem, int32_t micro_batch) {
  PipeDreamProblem out;
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(micro_batch)));
  std::vector<std::pair<int32_t, int32_t>> edges;
  std::vector<RealBytes> output(problem.ops.size());
  for (const GraphPipeEdge& e : problem.edges) {
    edges.emplace_back(e.from, e.to);
    output[static_cast<size_t>(e.from)] = std::max(output[static_cast<size_t>(e.from)], e.bytes);
  }
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const GraphPipeOp& op = problem.ops[i];
    // Weights are exchanged once per mini-batch, PipeDream's formula counts them per micro-batch.
    out.layers.push_back({"", op.forward[log] + op.backward[log], micro_batch * output[i],
                          micro_batch * op.gradient_bytes / problem.mini_batch});
  }
  auto graph = OpGraph::Create(static_cast<int32_t>(problem.ops.size()), edges);
  FORETRACE_CHECK(graph.ok());
  out.graph = *std::move(graph);
  return out;
}

namespace {

std::vector<int32_t> WidthsOf(const GraphPipeProblem& problem) {
  std::vector<int32_t> widths = {1};
  widths.insert(widths.end(), problem.widths.begin(), problem.widths.end());
  return widths;
}

}  // namespace

PiperProblem PiperProblemOf(const GraphPipeProblem& problem, int32_t micro_batch) {
  PiperProblem out;
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(micro_batch)));
  out.max_devices = problem.devices;
  out.memory = problem.memory;
  out.bandwidth = problem.bandwidth;
  out.batch = problem.mini_batch / micro_batch;
  std::vector<RealBytes> input(problem.ops.size());
  for (const GraphPipeEdge& e : problem.edges) input[static_cast<size_t>(e.to)] += e.bytes;
  const auto count = static_cast<int32_t>(problem.ops.size());
  for (int32_t i = 0; i < count; ++i) {
    auto& options = out.nodes.emplace_back();
    for (const int32_t t : WidthsOf(problem)) {
      const GraphPipeOp& op = problem.PartOf(i, t);
      PiperOption o;
      o.name = "vanilla";
      o.time = op.forward[log] + op.backward[log];
      o.parameter_bytes = op.gradient_bytes;
      o.memory_per_inflight = micro_batch * op.stash_bytes;
      o.memory_fixed = op.fixed_bytes;
      // Of what is repeated, one micro-batch's activations are there at a time.
      PiperOption repeated = o;
      repeated.name = "recompute";
      repeated.recompute = true;
      repeated.time += op.forward[log];
      repeated.memory_per_inflight = micro_batch * input[static_cast<size_t>(i)];
      repeated.memory_fixed += o.memory_per_inflight;
      options[t] = {o, repeated};
    }
  }
  for (const GraphPipeEdge& e : problem.edges) {
    out.edges.push_back({e.from, e.to, micro_batch * e.bytes});
  }
  return out;
}

namespace {

PhazeLayers PhazeLayersOf(const GraphPipeProblem& problem, const PhazeOption& option) {
  PhazeLayers out;
  const int32_t micro_batch = option.micro_batch;
  const auto log = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(micro_batch)));
  for (int32_t i = 0; i < static_cast<int32_t>(problem.ops.size()); ++i) {
    const GraphPipeOp& op = problem.PartOf(i, option.width);
    PhazeLayer layer;
    layer.sliced = option.width > 1;
    layer.forward = op.forward[log];
    layer.backward = op.backward[log];
    // Equation 18 then is a ring's all-reduce of the gradients.
    layer.parameter_bytes = op.gradient_bytes / 2;
    layer.state_bytes = op.fixed_bytes - op.gradient_bytes;
    layer.activation_bytes = micro_batch * op.stash_bytes;
    out.layers.push_back(layer);
  }
  for (const GraphPipeEdge& e : problem.edges) {
    out.edges.push_back({e.from, e.to, micro_batch * e.bytes});
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
  out.memory = problem.memory;
  out.activations = {PhazeActivations::kStash, PhazeActivations::kRecompute};
  for (const int32_t t : WidthsOf(problem)) {
    for (const int32_t b : micro_batches) out.options.push_back({t, b});
  }
  out.layers_of = [&problem](const PhazeOption& option) { return PhazeLayersOf(problem, option); };
  return out;
}

}  // namespace foretrace
