#pragma once
// What the parts of a transformer's graph are made with; a detail of transformer_graph.cpp and of
// what builds its layers.

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {

class TransformerParts {
 protected:
  using Axes = absl::InlinedVector<AxisId, 4>;
  using Ids = absl::InlinedVector<TensorId, 4>;

  TransformerParts(const TransformerConfig& config, TransformerGraph& out)
      : c_(config), out_(out) {}

  bool gated() const { return IsGated(c_); }
  bool biased() const { return HasBiases(c_); }
  bool drops() const { return Drops(c_); }
  bool bert() const { return c_.family == TransformerFamily::kBert; }

  AxisId Axis(std::string_view name, int64_t size = 0) { return out_.graph.AddAxis(name, size); }
  TensorId Tensor(std::string_view name, Axes axes) {
    return out_.graph.AddTensor(
        {std::string(name), TensorRole::kActivation, c_.dtype, std::move(axes), kNoOp, {}});
  }
  TensorId Mask(Axes axes) {
    return out_.graph.AddTensor(
        {"mask", TensorRole::kActivation, DType::kUInt8, std::move(axes), kNoOp, {}});
  }
  TensorId Weight(std::string_view name, Axes axes) {
    return out_.graph.AddTensor(
        {std::string(name), TensorRole::kWeight, c_.dtype, std::move(axes), kNoOp, {}});
  }
  TensorId Indices(std::string_view name, Axes axes) {
    return out_.graph.AddTensor(
        {std::string(name), TensorRole::kIndex, DType::kInt64, std::move(axes), kNoOp, {}});
  }
  GraphOp Op(std::string_view name, GraphOpKind kind, const Ids& inputs, const Ids& outputs) const {
    GraphOp op;
    op.name = name;
    op.kind = kind;
    // GCC 12 takes the move of an empty list for a read of what was never set.
    op.inputs.assign(inputs.begin(), inputs.end());
    op.outputs.assign(outputs.begin(), outputs.end());
    op.in_block = in_block_;
    return op;
  }
  TensorId Add(GraphOp op) {
    const TensorId out = op.outputs[0];
    out_.graph.AddOp(std::move(op));
    return out;
  }

  TensorId Norm(std::string_view name, TensorId x) {
    Ids inputs = {x, Weight("scale", {hidden_})};
    if (HasNormBiases(c_)) inputs.push_back(Weight("shift", {hidden_}));
    return Add(
        Op(name, GraphOpKind::kNorm, inputs, {Tensor("normalised", {out_.axes.stream, hidden_})}));
  }

  // x plus what a branch adds to it, with dropout where the family trains with it.
  TensorId Residual(std::string_view name, TensorId branch, TensorId x) {
    const Axes axes = {out_.axes.stream, hidden_};
    Ids outputs = {Tensor("residual", axes)};
    if (drops()) outputs.push_back(Mask(axes));
    return Add(Op(name, GraphOpKind::kAdd, {branch, x}, outputs));
  }

  // What a branch gives, normalised where the model does so.
  TensorId After(std::string_view name, TensorId branch) {
    return c_.post_norms ? Norm(name, branch) : branch;
  }

  const TransformerConfig& c_;
  TransformerGraph& out_;
  AxisId hidden_ = 0;
  bool in_block_ = false;  // what is added is of the repeated block
};

}  // namespace foretrace
