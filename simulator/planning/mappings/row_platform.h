#pragma once
// Which shipped platform a published training job is taken to have run on.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/units.h"
#include "simulator/mapping/training_rows.h"
#include "simulator/topology/platform.h"

namespace foretrace {

struct RowPlatform {
  std::string file;
  std::string note;  // where its device is not what the row names, what of it differs; else empty
};

// Whether a device is of the chip that a row names ("H100" of "8x NVIDIA H100 SXM").
bool NamesChipOf(const std::string& gpu, const std::string& device);

// The first word of such a device's name, in lower case: "h100" of "8x NVIDIA H100 SXM".
std::string ChipWord(const std::string& gpu);

// When devices were to be had (Accelerator::available); files are read once.
class DeviceDates {
 public:
  // The earliest month of a shipped device of the chip that a row names; empty: no file says it.
  std::string Of(const std::string& gpu);

 private:
  std::optional<std::map<std::string, std::string>> all_;  // by name
};

// All shipped platforms; read once.
class RowPlatforms {
 public:
  // Of those that can have as many devices, the one whose device shares most words with the row's
  // GPU, among those that share its chip ("H100" of "8x NVIDIA H100 SXM"); nodes of as many devices
  // before others, then devices of as much memory where the row states it, then those that say that
  // the row's source ran on them, and last those that say so of other sources alone. Where the row
  // states no memory, the same device with at least `needed` if there is one. Errors: no platform
  // has so many of that chip.
  absl::StatusOr<RowPlatform> Of(const TrainingRow& row, Bytes needed = Bytes());

 private:
  using Allowed = std::function<bool(const Accelerator&)>;
  const PlatformSpec* Nearest(const TrainingRow& row, const Allowed& allowed) const;

  std::optional<std::vector<PlatformSpec>> all_;
};

}  // namespace foretrace
