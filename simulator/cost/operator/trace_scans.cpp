// Selective scans of state-space models (mamba_ssm's selective_scan_interface.py, vLLM's
// mamba_ops), from the shapes of calls.

#include <algorithm>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

// csrc/selective_scan/selective_scan_fwd_kernel.cuh: for each position of a channel and each of its
// states an exponential (8 FLOP, as elementwise_table.cpp counts it), the products of the input
// with a step and with B, two of a scan's combination and one with C, whose sum is the result.
constexpr double kFlopOfState = 8 + 2 + 3 + 2;
// selective_scan_bwd_kernel.cuh goes through it again, and backwards.
constexpr double kPassesBackward = 3;
constexpr int64_t kTypicalStates = 16;  // d_state of mamba_ssm's Mamba

// [channels, states]; a function of a whole layer has its projection of steps before.
int64_t StatesOf(const Call& call, int64_t channels) {
  int64_t states = kTypicalStates;
  for (const TensorShape& t : call.in) {
    if (t.dims.size() == 2 && t.dims[0] == channels) states = t.dims[1];
  }
  return states;
}

}  // namespace

// SelectiveScanFn and selective_scan_fwd(u [samples, channels, positions], steps, A, B, C, ...);
// MambaInnerFn(both halves of the input [samples, 2 channels, positions], filters [channels, 1,
// width], ..., A, ...); gradients are given that of the result, of a whole layer [samples,
// positions, hidden], behind a projection from usually twice as many channels (Mamba's expand).
Result SelectiveScan(std::string_view name, const Call& call) {
  const bool whole = name.find("MambaInner") != name.npos;
  if (!whole && name.find("SelectiveScan") == name.npos &&
      name.find("selective_scan_fwd") == name.npos) {
    return std::nullopt;
  }
  if (!call.in_ok(1) || call.in[0].dims.size() != 3) return std::nullopt;
  const bool backward = name.find("ackward") != name.npos;
  const auto& x = call.in[0].dims;
  const int64_t channels = whole && !backward ? x[1] / 2 : x[1];
  constexpr int64_t kExpand = 2;
  const int64_t elements =
      SaturatingProduct({x[0], channels, x[2], whole && backward ? kExpand : 1});
  const double states = static_cast<double>(backward ? kTypicalStates : StatesOf(call, channels));
  // The input, steps and gate; backward the gradient too, and gradients of all three.
  ElementwiseOp op{elements, SaturatingProduct({backward ? 4 : 3, elements}), backward ? 3 : 1,
                   kFlopOfState * states * (backward ? kPassesBackward : 1)};
  TracedOperator traced = Traced(op, call);
  traced.assumed = true;
  return traced;
}

}  // namespace foretrace::trace_call
