#pragma once
// Recurrences of cuDNN and MIOpen (aten::_cudnn_rnn, aten::miopen_rnn and their gradients): one
// call launches the products of all steps. Its tensors say what it computes in all, its kernels'
// launches how that is divided.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "simulator/base/units.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

struct Recurrence {
  // Products of what each step is given and, backward, the gradients of all weights, which need not
  // wait for the step before.
  Flop inputs;
  Flop recurrent;  // products of the state or of its gradient, one step after the other
  int64_t steps = 0;
  DType dtype = DType::kFloat32;

  Flop flop() const { return inputs + recurrent; }
};

bool IsRecurrence(std::string_view call);
// nullopt: the call is none, or has no shapes.
std::optional<Recurrence> RecurrenceOf(std::string_view call, std::span<const TensorShape> inputs);

// A kernel that has the weights of the recurrence in its registers and goes through all steps
// (cuDNN's CUDNN_RNN_ALGO_PERSIST_STATIC).
bool GoesThroughSteps(std::string_view kernel);

}  // namespace foretrace
