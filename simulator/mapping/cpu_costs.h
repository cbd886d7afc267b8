#pragma once
// What a process's CPU takes to start a training step's work on its device (CpuCosts). It runs
// ahead: a step is no shorter than that, however the device's own time is spread over it.

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/layer_costs.h"

namespace foretrace {

// What a kernel of a layer's forward pass takes the CPU to start.
SimTime ForwardKernelCpu(const ParallelMapping& mapping, const ClusterParameters& cluster);

// What it takes to start what a layer's backward pass runs again of its forward pass.
SimTime RepeatedCpu(const ParallelMapping& mapping, const ClusterParameters& cluster,
                    const PassCost& layer);

// Of one layer and of what is outside of layers, one micro-batch; zero where nothing is known.
CpuTimes CpuTimesOf(const ParallelMapping& mapping, const ClusterParameters& cluster,
                    const OpCosts& costs);

// Of an iteration, on the stage where it is longest.
SimTime CpuTimeOf(const TransformerConfig& model, const ParallelMapping& mapping,
                  const PassTimes& passes);

}  // namespace foretrace
