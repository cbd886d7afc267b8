#include "simulator/cost/kernel/launch_estimates.h"

#include <vector>

#include "simulator/cost/kernel/named_work.h"

namespace foretrace {
namespace {

// How many results the GEMMs among these kernels have; 0 where the recording is not of training,
// which has a backward pass.
double TypicalResults(const TraceStore& store, const RankTrace& rank,
                      std::span<const NodeIndex> kernels, const GpuPeaks& device) {
  bool trains = false;
  for (uint32_t i = 0; i < rank.size() && !trains; ++i) {
    const NodeIndex n(i);
    trains = rank.kind(n) == NodeKind::kCpuOp &&
             store.roles().of_op(NodeKind::kCpuOp, rank.name(n)).backward;
  }
  std::vector<Launch> launches;
  for (const NodeIndex n : kernels) {
    if (trains) launches.push_back({store.name(rank, n), rank.waves_milli(n)});
  }
  return MeanResults(device, launches);
}

}  // namespace

LaunchEstimates::LaunchEstimates(const KernelModels& models, const TraceStore& store,
                                 const RankTrace& rank, std::span<const NodeIndex> kernels)
    : models_(models),
      store_(store),
      rank_(rank),
      moved_(store, rank, models.device()),
      typical_results_(TypicalResults(store, rank, kernels, models.device())) {}

std::optional<LaunchEstimate> LaunchEstimates::Of(NodeIndex kernel) {
  const uint32_t name = rank_.name(kernel).value;
  const Launch launch{store_.name(rank_, kernel), rank_.waves_milli(kernel)};
  const auto [kind, first] = kinds_.try_emplace(name);
  if (first) kind->second = NamedWorkOf(launch.name).kind;
  const int64_t near = moved_.Near(kernel, kind->second);
  const auto [estimate, added] = estimates_.try_emplace({name, launch.waves_milli, near});
  if (added) estimate->second = EstimateLaunch(models_, launch, near, typical_results_);
  return estimate->second;
}

}  // namespace foretrace
