#pragma once
// Which accelerators a search may choose, and what they have in common. A file:
//
//   name: phaze
//   cores: {tensor: [1, 2], vector: [1, 2], width: [128], depth: [128], buffer_MB: [32, 128]}
//   area: {cap: [8, 2, 128, 128, 128], smallest_share: 0.3}     or cap_mm2: 278.8
//   machine: {clock_MHz: 1050, hbm_GBps: 1200, link_GBps: 4.294967296,
//             fill_words_per_cycle: 64, vector_operands: on_chip, source: '...'}
//   power: {logic_W_per_mm2: 0.612, hbm_W_per_GBps: 0.056, link_W_per_GBps: 0.052, source: '...'}
//   price: {logic_USD_per_mm2: 16, hbm_USD_per_GBps: 1, link_USD_per_GBps: 2, source: '...'}
//
// machine.memories_GBps and machine.links_GBps list what is searched besides hbm_GBps and
// link_GBps; power and price may have hbm_W_per_GiB and hbm_USD_per_GiB too, and cap_W and cap_USD:
// no accelerator takes or costs more, its memory and links included.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/architect/accelerator_design.h"
#include "simulator/base/units.h"

namespace foretrace {

// What every accelerator of a space has.
struct MachineBase {
  double clock_Hz = 0;
  Bandwidth hbm;
  Bandwidth link;  // of one accelerator, each direction
  // Words of 2 bytes a cycle from the global buffer into all L2 buffers, and as many back.
  double fill_words_per_cycle = 0;
  // Whether vector operators stream their operands from HBM, or find them on the chip.
  bool vectors_from_hbm = false;
};

// What an accelerator costs in watts or dollars.
struct CostRates {
  double logic_per_mm2 = 0, hbm_per_GBps = 0, link_per_GBps = 0;
  double hbm_per_GiB = 0;  // 0 where the file does not say
  double cap = std::numeric_limits<double>::infinity();
};

struct DesignSpace {
  std::string name;
  std::vector<int32_t> tensor_cores, vector_cores, widths, depths, buffers_MB;
  Area cap;
  std::optional<AcceleratorDesign> cap_design;  // whose area the cap is
  // Designs below this share of the cap are left out, unless they have one core of either kind.
  double smallest_share = 0.3;
  MachineBase machine;
  // The machine with every memory and link to search; `machine` first.
  std::vector<MachineBase> machines;
  std::optional<CostRates> watts, dollars;
};

absl::StatusOr<DesignSpace> LoadDesignSpace(const std::string& file);
absl::StatusOr<DesignSpace> ParseDesignSpace(const std::string& text, const std::string& source);

struct SizedDesign {
  AcceleratorDesign design;
  Area area;
  int32_t bucket = 0;             // areas of one bucket are as good as equal
  double watts = 0, dollars = 0;  // 0: the space does not say
};

// Designs of feasible area, by bucket descending; within a bucket in the order of the space, which
// lists every dimension from its largest value, tensor cores outermost. Errors: a size without a
// known area; infeasible: none is within the cap.
absl::StatusOr<std::vector<SizedDesign>> FeasibleDesigns(const DesignSpace& space);
// With the watts and dollars that they have on a machine of the space with that much memory,
// without those above the caps. Errors: infeasible: all are.
absl::StatusOr<std::vector<SizedDesign>> OnMachine(std::vector<SizedDesign> designs,
                                                   const DesignSpace& space,
                                                   const MachineBase& machine, Bytes hbm);

}  // namespace foretrace
