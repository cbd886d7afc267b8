#pragma once
// Power of a device while a kernel runs, from what the kernel does.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/dtype.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/cost/calibration_file.h"

namespace foretrace {

// What a kernel does in a second.
struct Activity {
  FlopRate compute;
  Bandwidth memory;  // to and from the device's memory
  Bandwidth cache;   // what the last cache serves instead
};

// Of a kernel that takes `time` and moves `bytes`. A kernel that runs over and over finds in a
// cache of `cache` what fits there; of up to twice as much, a share; more it reads anew.
Activity ActivityOf(Flop flop, Bytes bytes, SimTime time, Bytes cache);

// In watts above idle, each FLOP and byte taking an energy of its own.
struct PowerRates {
  double busy_w = 0;  // while any kernel runs: clocks, schedulers, instructions
  double pj_per_flop = 0, pj_per_memory_byte = 0, pj_per_cache_byte = 0;

  double Watts(const Activity& activity) const;
};

// Immutable. Power above the limit is held there by the device's clock: times that were measured
// have it in them.
struct PowerModel {
  std::string device;  // "h200-sxm5"
  double idle_w = 0, limit_w = 0;
  PowerRates wide, narrow;  // operands of 16 bits and more, of 8 and less

  // Above idle, of one run of a kernel whose bytes all come from memory, as in a model whose other
  // layers ran since.
  double JoulesAboveIdle(DType dtype, Flop flop, Bytes bytes, SimTime time) const;
  double Watts(const PowerRates& rates, const Activity& activity) const;
};

// The models of a power.yaml, which HeaderYaml begins.
std::string PowerModelYaml(const PowerModel& model);

struct LoadedPower {
  CalibrationHeader header;
  PowerModel model;
};
// Errors: not a calibration of power, numbers that are missing or negative.
absl::StatusOr<LoadedPower> LoadPowerModel(const std::string& path);

}  // namespace foretrace
