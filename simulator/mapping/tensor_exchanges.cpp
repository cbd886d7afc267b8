#include "simulator/mapping/tensor_exchanges.h"

namespace foretrace {
namespace {

void SetBackward(PassTimes& times, int32_t halves) {
  times.tensor.backward = halves / 2;
  times.tensor_half.bytes = times.tensor.bytes;
  times.tensor_half.time = SimTime::FromPs(times.tensor.time.ps() / 2);
  times.tensor_half.backward = halves % 2;
}

}  // namespace

void SetTensorExchanges(const TransformerConfig& c, const ParallelMapping& m,
                        const GroupCosts& groups, const PassCost& layer, double hidden,
                        PassTimes& times) {
  times.tensor.bytes = Bytes(static_cast<int64_t>(hidden));
  if (m.tensor == 1) return;
  times.tensor.time = SimTime::FromSeconds(groups.TensorReduction(hidden));
  // Of experts whose products are divided like others, every visit of a token is gathered and
  // its result reduced; of whole experts none is. Shared experts are divided as attention is.
  const bool whole = c.experts > 0 && m.expert_width() != m.tensor;
  const auto visits = static_cast<int32_t>(whole || c.experts == 0 ? 0 : c.top_k);
  const int32_t alike = c.experts == 0 || c.shared_ffn > 0 ? 2 : 1;
  // In halves: one gathers, the other scatters.
  const int32_t regions = 2 * (alike + visits);
  // Recomputed layers wait for their forward reductions once more.
  const int32_t again = m.recompute == Recompute::kFull        ? regions
                        : m.recompute == Recompute::kOperators ? regions
                        : m.recompute == Recompute::kAlternate ? regions / 2
                                                               : 0;
  // What experts were given is kept as it arrived (Megatron Core, transformer/moe/experts.py); of
  // the others' inputs only the rank's own part is, and gathered again.
  const int32_t inputs = m.sequence_parallel ? alike : 0;
  int32_t backward = regions + inputs + again - layer.gathers_beside;
  times.tensor.forward = (regions - layer.exchanges_beside) / 2;
  if (!m.overlap_tensor || m.schedule == ScheduleKind::kZeroBubbleH1) {
    return SetBackward(times, backward);
  }
  times.tensor_hidden.time = times.tensor.time;
  times.tensor_hidden.bytes = times.tensor.bytes;
  for (const PassCost::Column& column : layer.columns) {
    const double cover = column.weight + (m.sequence_parallel ? column.input : 0);
    if (backward < 2) break;
    times.tensor_hidden.cover.push_back(SimTime::FromSeconds(cover));
    backward -= 2;
  }
  SetBackward(times, backward);
}

}  // namespace foretrace
