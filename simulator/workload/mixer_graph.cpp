#include "simulator/workload/mixer_graph.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "simulator/graph/state_scan.h"

namespace foretrace {
namespace {

class Mixer {
 public:
  Mixer(const TransformerConfig& config, AxisId hidden, TransformerGraph& model)
      : c_(config), g_(model.graph), a_(model.axes), hidden_(hidden) {
    width_ = g_.AddAxis(
        "group width", c_.state_heads / std::max<int64_t>(c_.state_groups, 1) * c_.state_head_size);
    state_ = g_.AddAxis("state", c_.state_size);
    taps_ = g_.AddAxis("taps", c_.state_convolution);
  }

  TensorId Add(TensorId normalised) {
    const Axes of_input = {a_.state_groups, width_}, of_state = {a_.state_groups, state_};
    const Axes parts[] = {of_input, of_input, of_state, of_state, {a_.state_heads}};
    GraphOp in = Op("mixer in", GraphOpKind::kMatmul);
    in.inputs = {normalised};
    GraphOp scan = Op("state scan", GraphOpKind::kStateScan);
    scan.chunk = c_.state_chunk;
    for (const Axes& axes : parts) {
      in.inputs.push_back(Weight("mixer in", Joined({hidden_}, axes)));
      in.outputs.push_back(Tensor("projected", Rows(axes)));
    }
    scan.inputs.assign(in.outputs.begin(), in.outputs.end());
    g_.AddOp(std::move(in));
    const std::string_view vectors[] = {"decay", "skip", "step bias"};
    for (size_t i = 1; i < 4; ++i) {
      scan.inputs.push_back(Weight("filters", Joined(parts[i], {taps_})));
    }
    for (size_t i = 1; i < 4; ++i) scan.inputs.push_back(Weight("filter biases", parts[i]));
    for (const std::string_view name : vectors) {
      scan.inputs.push_back(Weight(name, {a_.state_heads}));
    }
    const TensorId gated = Tensor("gated", Rows(of_input));
    scan.outputs = {gated, Tensor("scanned", Rows(of_input))};
    g_.AddOp(std::move(scan));
    GraphOp norm = Op("mixer norm", GraphOpKind::kNorm);
    const TensorId normal = Tensor("normalised groups", Rows(of_input));
    norm.inputs = {gated, Weight("mixer scale", of_input)};
    norm.outputs = {normal};
    g_.AddOp(std::move(norm));
    GraphOp out = Op("mixer out", GraphOpKind::kMatmul);
    const TensorId mixed = Tensor("mixed", {a_.stream, hidden_});
    out.inputs = {normal, Weight("mixer out", {a_.state_groups, width_, hidden_})};
    out.outputs = {mixed};
    g_.AddOp(std::move(out));
    return mixed;
  }

 private:
  using Axes = absl::InlinedVector<AxisId, 4>;

  static Axes Joined(Axes first, const Axes& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
  }
  // Groups or heads before tokens, as attention has its heads.
  Axes Rows(const Axes& columns) const {
    return Joined({a_.batch, columns[0], a_.queries}, Axes(columns.begin() + 1, columns.end()));
  }
  GraphOp Op(std::string_view name, GraphOpKind kind) const {
    GraphOp op;
    op.name = name;
    op.kind = kind;
    return op;
  }
  TensorId Tensor(std::string_view name, Axes axes) {
    return g_.AddTensor(
        {std::string(name), TensorRole::kActivation, c_.dtype, std::move(axes), kNoOp, {}});
  }
  TensorId Weight(std::string_view name, Axes axes) {
    return g_.AddTensor(
        {std::string(name), TensorRole::kWeight, c_.dtype, std::move(axes), kNoOp, {}});
  }

  const TransformerConfig& c_;
  OperatorGraph& g_;
  const TransformerAxes& a_;
  AxisId hidden_, width_ = 0, state_ = 0, taps_ = 0;
};

}  // namespace

TensorId AddMixer(const TransformerConfig& config, AxisId hidden, TensorId normalised,
                  TransformerGraph& model) {
  return Mixer(config, hidden, model).Add(normalised);
}

}  // namespace foretrace
