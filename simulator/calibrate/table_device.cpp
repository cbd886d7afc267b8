#include "simulator/calibrate/table_device.h"

#include "simulator/base/error.h"

namespace foretrace {

absl::Status CheckDevice(const BenchmarkTable& table, const std::string& platform,
                         const AcceleratorCatalog& devices) {
  const auto stated = table.provenance.find("device");
  if (stated == table.provenance.end()) return absl::OkStatus();
  const Accelerator* device = devices.FindLabel(stated->second);
  const Accelerator* named = devices.FindLabel(platform);
  if (device == nullptr) return absl::OkStatus();
  if (named == nullptr) {
    return InvalidInput(
        "{}: its device is {}, but platform '{}' of its rows is named after no device; write for "
        "example '{}-lab' there",
        table.path, stated->second, platform, device->name);
  }
  // "H100" may be of any of its boards.
  if (device->chip != named->chip) {
    return InvalidInput(
        "{}: its device is {}, but platform '{}' of its rows is named after {}; correct one of "
        "them",
        table.path, stated->second, platform, named->name);
  }
  return absl::OkStatus();
}

}  // namespace foretrace
