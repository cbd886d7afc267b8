#include "simulator/workload/mixer_graph.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "simulator/graph/state_scan.h"
#include "simulator/workload/transformer_parts.h"

namespace foretrace {
namespace {

class Mixer : TransformerParts {
 public:
  Mixer(const TransformerConfig& config, AxisId hidden, TransformerGraph& model)
      : TransformerParts(config, model), a_(model.axes) {
    hidden_ = hidden;
    in_block_ = true;
    width_ = Axis("group width",
                  c_.state_heads / std::max<int64_t>(c_.state_groups, 1) * c_.state_head_size);
    state_ = Axis("state", c_.state_size);
    taps_ = Axis("taps", c_.state_convolution);
  }

  TensorId Build(TensorId normalised) {
    const Axes of_input = {a_.state_groups, width_}, of_state = {a_.state_groups, state_};
    const Axes parts[] = {of_input, of_input, of_state, of_state, {a_.state_heads}};
    GraphOp in = Op("mixer in", GraphOpKind::kMatmul, {normalised}, {});
    GraphOp scan = Op("state scan", GraphOpKind::kStateScan, {}, {});
    scan.chunk = c_.state_chunk;
    for (const Axes& axes : parts) {
      in.inputs.push_back(Weight("mixer in", Joined({hidden_}, axes)));
      in.outputs.push_back(Tensor("projected", Rows(axes)));
    }
    scan.inputs.assign(in.outputs.begin(), in.outputs.end());
    out_.graph.AddOp(std::move(in));
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
    out_.graph.AddOp(std::move(scan));
    TensorId normal = gated;
    if (c_.state_norm) {
      normal = Add(Op("mixer norm", GraphOpKind::kNorm, {gated, Weight("mixer scale", of_input)},
                      {Tensor("normalised groups", Rows(of_input))}));
    }
    const TensorId mixed = Tensor("mixed", {a_.stream, hidden_});
    return Add(Op("mixer out", GraphOpKind::kMatmul,
                  {normal, Weight("mixer out", {a_.state_groups, width_, hidden_})}, {mixed}));
  }

  TensorId BuildDelta(TensorId normalised) {
    const AxisId depth = Axis("value depth", c_.state_head_size);
    const Axes heads = {a_.state_heads}, of_values = {a_.state_groups, width_};
    const Axes of_keys = {a_.state_groups, state_}, of_heads = {a_.state_heads, depth};
    const Axes parts[] = {heads, of_values, of_keys, of_keys, heads, of_heads};
    GraphOp in = Op("mixer in", GraphOpKind::kMatmul, {normalised}, {});
    for (const Axes& axes : parts) {
      in.inputs.push_back(Weight("mixer in", Joined({hidden_}, axes)));
      in.outputs.push_back(Tensor("projected", Rows(axes)));
    }
    const TensorId gate = in.outputs.back();
    GraphOp rule = Op("delta rule", GraphOpKind::kStateScan, {}, {});
    rule.function = kDeltaRule;
    rule.chunk = c_.state_chunk;
    rule.inputs.assign(in.outputs.begin(), in.outputs.end() - 1);
    out_.graph.AddOp(std::move(in));
    for (size_t i = 1; i < 4; ++i) {
      rule.inputs.push_back(Weight("filters", Joined(parts[i], {taps_})));
    }
    for (const std::string_view name : {"decay", "step bias"}) {
      rule.inputs.push_back(Weight(name, heads));
    }
    const AxisId both = Axis("keys and queries", 2 * c_.state_size);
    const TensorId result = Tensor("result", Rows(of_heads));
    rule.outputs = {result, Tensor("convolved values", Rows(of_values)),
                    Tensor("normalised", Rows({a_.state_groups, both})),
                    Tensor("inverse", Rows({a_.state_heads, Axis("chunk", c_.state_chunk)}))};
    if (c_.state_heads > c_.state_groups) {
      rule.outputs.push_back(Tensor("repeated", Rows({a_.state_heads, both})));
    }
    out_.graph.AddOp(std::move(rule));
    const TensorId normal =
        Add(Op("mixer norm", GraphOpKind::kNorm, {result, Weight("mixer scale", {depth})},
               {Tensor("normalised heads", Rows(of_heads))}));
    GraphOp gated = Op("mixer gate", GraphOpKind::kElementwise, {normal, gate},
                       {Tensor("gated", Rows(of_heads))});
    gated.kept = 2;
    gated.flop_per_element = 6;
    gated.function = "multiply";
    return Add(Op("mixer out", GraphOpKind::kMatmul,
                  {Add(std::move(gated)), Weight("mixer out", {a_.state_heads, depth, hidden_})},
                  {Tensor("mixed", {a_.stream, hidden_})}));
  }

 private:
  static Axes Joined(Axes first, const Axes& then) {
    for (const AxisId axis : then) first.push_back(axis);
    return first;
  }
  // Groups or heads before tokens, as attention has its heads.
  Axes Rows(const Axes& columns) const {
    return Joined({a_.batch, columns[0], a_.queries}, Axes(columns.begin() + 1, columns.end()));
  }
  const TransformerAxes& a_;
  AxisId width_ = 0, state_ = 0, taps_ = 0;
};

}  // namespace

TensorId AddMixer(const TransformerConfig& config, AxisId hidden, TensorId normalised,
                  TransformerGraph& model) {
  return Mixer(config, hidden, model).Build(normalised);
}

TensorId AddDeltaMixer(const TransformerConfig& config, AxisId hidden, TensorId normalised,
                       TransformerGraph& model) {
  return Mixer(config, hidden, model).BuildDelta(normalised);
}

}  // namespace foretrace
