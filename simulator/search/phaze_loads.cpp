#include "simulator/search/phaze_loads.h"

#include <algorithm>
#include <limits>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kMaxAccelerators = 1 << 20;

}  // namespace

absl::Status CheckProblem(const PhazeProblem& p) {
  if (p.layers < 1 || p.options.empty() || p.activations.empty() || !p.layers_of) {
    return InvalidInput("phaze: the model has no layers");
  }
  if (p.accelerators < 1 || p.accelerators > kMaxAccelerators || p.samples < 1 ||
      !(p.bandwidth > Bandwidth())) {
    return InvalidInput("phaze: accelerators, samples and bandwidth must be positive");
  }
  for (const PhazeOption& option : p.options) {
    if (option.width < 1 || option.micro_batch < 1) {
      return InvalidInput("phaze: width {} and micro-batch {} must be positive", option.width,
                          option.micro_batch);
    }
  }
  return absl::OkStatus();
}

RealBytes PhazeKept(const PhazeProblem& p, const PhazeLayer& layer) {
  return (2 + p.optimizer_factor) * layer.parameter_bytes + layer.state_bytes +
         layer.activation_bytes;
}

PhazeStageLoads::PhazeStageLoads(const PhazeChoice& choice, const OpGraph& graph)
    : p_(choice.problem), c_(choice) {
  position_.resize(static_cast<size_t>(p_.layers));
  for (size_t i = 0; i < graph.topological_order().size(); ++i) {
    position_[static_cast<size_t>(graph.topological_order()[i])] = static_cast<int32_t>(i);
  }
  in_.resize(static_cast<size_t>(p_.layers));
  out_.resize(static_cast<size_t>(p_.layers));
  for (const PhazeEdge& e : choice.model.edges) {
    in_[static_cast<size_t>(e.to)].emplace_back(e.from, e.bytes.count());
    out_[static_cast<size_t>(e.from)].emplace_back(e.to, e.bytes.count());
  }
}

PhazeLoad PhazeStageLoads::Of(std::vector<int32_t> nodes) const {
  const std::vector<PhazeLayer>& layers = c_.model.layers;
  std::sort(nodes.begin(), nodes.end(), [&](int32_t a, int32_t b) {
    return position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)];
  });
  std::vector<uint8_t> inside(static_cast<size_t>(p_.layers));  // not bits: it is asked often
  for (const int32_t v : nodes) inside[static_cast<size_t>(v)] = 1;
  const double bandwidth = p_.bandwidth.bytes_per_second();
  PhazeLoad load;
  double forward = 0, repeat = 0, backward = 0;
  // One layer after another, each not before its inputs from other devices have arrived; all
  // transfers start with the microbatch.
  for (const int32_t v : nodes) {
    double arrival = 0;
    for (const auto& [u, bytes] : in_[static_cast<size_t>(v)]) {
      if (inside[static_cast<size_t>(u)] != 0) continue;
      arrival = std::max(arrival, bytes / bandwidth);
      load.stash_bytes += bytes;
    }
    const PhazeLayer& layer = layers[static_cast<size_t>(v)];
    forward = std::max(forward, arrival) + layer.forward.seconds();
    repeat += layer.forward.seconds();
    load.parameter_bytes += layer.parameter_bytes.count();
    load.base_bytes += PhazeKept(p_, layer).count();
    if (!c_.recompute) load.stash_bytes += layer.activation_bytes.count();
    if (layer.sliced) load.accelerators = c_.option.width;
  }
  if (!c_.recompute) {
    for (const int32_t v : nodes) {
      for (const auto& [u, bytes] : in_[static_cast<size_t>(v)]) {
        if (inside[static_cast<size_t>(u)] == 0) load.stash_bytes -= bytes;
      }
    }
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    double arrival = 0;
    for (const auto& [w, bytes] : out_[static_cast<size_t>(nodes[i])]) {
      if (inside[static_cast<size_t>(w)] == 0) arrival = std::max(arrival, bytes / bandwidth);
    }
    backward =
        std::max(backward, arrival) + layers[static_cast<size_t>(nodes[i])].backward.seconds();
  }
  load.last_s = forward + backward;
  load.other_s = load.last_s + (c_.recompute ? repeat : 0);
  load.base_bytes += c_.model.reserved_bytes.count();
  if (load.base_bytes <= p_.memory.count()) {
    const double room = p_.memory.count() - load.base_bytes;
    const double deeper = load.stash_bytes > 0 ? room / load.stash_bytes : kInfinity;
    load.max_depth = deeper >= p_.layers ? p_.layers : 1 + static_cast<int32_t>(deeper);
  }
  return load;
}

absl::StatusOr<OpGraph> PhazeGraph(const PhazeProblem& p, const PhazeOption& option,
                                   const PhazeLayers& model) {
  if (model.layers.size() != static_cast<size_t>(p.layers)) {
    return InvalidInput("phaze: width {} describes {} of {} layers", option.width,
                        model.layers.size(), p.layers);
  }
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (const PhazeEdge& e : model.edges) edges.emplace_back(e.from, e.to);
  return OpGraph::Create(p.layers, edges);
}

double PhazeSyncTime(const PhazeProblem& p, double first_stage_bytes, int32_t d) {
  return 4.0 * (d - 1) * first_stage_bytes / (d * p.bandwidth.bytes_per_second());
}

double PhazeFactor(const PhazeChoice& c, int32_t d, int32_t stages) {
  return (c.microbatches + d - 1) / d + stages - 1;
}

}  // namespace foretrace
