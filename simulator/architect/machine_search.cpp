#include "simulator/architect/machine_search.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace foretrace {

absl::StatusOr<FoundDesign> MachineSearch::Find(const std::vector<SearchedModel>& models,
                                                SearchSetup setup, int hysteresis) const {
  std::string names;
  for (const SearchedModel& model : models) {
    names += fmt::format("{}{} x{:a}", names.empty() ? "" : ", ", model.model.name, model.weight);
  }
  std::optional<FoundDesign> best;
  SearchSeconds seconds;
  absl::Status reason;
  for (const Bytes hbm : sizes_) {
    for (const MachineBase& machine : space_.machines) {
      setup.training.hbm = hbm;
      setup.machine = machine;
      setup.name = fmt::format("{}{} at {} GB/s and {} GB/s, {} bytes", names,
                               hysteresis == 0 ? "" : " by hysteresis", machine.hbm.gbps(),
                               machine.link.gbps(), hbm.count());
      for (const double reference : setup.reference) {
        setup.name += fmt::format(" of {:a}", reference);
      }
      const auto sized = OnMachine(designs_, space_, machine, hbm);
      if (absl::IsFailedPrecondition(sized.status())) {
        reason = sized.status();
        continue;
      }
      if (!sized.ok()) return sized.status();
      absl::StatusOr<ArchitectResult> result =
          hysteresis == 0 ? SearchExactly(models, *sized, setup)
                          : SearchByHysteresis(models, *sized, setup, hysteresis);
      if (absl::IsFailedPrecondition(result.status())) {
        reason = result.status();
        break;
      }
      if (!result.ok()) return result.status();
      seconds.Add(result->seconds);
      const double score = result->evaluated[result->best].score;
      if (!best.has_value() || score > best->best().score) {
        best = {*std::move(result), machine, hbm};
      }
    }
  }
  if (!best.has_value()) return reason;
  best->result.seconds = seconds;
  return *std::move(best);
}

}  // namespace foretrace
