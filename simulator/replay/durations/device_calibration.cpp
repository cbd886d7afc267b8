#include "simulator/replay/durations/device_calibration.h"

#include <cmath>
#include <filesystem>

#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

// What kernels.yaml says that it was measured on; empty where it does not.
absl::StatusOr<std::string> DeviceOf(const std::string& kernels_file) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(kernels_file));
  const YAML::Node models = root["models"];
  if (!models || !models.IsMap() || !models["device"] || !models["device"].IsScalar()) return "";
  return models["device"].Scalar();
}

}  // namespace

absl::StatusOr<std::string> FindKernelCalibration(const Accelerator& device) {
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  std::string sibling;
  double nearest = 0;
  for (const std::string& file : ListShipped("calibration", "kernels.yaml")) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string name, DeviceOf(file));
    const Accelerator* of = catalog.Find(name);
    if (of == nullptr) continue;
    const DeviceMatch match = Compare(device, *of);
    const std::string folder = std::filesystem::path(file).parent_path().string();
    if (match == DeviceMatch::kSame) return folder;
    const double far = std::abs(of->physical.power_w - device.physical.power_w);
    if (match != DeviceMatch::kSibling || (!sibling.empty() && far >= nearest)) continue;
    sibling = folder;
    nearest = far;
  }
  return sibling;
}

}  // namespace foretrace
