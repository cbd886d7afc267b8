#include "simulator/cost/collective/curve_yaml.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// "x r;x r;...": one scalar, because a YAML node per number is slow to load.
std::string KnotsText(const std::vector<CurveKnot>& knots) {
  std::string text;
  for (const CurveKnot& knot : knots) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ";", knot.log2_bytes, knot.log_residual);
  }
  return text;
}

absl::StatusOr<std::vector<CurveKnot>> ParseKnots(const std::string& text) {
  std::vector<CurveKnot> knots;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (at != end) {
    CurveKnot knot;
    auto result = std::from_chars(at, end, knot.log2_bytes);
    if (result.ec != std::errc() || result.ptr == end || *result.ptr != ' ') {
      return InvalidInput("knots are not 'size residual;size residual;...'");
    }
    result = std::from_chars(result.ptr + 1, end, knot.log_residual);
    if (result.ec != std::errc() || (result.ptr != end && *result.ptr != ';')) {
      return InvalidInput("knots are not 'size residual;size residual;...'");
    }
    at = result.ptr == end ? end : result.ptr + 1;
    knots.push_back(knot);
  }
  return knots;
}

}  // namespace

std::string CurveYaml(const CurveSpec& spec) {
  std::string yaml =
      fmt::format("    form: {}\n    start_up_us: {}\n    sigmoid: [{}, {}, {}, {}]\n",
                  Name(spec.form), spec.start_up_us, spec.sigmoid.height, spec.sigmoid.midpoint,
                  spec.sigmoid.slope, spec.sigmoid.offset);
  if (spec.form == CurveForm::kThreeRegion) {
    yaml += fmt::format("    m1_bytes: {}\n    m2_bytes: {}\n    max_bandwidth_gbps: {}\n",
                        spec.m1_bytes, spec.m2_bytes, spec.max_bandwidth_gbps);
  }
  if (!spec.knots.empty()) yaml += fmt::format("    knots: \"{}\"\n", KnotsText(spec.knots));
  return yaml;
}

absl::StatusOr<CollectiveCurve> ParseCurveOrThrow(const YAML::Node& node, double bus_factor) {
  CurveSpec spec;
  spec.form = ParseCurveForm(node["form"].as<std::string>());
  if (spec.form == CurveForm::kCount) return InvalidInput("unknown form");
  spec.bus_factor = bus_factor;
  spec.start_up_us = node["start_up_us"].as<double>();
  const YAML::Node sigmoid = node["sigmoid"];
  if (!sigmoid.IsSequence() || sigmoid.size() != 4) {
    return InvalidInput("sigmoid needs four numbers [L, x0, k, b]");
  }
  spec.sigmoid = {sigmoid[0].as<double>(), sigmoid[1].as<double>(), sigmoid[2].as<double>(),
                  sigmoid[3].as<double>()};
  if (spec.form == CurveForm::kThreeRegion) {
    spec.m1_bytes = node["m1_bytes"].as<double>();
    spec.m2_bytes = node["m2_bytes"].as<double>();
    spec.max_bandwidth_gbps = node["max_bandwidth_gbps"].as<double>();
  }
  if (node["knots"]) {
    FORETRACE_ASSIGN_OR_RETURN(spec.knots, ParseKnots(node["knots"].as<std::string>()));
  }
  return CollectiveCurve::Create(std::move(spec));
}

}  // namespace foretrace
