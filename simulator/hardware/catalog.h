#pragma once
// The accelerators that there are files of, and which of them a name means.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// What stands in for a device that no file describes: it has limits, but neither rates nor memory.
inline constexpr std::string_view kUnnamedAccelerator = "unnamed";

class AcceleratorCatalog {
 public:
  // All files of topologies/accelerators/ (base/shipped.h). Errors: a file that cannot be read or
  // is bad; two files with one alias.
  static absl::StatusOr<AcceleratorCatalog> Load();
  // Those that Find finds by one of `names`, and the one that stands in for unknown ones: a tenth
  // of the time. Errors: as Load, of other files their names alone.
  static absl::StatusOr<AcceleratorCatalog> LoadNamed(std::span<const std::string> names);
  static absl::StatusOr<AcceleratorCatalog> Of(std::vector<Accelerator> accelerators);

  std::span<const Accelerator> all() const { return all_; }

  // By its name or an alias, which is compared as a whole, in any case, with ' ' and '_' for '-';
  // null where there is none. A slice of a device (MIG) is none of them.
  const Accelerator* Find(std::string_view name) const;
  // As Find; else the longest name or alias that the label begins with, as a word: a label of
  // measurements says more than the device ("a100-sxm4-nvswitch").
  const Accelerator* FindLabel(std::string_view label) const;
  // Limits of the device that a recording names, or of the one that stands in for unknown ones; no
  // limits where there are no files at all.
  DriverLimits DriverOf(std::string_view name) const;
  // None of a device without a file.
  DeviceLinks LinksOf(std::string_view name) const;
  OccupancyLimits OccupancyOf(std::string_view name) const;

  // What to say where Find fails: what there is, where was looked, the nearest name.
  absl::Status Unknown(std::string_view name) const;

 private:
  std::vector<Accelerator> all_;    // by name
  std::vector<std::string> known_;  // names of these and of what LoadNamed left out, but "unnamed"
};

// What AcceleratorCatalog::Find finds. Errors: as LoadNamed; no file has that name or alias.
absl::StatusOr<Accelerator> FindAccelerator(std::string_view name);

}  // namespace foretrace
