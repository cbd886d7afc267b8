#pragma once
// A curve as a part of a model in a calibration file.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/cost/collective/collective_curve.h"

namespace YAML {
class Node;
}

namespace foretrace {

// Lines of four spaces' indent: form, start_up_us, sigmoid, ..., knots.
std::string CurveYaml(const CurveSpec& spec);

// Reads back what CurveYaml wrote. Throws YAML::Exception for missing keys and wrong types; the
// caller, which knows the file, catches it.
absl::StatusOr<CollectiveCurve> ParseCurveOrThrow(const YAML::Node& node, double bus_factor);

}  // namespace foretrace
