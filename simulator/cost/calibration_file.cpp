#include "simulator/cost/calibration_file.h"

#include <yaml-cpp/yaml.h>

#include <array>

#include "absl/strings/str_join.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

std::string ErrorsYaml(const ErrorSummary& errors) {
  return fmt::format(
      "{{count: {}, gmae_percent: {:.4g}, mape_percent: {:.4g}, std_percent: {:.4g}, "
      "max_percent: {:.4g}}}",
      errors.count, errors.gmae_percent, errors.mape_percent, errors.std_percent,
      errors.max_percent);
}

std::string Text(const YAML::Node& node, const char* key) {
  const YAML::Node value = node[key];
  return value && value.IsScalar() ? value.Scalar() : std::string();
}

ErrorSummary ParseErrors(const YAML::Node& node) {
  ErrorSummary errors;
  errors.count = node["count"].as<size_t>(0);
  errors.gmae_percent = node["gmae_percent"].as<double>(0);
  errors.mape_percent = node["mape_percent"].as<double>(0);
  errors.std_percent = node["std_percent"].as<double>(0);
  errors.max_percent = node["max_percent"].as<double>(0);
  return errors;
}

absl::StatusOr<CalibrationHeader> ParseHeaderOrThrow(const YAML::Node& root,
                                                     const std::string& path,
                                                     std::string_view kind) {
  if (!root.IsMap() || !root["foretrace_calibration"]) {
    return InvalidInput("{}: not a calibration file (no key foretrace_calibration)", path);
  }
  const std::string version = Text(root, "foretrace_calibration");
  if (version != fmt::format("{}", kCalibrationVersion)) {
    return InvalidInput(
        "{}: calibration format version {}, this build reads version {}; run "
        "`foretrace calibrate` again on its tables",
        path, version, kCalibrationVersion);
  }
  CalibrationHeader header;
  header.kind = Text(root, "kind");
  header.platform = Text(root, "platform");
  if (header.kind != kind) {
    return InvalidInput("{}: kind is '{}', expected '{}'", path, header.kind, kind);
  }
  if (header.platform.empty()) return InvalidInput("{}: no platform", path);
  header.interconnect = ParseInterconnect(Text(root, "interconnect"));
  for (const YAML::Node& software : root["stack"]) header.stack.push_back(software.Scalar());
  header.date = Text(root, "date");
  header.command = Text(root, "command");
  header.note = Text(root, "note");
  for (const YAML::Node& source : root["sources"]) {
    auto& entry = header.sources.emplace_back();
    for (const auto& item : source) entry[item.first.as<std::string>()] = item.second.Scalar();
  }
  if (const YAML::Node errors = root["errors"]; errors && errors.IsMap()) {
    if (errors["in_sample"]) header.in_sample = ParseErrors(errors["in_sample"]);
    if (errors["held_out"]) header.held_out = ParseErrors(errors["held_out"]);
    header.held_out_rule = Text(errors, "held_out_rule");
  }
  return header;
}

}  // namespace

std::string_view Name(Interconnect interconnect) {
  static constexpr std::array<std::string_view, 3> kNames = {"unknown", "switch", "mesh"};
  return EnumName(kNames, interconnect);
}

Interconnect ParseInterconnect(std::string_view name) {
  for (int i = 0; i < static_cast<int>(Interconnect::kCount); ++i) {
    if (Name(static_cast<Interconnect>(i)) == name) return static_cast<Interconnect>(i);
  }
  return Interconnect::kUnknown;
}

std::string YamlQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string HeaderYaml(const CalibrationHeader& header) {
  std::string yaml = fmt::format(
      "foretrace_calibration: {}\nkind: {}\nplatform: {}\ninterconnect: {}\nstack: [{}]\ndate: {}\n"
      "command: {}\n",
      kCalibrationVersion, header.kind, YamlQuoted(header.platform), Name(header.interconnect),
      absl::StrJoin(header.stack, ", ",
                    [](std::string* out, const std::string& s) { *out += YamlQuoted(s); }),
      YamlQuoted(header.date), YamlQuoted(header.command));
  if (!header.note.empty()) yaml += fmt::format("note: {}\n", YamlQuoted(header.note));
  yaml += "sources:\n";
  for (const auto& source : header.sources) {
    const char* lead = "  - ";
    for (const auto& [key, value] : source) {
      yaml += fmt::format("{}{}: {}\n", lead, YamlQuoted(key), YamlQuoted(value));
      lead = "    ";
    }
  }
  if (header.sources.empty()) yaml += "  []\n";
  if (header.in_sample || header.held_out) yaml += "errors:\n";
  if (header.in_sample) yaml += fmt::format("  in_sample: {}\n", ErrorsYaml(*header.in_sample));
  if (header.held_out) {
    yaml += fmt::format("  held_out: {}\n  held_out_rule: {}\n", ErrorsYaml(*header.held_out),
                        YamlQuoted(header.held_out_rule));
  }
  return yaml;
}

absl::StatusOr<CalibrationHeader> ParseHeader(const YAML::Node& root, const std::string& path,
                                              std::string_view kind) {
  try {
    return ParseHeaderOrThrow(root, path, kind);
  } catch (const YAML::Exception& error) {
    return InvalidInput("{}:{}: {}", path, error.mark.line + 1, error.msg);
  }
}

}  // namespace foretrace
