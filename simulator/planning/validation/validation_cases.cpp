// Reads files of validation cases.

#include <cstdlib>
#include <filesystem>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/planning/validation/validation.h"

namespace foretrace {
namespace {

constexpr std::string_view kVariable = "$FORETRACE_REALDATA";

// Where the public data lies: the environment's word, else beside the project.
std::string RealData() {
  const char* folder = std::getenv("FORETRACE_REALDATA");
  return folder != nullptr ? folder : std::string(FORETRACE_DATA_DIR) + "/../shared/realdata";
}

std::string Resolve(const std::string& path, const std::filesystem::path& base) {
  if (path.starts_with(kVariable)) return RealData() + path.substr(kVariable.size());
  return std::filesystem::path(path).is_absolute() ? path : (base / path).string();
}

absl::StatusOr<SimTime> ReadMeasured(const std::string& file, const YAML::Node& node) {
  const auto measured = node.as<double>();
  if (measured >= 1e-3 && measured <= 1e12) return SimTime::FromUs(measured);
  return InvalidInput("{}:{}: measured_us is {}, not between 0.001 and 1e12", file,
                      node.Mark().line + 1, measured);
}

absl::StatusOr<ValidationCase> ReadCase(const std::string& file, const YAML::Node& node,
                                        const std::filesystem::path& base) {
  static const std::set<std::string> kKeys = {"name",
                                              "traces",
                                              "allow_missing_ranks",
                                              "measured_us",
                                              "overheads_from_ranks",
                                              "overheads_from_steps",
                                              "overheads",
                                              "process_groups",
                                              "platform",
                                              "network",
                                              "aligned_start",
                                              "durations",
                                              "calibration"};
  ValidationCase c;
  if (!node.IsMap()) return InvalidInput("{}:{}: expected a case", file, node.Mark().line + 1);
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    if (!kKeys.contains(key)) {
      return InvalidInput("{}:{}: unknown key \"{}\"", file, entry.first.Mark().line + 1, key);
    }
  }
  if (!node["name"] || !node["traces"]) {
    return InvalidInput("{}:{}: a case needs name and traces", file, node.Mark().line + 1);
  }
  c.name = node["name"].as<std::string>();
  for (const auto& path : node["traces"]) {
    c.traces.paths.push_back(Resolve(path.as<std::string>(), base));
    c.simulation.skip_absent =
        c.simulation.skip_absent || path.as<std::string>().starts_with(kVariable);
  }
  const auto text = [&node](const char* key, std::string& into) {
    if (node[key]) into = node[key].as<std::string>();
  };
  const auto texts = [&node](const char* key, std::vector<std::string>& into) {
    if (!node[key]) return;
    into = node[key].IsSequence() ? node[key].as<std::vector<std::string>>()
                                  : std::vector<std::string>{node[key].as<std::string>()};
  };
  if (node["allow_missing_ranks"]) {
    c.simulation.allow_missing_ranks = node["allow_missing_ranks"].as<bool>();
  }
  if (node["aligned_start"]) c.simulation.aligned_start = node["aligned_start"].as<bool>();
  if (node["measured_us"]) {
    FORETRACE_ASSIGN_OR_RETURN(c.measured, ReadMeasured(file, node["measured_us"]));
  }
  text("overheads_from_ranks", c.overheads_from_ranks);
  text("overheads_from_steps", c.overheads_from_steps);
  text("overheads", c.simulation.overheads);
  text("process_groups", c.traces.process_groups);
  text("platform", c.simulation.platform);
  text("network", c.simulation.network);
  texts("durations", c.simulation.durations.durations);
  texts("calibration", c.simulation.durations.calibrations);
  return c;
}

}  // namespace

absl::StatusOr<std::vector<ValidationCase>> LoadCases(const std::string& file) {
  std::vector<ValidationCase> cases;
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(file));
  try {
    if (!root.IsMap() || !root["cases"] || !root["cases"].IsSequence()) {
      return InvalidInput("{}: expected `cases:` with a list", file);
    }
    const std::filesystem::path base = std::filesystem::path(file).parent_path();
    for (const YAML::Node& node : root["cases"]) {
      FORETRACE_ASSIGN_OR_RETURN(ValidationCase c, ReadCase(file, node, base));
      cases.push_back(std::move(c));
    }
  } catch (const YAML::Exception& e) {
    return InvalidInput("{}:{}: {}", file, e.mark.line + 1, e.msg);
  }
  if (cases.empty()) return InvalidInput("{}: no cases", file);
  return cases;
}

}  // namespace foretrace
