// Of KernelCostModel: what kernels take because of those that ran before them.

#include <algorithm>

#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/warpgroup_gemm.h"
#include "simulator/cost/power/power_clock.h"
#include "simulator/cost/traced/kernel_cost_model.h"

namespace foretrace {

void KernelCostModel::AddCodeFetches(const TraceStore& store, const RankTrace& rank,
                                     std::vector<Entry>& entries) const {
  const GpuPeaks& device = models_->device();
  if (!FetchesCodeOnDemand(device)) return;
  CodeCache cache;
  // What the recording begins with ran in the iteration before, like all the rest.
  for (const bool before : {true, false}) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (rank.kind(node) != NodeKind::kKernel) continue;
      const std::string_view name = store.name(rank, node);
      const bool fetched = cache.Run(rank.name(node).value, CodeBytes(name));
      Estimate& estimate = entries[i].estimate;
      if (before || !fetched || estimate.source == EstimateSource::kMissing) continue;
      estimate.time += CodeFetchTime(device, name);
    }
  }
}

void KernelCostModel::NoteWork(const TraceStore& store, const RankTrace& rank,
                               const ObservedKernels& observed, bool launched,
                               std::vector<Entry>& entries) const {
  if (observed.mains.empty()) return;
  const GpuPeaks& device = models_->device();
  const double sustained = device.sustained_tflops(observed.precision);
  const double tflops = sustained > 0 ? sustained : device.peak_tflops(observed.precision);
  double flop = 0, bytes = 0;
  for (const KernelWork& work : observed.list) {
    flop += work.flop.count();
    bytes += static_cast<double>(work.total_bytes());
  }
  const double share = 1.0 / static_cast<double>(observed.mains.size());
  for (const NodeIndex node : observed.mains) {
    Entry& entry = entries[node.value];
    entry.lasting = SimTime::FromUs(share * flop / (tflops * 1e6));
    entry.streaming = SimTime::FromUs(share * bytes / (device.dram_gbps * 1e3));
    entry.limited = launched && sustained > 0 && WarpgroupTileOf(store.name(rank, node)).known();
  }
}

void KernelCostModel::LimitPower(const RankTrace& rank, std::vector<Entry>& entries) const {
  if (std::ranges::none_of(entries, &Entry::limited)) return;
  const auto runs = [&](uint32_t i) {
    return rank.kind(NodeIndex(i)) == NodeKind::kKernel &&
           entries[i].estimate.source != EstimateSource::kMissing;
  };
  // At the clock that lasts; what is not known streams.
  const auto lasting = [](const Entry& e) {
    return e.limited ? std::max(e.estimate.time, e.lasting) : e.estimate.time;
  };
  const auto share = [&](const Entry& e) {
    const SimTime time = lasting(e);
    const bool known = e.lasting > SimTime() || e.streaming > SimTime();
    return PowerShare(e.lasting, known ? e.streaming : time, time);
  };
  double drawn = 0, us = 0;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    if (!runs(i)) continue;
    drawn += share(entries[i]) * lasting(entries[i]).us();
    us += lasting(entries[i]).us();
  }
  PowerClock clock(us > 0 ? drawn / us : 0);
  for (uint32_t i = 0; i < rank.size(); ++i) {
    if (!runs(i)) continue;
    Entry& entry = entries[i];
    const double power = share(entry);
    const SimTime time = lasting(entry);
    if (entry.limited) {
      const double clocks = clock.During(time, power);
      entry.estimate.time = std::max(entry.estimate.time, entry.lasting.ScaledBy(1 / clocks));
    }
    clock.Run(time, power);
  }
}

}  // namespace foretrace
