#pragma once
// Which call each device node of a trace belongs to, and which operator that call is.

#include <cstdint>
#include <map>
#include <vector>

#include "simulator/cost/traced/call_pairs.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CallKernels {
  NodeIndex call;
  std::vector<NodeIndex> kernels;  // in order of issue
};

struct KernelCalls {
  TracedCalls operators;
  // Kernels, fills and copies within the device, each once, with the innermost call that is known
  // as an operator; by call, or by kernel where kernels of one call have operators of their own, so
  // that the order is the trace's. Those without such a call are in none.
  std::map<uint32_t, CallKernels> launched;
  // Calls whose kernels are in none: operators without a tensor that has a shape; functions (layers
  // of Transformer Engine, of Megatron) whose names say nothing, but those of their kernels name
  // GEMMs or attention.
  std::map<uint32_t, CallKernels> shapeless, functions;
  // Kernels that no call was recorded around, as a CUDA graph launches them, and whose like no call
  // launches.
  std::vector<NodeIndex> uncalled;
};

// Operators follow from a call's shapes; where it has none, from those of a call like it
// (call_signatures.h); what shapes leave out, from its partner of the other pass (call_pairs.h).
KernelCalls FindKernelCalls(const TraceStore& store, const RankTrace& rank);

}  // namespace foretrace
