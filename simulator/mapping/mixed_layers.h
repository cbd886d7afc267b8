#pragma once
// Models whose layers are of two kinds, dense ones and mixtures of experts: each layer is taken as
// their mean by number. Exact without a pipeline; with one, stages differ that are taken as alike.

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {

// `share` of the layers take `dense`'s times, the others `mixture`'s.
PassTimes Mean(const PassTimes& dense, const PassTimes& mixture, double share);
MemoryLedger Mean(const MemoryLedger& dense, const MemoryLedger& mixture, double share);

}  // namespace foretrace
