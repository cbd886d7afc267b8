#include "simulator/engine/cpu_scale.h"

namespace foretrace {

void ScaleCpu(Program& program, double factor) {
  if (factor == 1) return;
  for (RankProgram& rank : program.ranks) {
    for (Item& item : rank.items) {
      if (item.kind != ItemKind::kCall && item.kind != ItemKind::kBlocking) continue;
      item.lead = item.lead.ScaledBy(factor);
      item.duration = item.duration.ScaledBy(factor);
    }
    for (OverheadPart& part : rank.overheads) part.time = part.time.ScaledBy(factor);
  }
}

}  // namespace foretrace
