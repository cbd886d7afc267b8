#pragma once

#include <cstdint>

#include "simulator/importers/kineto/event.h"

namespace foretrace::kineto {

// How many times over a kernel's blocks fill the device, in thousandths (RankTrace::waves_milli);
// 0 when the event does not say. Limits per multiprocessor are those of Volta and later data-centre
// GPUs (CUDA programming guide, "Technical specifications per compute capability"): 64 warps, 32
// blocks, 65,536 registers, and 96 KiB of shared memory, which V100 has at least.
uint32_t KernelWavesMilli(const Event& event);

}  // namespace foretrace::kineto
