#pragma once
// Which call each device node of a trace belongs to, and which operator that call is.

#include <cstdint>
#include <map>
#include <vector>

#include "simulator/cost/kernel/call_pairs.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CallKernels {
  NodeIndex call;
  std::vector<NodeIndex> kernels;  // in order of issue
};

struct KernelCalls {
  TracedCalls operators;
  // Kernels, fills and copies within the device, each once, with the innermost call that is known
  // as an operator; by call, so that the order is the trace's. Those without such a call are in
  // none.
  std::map<uint32_t, CallKernels> launched;
};

// Calls that launch kernels, are not among the known ones and have no tensor with a shape.
std::map<uint32_t, CallKernels> ShapelessCalls(const RankTrace& rank,
                                               const std::map<uint32_t, CallKernels>& known);

// Operators follow from a call's shapes; where it has none, from those of a call like it
// (call_signatures.h); what shapes leave out, from its partner of the other pass (call_pairs.h).
KernelCalls FindKernelCalls(const TraceStore& store, const RankTrace& rank);

}  // namespace foretrace
