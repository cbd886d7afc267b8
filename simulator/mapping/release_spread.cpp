#include "simulator/mapping/release_spread.h"

#include <algorithm>
#include <map>
#include <set>

#include "simulator/base/error.h"

namespace foretrace {

std::vector<ReleaseSpread> ReleaseSpreads(std::span<const TrainingRow* const> rows) {
  struct Job {
    ReleaseSpread spread;
    std::set<std::string> releases;
  };
  std::map<std::string, Job> jobs;
  for (const TrainingRow* row : rows) {
    if (row->measured <= SimTime()) continue;
    // How experts are divided is a release's own choice.
    ParallelMapping mapping = row->mapping;
    mapping.expert_tensor = 0;
    const std::string name = fmt::format("{} on {} {} with {}, {}", row->model, row->gpus, row->gpu,
                                         row->family, ToString(mapping));
    Job& job = jobs[fmt::format("{} {} {} {}", name, row->config.layers, row->config.sequence,
                                mapping.global_batch)];
    ReleaseSpread& spread = job.spread;
    spread.job = name;
    spread.least = job.releases.empty() ? row->measured : std::min(spread.least, row->measured);
    spread.most = std::max(spread.most, row->measured);
    job.releases.insert(row->stack);
  }
  std::vector<ReleaseSpread> spreads;
  for (auto& [key, job] : jobs) {
    job.spread.releases = static_cast<int32_t>(job.releases.size());
    if (job.releases.size() > 1) spreads.push_back(std::move(job.spread));
  }
  std::stable_sort(spreads.begin(), spreads.end(),
                   [](const auto& a, const auto& b) { return a.percent() > b.percent(); });
  return spreads;
}

std::string Describe(std::span<const ReleaseSpread> spreads) {
  if (spreads.empty()) return "";
  const ReleaseSpread& most = spreads.front();
  return fmt::format(
      "releases alone: {} jobs ran with several, between which the measured times differ by {:.0f} "
      "% in the median, at most by {:.0f} % ({}: {:.4g} to {:.4g} s)",
      spreads.size(), spreads[spreads.size() / 2].percent(), most.percent(), most.job,
      most.least.seconds(), most.most.seconds());
}

}  // namespace foretrace
