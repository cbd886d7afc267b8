#include "simulator/cost/traced/launch_estimates.h"

#include <vector>

#include "simulator/cost/kernel/named_work.h"

namespace foretrace {
namespace {

// How many results a rank's GEMMs have; 0 where the recording is not of training, which has a
// backward pass.
double TypicalResults(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device) {
  bool trains = false;
  for (uint32_t i = 0; i < rank.size() && !trains; ++i) {
    const NodeIndex n(i);
    trains = rank.kind(n) == NodeKind::kCpuOp &&
             store.roles().of_op(NodeKind::kCpuOp, rank.name(n)).backward;
  }
  std::vector<Launch> launches;
  for (uint32_t i = 0; i < rank.size() && trains; ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) != NodeKind::kKernel) continue;
    launches.push_back(LaunchOf(store, rank, n));
  }
  return MeanResults(device, launches);
}

}  // namespace

LaunchEstimates::LaunchEstimates(const KernelModels& models, const TraceStore& store,
                                 const RankTrace& rank, std::optional<MovedElements> moved)
    : models_(models),
      store_(store),
      rank_(rank),
      thread_elements_(ElementsOfThread(store, rank)),
      moved_(moved ? *std::move(moved)
                   : MovedElements(store, rank, models.device(), thread_elements_)),
      typical_results_(TypicalResults(store, rank, models.device())) {}

std::optional<LaunchEstimate> LaunchEstimates::Of(NodeIndex kernel) {
  const uint32_t name = rank_.name(kernel).value;
  Launch launch = LaunchOf(store_, rank_, kernel);
  launch.thread_elements = thread_elements_;
  const auto [kind, first] = kinds_.try_emplace(name);
  if (first) kind->second = NamedWorkOf(launch.name).kind;
  const int64_t near = moved_.Near(kernel, kind->second);
  const Key key{name, launch.waves_milli, launch.attr != nullptr ? *launch.attr : LaunchAttr(),
                near};
  const auto [estimate, added] = estimates_.try_emplace(key);
  if (added) estimate->second = EstimateLaunch(models_, launch, near, typical_results_);
  return estimate->second;
}

}  // namespace foretrace
