#pragma once
// Hybrid-EP's kernels that send tokens to experts and results back, by its authors' measurements
// (deepseek-ai/DeepEP, docs/README_Hybrid-EP.md, MIT licence: 4,096 tokens of 7,168 values in 16
// bits, 8 of 8 experts a rank, times of the kernels alone).

#include "simulator/cost/collective/expert_exchange.h"

namespace foretrace {

// Within a domain of NVLink, from the tables of GB200 with 16 and 32 multiprocessors and 8 to 36
// ranks: dispatch within 8 %, combine within 11. Between nodes, from those of H100 with 16 to 64
// ranks, whose NICs bound them. One number of tokens was measured, so that the latency is DeepEP's,
// and exchanges in 8 bits go by their bytes: measured ones take up to 1.9 times as long with 16
// multiprocessors on 36 ranks, up to 1.2 with 32.
const ExpertKernel& HybridKernel(ExpertDirection direction, int32_t nodes);

}  // namespace foretrace
