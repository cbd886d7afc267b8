#pragma once
// Kernels that operators run beside their main ones.

#include "simulator/base/time.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/traced/kernel_calls.h"
#include "simulator/cost/traced/observed_kernels.h"

namespace foretrace {

// A helper moves the result of its operator once in and once out.
KernelWork HelperWork(const KernelWork& main);
// Of operators whose predicted time is that of all their kernels.
bool HelpersAreWithin(KernelKind kind);

// What kernels beside an operator's main ones take.
struct HelperCosts {
  const KernelModels& models;
  const TraceStore& store;
  const RankTrace& rank;
  const KernelWork& first;  // of the main kernels
  SimTime floor, most;      // of a helper
  bool launched;            // the main kernel is known by its launch
  bool alone;               // without a main kernel

  // A fill takes what its recorded bytes cost; those of lookups share the sorting's time.
  SimTime Time(NodeIndex node) const;
};

// Of an operator, of which main kernels are predicted to take `time`: with what more of them than
// were predicted take at least, or without what helpers take of it.
SimTime WithKernelsAround(SimTime time, const CallKernels& op, const ObservedKernels& observed,
                          const HelperCosts& helper);

}  // namespace foretrace
