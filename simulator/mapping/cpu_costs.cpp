#include "simulator/mapping/cpu_costs.h"

#include <algorithm>
#include <span>

#include "simulator/mapping/mixed_layers.h"

namespace foretrace {
namespace {

SimTime Times(SimTime each, int64_t count) { return SimTime::FromPs(each.ps() * count); }

// Of operators that take `each` to start their first kernel.
SimTime Starts(SimTime each, const KernelStarts& kernels, const ClusterParameters& cluster) {
  return Times(each, kernels.all - kernels.further) +
         Times(std::min(each, cluster.issue), kernels.further);
}

}  // namespace

std::span<const CpuCosts::Part> CpuCosts::Parts() {
  static constexpr Part kParts[] = {{"forward_kernel", &CpuCosts::forward_kernel},
                                    {"backward_kernel", &CpuCosts::backward_kernel},
                                    {"compiled_kernel", &CpuCosts::compiled_kernel},
                                    {"policy", &CpuCosts::policy},
                                    {"forward_hooks", &CpuCosts::forward_hooks},
                                    {"backward_hooks", &CpuCosts::backward_hooks},
                                    {"update", &CpuCosts::update}};
  return kParts;
}

CpuCosts CpuCosts::ScaledBy(double times) const {
  CpuCosts scaled;
  for (const Part& part : Parts()) scaled.*part.cost = (this->*part.cost).ScaledBy(times);
  return scaled;
}

bool CpuCosts::any() const {
  return std::ranges::any_of(Parts(),
                             [this](const Part& part) { return this->*part.cost > SimTime(); });
}

SimTime ForwardKernelCpu(const ParallelMapping& m, const ClusterParameters& cluster) {
  const CpuCosts& cpu = cluster.cpu;
  if (cluster.forms.compiled) return cpu.compiled_kernel;
  const bool asks = m.recompute == Recompute::kOperators;
  return cpu.forward_kernel + (asks ? cpu.policy : SimTime());
}

SimTime RepeatedCpu(const ParallelMapping& m, const ClusterParameters& cluster,
                    const PassCost& layer) {
  return Starts(ForwardKernelCpu(m, cluster), RepeatedKernels(m, layer), cluster);
}

CpuTimes CpuTimesOf(const ParallelMapping& m, const ClusterParameters& cluster,
                    const OpCosts& costs) {
  const CpuCosts& cpu = cluster.cpu;
  CpuTimes times;
  if (!cpu.any()) return times;
  const SimTime forward = ForwardKernelCpu(m, cluster);
  const SimTime backward = cluster.forms.compiled ? cpu.compiled_kernel : cpu.backward_kernel;
  const bool divided = m.zero >= 3 && cluster.per_parameter_sharding;
  const SimTime gathers = divided ? cpu.forward_hooks : SimTime();
  const SimTime reduces = divided ? cpu.backward_hooks : SimTime();
  times.forward = Starts(forward, costs.layer.forward_kernels, cluster) + gathers;
  times.backward = Starts(backward, costs.layer.backward_kernels, cluster) + reduces +
                   RepeatedCpu(m, cluster, costs.layer);
  // Not compiled with the layers.
  const auto ends = [&](const PassCost& of) {
    return Starts(cpu.forward_kernel, of.forward_kernels, cluster) +
           Starts(cpu.backward_kernel, of.backward_kernels, cluster);
  };
  times.first = ends(costs.before) + gathers + reduces;
  times.last = ends(costs.after);
  times.update = cpu.update;
  return times;
}

SimTime CpuTimeOf(const TransformerConfig& model, const ParallelMapping& m,
                  const PassTimes& passes) {
  SimTime longest;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    SimTime each, update;
    for (int32_t c = 0; c < m.held_chunks(); ++c) {
      const int64_t layers = LayersOf(model, m, s, c);
      const int64_t frozen = layers - TrainedLayersOf(model, m, s, c);
      for (int64_t i = 0; i < layers; ++i) {
        const CpuTimes& own = TimesOf(model, m, s, c, i, passes).cpu;
        each += own.forward + (i < frozen ? SimTime() : own.backward);
        if (i >= frozen) update += own.update;
      }
    }
    if (HasEmbedding(m, s)) each += passes.cpu.first;
    if (HasHead(m, s)) each += passes.cpu.last;
    longest = std::max(longest, Times(each, m.chunk_microbatches()) + update);
  }
  return longest;
}

}  // namespace foretrace
