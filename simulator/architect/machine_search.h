#pragma once
// The search on every machine of a space (memories, links) and every size of memory.

#include <vector>

#include "absl/status/statusor.h"
#include "simulator/architect/search.h"

namespace foretrace {

// What a search found, and on which machine.
struct FoundDesign {
  ArchitectResult result;
  MachineBase machine;
  Bytes hbm;

  const EvaluatedDesign& best() const { return result.evaluated[result.best]; }
};

class MachineSearch {
 public:
  // `sizes` of memory, ascending. All outlive the search.
  MachineSearch(const DesignSpace& space, const std::vector<SizedDesign>& designs,
                const std::vector<Bytes>& sizes)
      : space_(space), designs_(designs), sizes_(sizes) {}

  // The best of all; of equal scores that of the smallest memory, then of the machine that the
  // space has first. `hysteresis` 0: exactly. The machine and memory of `setup` do not count; its
  // `reference` does. Errors: those of the search; infeasible where no size is enough.
  absl::StatusOr<FoundDesign> Find(const std::vector<SearchedModel>& models, SearchSetup setup,
                                   int hysteresis) const;

 private:
  const DesignSpace& space_;
  const std::vector<SizedDesign>& designs_;
  const std::vector<Bytes>& sizes_;
};

}  // namespace foretrace
