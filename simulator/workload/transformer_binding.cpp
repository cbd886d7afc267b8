// A device's local sizes of a transformer's axes.

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "simulator/workload/transformer_graph.h"

namespace foretrace {

Binding BindTransformer(const TransformerGraph& model, const TransformerConfig& config,
                        const TransformerShares& shares) {
  Binding sizes = model.graph.Declared();
  const TransformerAxes& a = model.axes;
  const auto set = [&](AxisId axis, int64_t size) { sizes.size[static_cast<size_t>(axis)] = size; };
  const auto divide = [&](AxisId axis, int64_t by) {
    set(axis, std::max<int64_t>(sizes.of(axis) / by, 1));
  };
  const int64_t tokens = config.sequence * shares.micro_batch / shares.context;
  const int64_t split = shares.sequence_parallel ? shares.tensor : 1;
  set(a.batch, shares.micro_batch);
  set(a.queries, config.sequence / shares.context);
  set(a.keys, config.sequence);
  set(a.stream, tokens / split);
  // To whole experts each device's own tokens are routed.
  const bool whole = config.experts > 0 && shares.expert_tensor == 1;
  // Whole eights for each expert at home: kernels of sizes that are not aligned are timed slower,
  // which a load on average does not say.
  const int64_t unit = 8 * std::max<int64_t>(config.experts / shares.expert, 1);
  const auto routed = [&](int64_t mean, double load) {
    if (load == 1) return mean;
    const double units = static_cast<double>(mean) * load / static_cast<double>(unit);
    return unit * static_cast<int64_t>(std::ceil(units - 1e-6));
  };
  set(a.routed, routed(tokens * config.top_k / (whole ? split : 1), shares.arriving));
  set(a.stream_routed, routed(tokens * config.top_k / split, shares.leaving));
  for (const AxisId axis : {a.heads, a.kv_heads, a.vocabulary}) divide(axis, shares.tensor);
  if (config.state_heads > 0) {
    for (const AxisId axis : {a.state_heads, a.state_groups}) divide(axis, shares.tensor);
  }
  if (!whole) divide(a.ffn, shares.tensor);
  if (!whole && a.up != a.ffn) divide(a.up, shares.tensor);
  if (config.shared_ffn > 0) divide(a.shared, shares.tensor);
  if (config.shared_ffn > 0 && a.shared_up != a.shared) divide(a.shared_up, shares.tensor);
  if (config.experts > 0) divide(a.experts, shares.expert);
  return sizes;
}

Division DivisionOf(const TransformerGraph& model, const TransformerConfig& config,
                    const TransformerShares& shares) {
  const TransformerAxes& a = model.axes;
  Division division;
  division.tokens = {a.queries, a.stream, a.routed, a.stream_routed};
  division.sequence = shares.sequence;
  if (shares.balance_loss) division.summed = model.routed;
  const auto divide = [&](ShardGroup group, int64_t ranks, std::initializer_list<AxisId> axes) {
    for (const AxisId axis : axes) {
      if (ranks > 1 && !division.Divides(axis, group)) division.parts.push_back({axis, group});
    }
  };
  divide(ShardGroup::kContext, shares.context, {a.queries, a.stream, a.routed, a.stream_routed});
  const int64_t split = shares.sequence_parallel ? shares.tensor : 1;
  divide(ShardGroup::kTensor, split, {a.stream, a.stream_routed});
  const bool whole = config.experts > 0 && shares.expert_tensor == 1;
  if (whole) divide(ShardGroup::kTensor, split, {a.routed});
  divide(ShardGroup::kTensor, shares.tensor, {a.heads, a.kv_heads, a.vocabulary});
  if (config.state_heads > 0) {
    divide(ShardGroup::kTensor, shares.tensor, {a.state_heads, a.state_groups});
  }
  if (!whole) divide(ShardGroup::kTensor, shares.tensor, {a.ffn, a.up});
  if (config.shared_ffn > 0) divide(ShardGroup::kTensor, shares.tensor, {a.shared, a.shared_up});
  if (config.experts > 0) divide(ShardGroup::kExpert, shares.expert, {a.experts, a.routed});
  return division;
}

}  // namespace foretrace
