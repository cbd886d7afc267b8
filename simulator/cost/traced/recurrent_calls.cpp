#include "simulator/cost/traced/recurrent_calls.h"

#include <algorithm>
#include <vector>

#include "simulator/base/contains.h"
#include "simulator/cost/operator/trace_call.h"

namespace foretrace {
namespace {

using trace_call::Elements;
using trace_call::LeadingElements;

// aten/src/ATen/native/native_functions.yaml: (input, weight list, stride, weight buffer, hx, cx,
// ...), gradients (input, weight list, stride, weight buffer, hx, cx, output, ...); MIOpen's have
// no buffer forward. Lists have shapes since PyTorch 2.1; the buffer has all weights, biases among
// them.
int64_t WeightsOf(std::span<const TensorShape> behind) {
  int64_t matrices = 0, buffer = 0;
  for (const TensorShape& t : behind) {
    if (t.dims.size() == 2) matrices += std::min(Elements(t), (int64_t{1} << 62) - matrices);
    if (t.dims.size() == 1) buffer = std::max(buffer, Elements(t));
  }
  return matrices > 0 ? matrices : buffer;
}

}  // namespace

bool IsRecurrence(std::string_view call) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"aten::_cudnn_rnn", "aten::_cudnn_rnn_backward",
                                              "aten::miopen_rnn", "aten::miopen_rnn_backward"},
      [&](std::string_view name) { return name == call; });
}

std::optional<Recurrence> RecurrenceOf(std::string_view call, std::span<const TensorShape> inputs) {
  if (!IsRecurrence(call)) return std::nullopt;
  std::vector<TensorShape> tensors;
  for (const TensorShape& t : inputs) {
    if (!t.dims.empty()) tensors.push_back(t);
  }
  // Steps by samples, or samples by steps; of packed sequences, the rows of all steps.
  if (tensors.empty() || tensors[0].dims.size() < 2) return std::nullopt;
  const TensorShape& x = tensors[0];
  const std::span<const TensorShape> behind = std::span(tensors).subspan(1);
  // States: [layers x directions, samples, hidden], of an LSTM those of cells too.
  const auto is_state = [](const TensorShape& t) { return t.dims.size() == 3; };
  const auto state = std::ranges::find_if(behind, is_state);
  const int64_t weights = WeightsOf(behind);
  if (state == behind.end() || weights <= 0 || state->dims[1] <= 0) return std::nullopt;
  // Next to the state: gradients have that of the last state farther behind.
  const auto next = state + 1;
  const bool has_cells = next != behind.end() && std::ranges::equal(next->dims, state->dims);
  const int64_t square = SaturatingProduct({state->dims[0], state->dims[2], state->dims[2]});
  // Gates of an LSTM, of a GRU, of a plain recurrence.
  const int64_t gates = has_cells ? 4 : weights / 3 >= square ? 3 : 1;
  const double rows = static_cast<double>(LeadingElements(x, 1));
  const double recurrent =
      static_cast<double>(std::min(SaturatingProduct({gates, square}), weights));
  const double of_inputs = static_cast<double>(weights) - recurrent;
  Recurrence found;
  found.recurrent = Flop(2 * rows * recurrent);
  found.inputs = Flop(2 * rows * of_inputs);
  // The gradient of the weights sums over the rows of all steps.
  if (call.ends_with("_backward")) found.inputs += found.flop();
  found.steps = (LeadingElements(x, 1) - 1) / state->dims[1] + 1;
  found.dtype = x.dtype;
  return found;
}

bool GoesThroughSteps(std::string_view kernel) {
  return ContainsAny(kernel, {"RNN_blockPersist", "persistRNN", "RNN_persist"});
}

}  // namespace foretrace
