#include "simulator/replay/durations/device_calibration.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/base/input.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

// The lines of `models:` and of the device where that is first in it, as calibrate writes them;
// empty where it is written otherwise.
std::string LinesOfDevice(const std::string& text) {
  constexpr std::string_view kLines = "\nmodels:\n  device: ";
  const size_t at = text.find(kLines);
  if (at == std::string::npos) return "";
  return text.substr(at, text.find('\n', at + kLines.size()) - at);
}

// What kernels.yaml says that it was measured on; empty where it does not.
absl::StatusOr<std::string> DeviceOf(const std::string& kernels_file) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(kernels_file, kMaxYamlBytes));
  const std::string lines = LinesOfDevice(text);
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root,
                             ParseYaml(lines.empty() ? text : lines, kernels_file));
  const YAML::Node models = root["models"];
  if (!models || !models.IsMap() || !models["device"] || !models["device"].IsScalar()) return "";
  return models["device"].Scalar();
}

}  // namespace

absl::StatusOr<std::string> FindKernelCalibration(const Accelerator& device) {
  const std::vector<std::string> files = ListShipped("calibration", "kernels.yaml");
  std::vector<std::string> names;  // of the devices measured, by file
  for (const std::string& file : files) {
    FORETRACE_ASSIGN_OR_RETURN(std::string name, DeviceOf(file));
    names.push_back(std::move(name));
  }
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog,
                             AcceleratorCatalog::LoadNamed(names));
  std::string sibling;
  double nearest = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const Accelerator* of = catalog.Find(names[i]);
    if (of == nullptr) continue;
    const DeviceMatch match = Compare(device, *of);
    const std::string folder = std::filesystem::path(files[i]).parent_path().string();
    if (match == DeviceMatch::kSame) return folder;
    const double far = std::abs(of->physical.power_w - device.physical.power_w);
    if (match != DeviceMatch::kSibling || (!sibling.empty() && far >= nearest)) continue;
    sibling = folder;
    nearest = far;
  }
  return sibling;
}

}  // namespace foretrace
