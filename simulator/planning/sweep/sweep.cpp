#include "simulator/planning/sweep/sweep.h"

#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/base/yaml.h"
#include "simulator/base/yaml_reader.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

constexpr size_t kMostValues = 1'000'000;

std::optional<double> Number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// Unset: not a range.
absl::StatusOr<std::optional<std::vector<std::string>>> Range(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const bool factor = parts.size() == 3 && parts[2].starts_with('x');
  const std::optional<double> first = Number(parts[0]), last = Number(parts[1]);
  const std::optional<double> step =
      parts.size() == 2 ? 1 : Number(factor ? parts[2].substr(1) : parts[2]);
  if (!first || !last || !step) return std::nullopt;
  if (*first > *last || (factor ? *step <= 1 || *first <= 0 : *step <= 0)) {
    return InvalidInput(
        "--over: \"{}\" is no rising range; forms: FIRST:LAST, FIRST:LAST:STEP, FIRST:LAST:xFACTOR",
        text);
  }
  std::vector<std::string> values;
  const double slack = 1e-9 * std::max(std::abs(*first), std::abs(*last));
  for (size_t i = 0; values.size() <= kMostValues; ++i) {
    const auto n = static_cast<double>(i);
    const double value = factor ? *first * std::pow(*step, n) : *first + n * *step;
    if (value > *last + slack) return values;
    values.push_back(fmt::format("{}", std::abs(value) < 1e15 && value == std::round(value)
                                           ? fmt::format("{:.0f}", value)
                                           : fmt::format("{:.12g}", value)));
  }
  return InvalidInput("--over: \"{}\" has over {} values", text, kMostValues);
}

// Options that a help text lists.
std::vector<std::string> OptionsOf(std::string_view help) {
  static const RE2 kOption("(?m)^\\s+(?:-\\w,\\s*)?--([a-z][a-z0-9-]*)");
  std::vector<std::string> options;
  re2::StringPiece rest(help.data(), help.size());
  for (std::string name; RE2::FindAndConsume(&rest, kOption, &name);) {
    if (name != "help") options.push_back(name);
  }
  return options;
}

// How outputs are spelled in a help text: "--timeline", "-o".
std::set<std::string> OutputsOf(std::string_view help) {
  static const RE2 kOutput(
      "(?m)^\\s+(-\\w)?(?:,\\s*)?(--[a-z][a-z0-9-]*)? (?:FILE|DIR|TEXT|CSV|YAML)");
  std::set<std::string> outputs;
  const size_t from = help.find("\nOutput:\n");
  if (from == std::string_view::npos) return outputs;
  help = help.substr(from, help.find("\nExamples:", from) - from);
  re2::StringPiece rest(help.data(), help.size());
  for (std::string letter, name; RE2::FindAndConsume(&rest, kOutput, &letter, &name);) {
    if (!letter.empty()) outputs.insert(letter);
    if (!name.empty()) outputs.insert(name);
  }
  return outputs;
}

// A reference to the value at "links.nvlink4.bandwidth_GBps"; undefined where there is none.
YAML::Node Find(const YAML::Node& root, std::string_view path) {
  YAML::Node at;
  at.reset(root);
  for (const std::string_view part : Split(path, '.')) {
    YAML::Node next;
    if (at.IsMap()) {
      for (const auto& entry : at) {
        if (entry.first.Scalar() == part) next.reset(entry.second);
      }
    } else if (at.IsSequence()) {
      const std::optional<double> index = Number(part);
      if (index && *index >= 0 && *index < static_cast<double>(at.size())) {
        next.reset(at[static_cast<size_t>(*index)]);
      }
    }
    if (!next.IsDefined() || next.IsNull()) return YAML::Node(YAML::NodeType::Undefined);
    at.reset(next);
  }
  return at;
}

void ListFacts(const YAML::Node& node, const std::string& path, std::vector<std::string>& out) {
  static const std::set<std::string> kTexts = {"name", "description", "source", "fitted"};
  if (node.IsScalar()) out.push_back(path);
  if (node.IsMap()) {
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      if (kTexts.contains(key)) continue;
      ListFacts(entry.second, path.empty() ? key : path + "." + key, out);
    }
  }
  for (size_t i = 0; node.IsSequence() && i < node.size(); ++i) {
    ListFacts(node[i], fmt::format("{}.{}", path, i), out);
  }
}

constexpr std::string_view kOfAccelerator = "accelerator.";

// The file of a platform's accelerator. `folder`: of the platform's file.
absl::StatusOr<std::filesystem::path> AcceleratorFile(const YAML::Node& platform,
                                                      const std::string& folder) {
  const YAML::Node named = Find(platform, "node.accelerator");
  if (!named.IsDefined() || !named.IsScalar()) {
    return InvalidInput("--over: the platform names no node.accelerator");
  }
  const std::string& name = named.Scalar();
  if (name.ends_with(".yaml")) return std::filesystem::path(folder) / name;
  FORETRACE_ASSIGN_OR_RETURN(const Accelerator found, FindAccelerator(name));
  return std::filesystem::path(found.file);
}

}  // namespace

absl::StatusOr<SweepAxis> ParseSweepAxis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return InvalidInput("--over: \"{}\" is not NAME=VALUES, such as ranks=8,16,32 or ranks=8:64:x2",
                        text);
  }
  SweepAxis axis;
  axis.name = std::string(text.substr(0, equals));
  while (axis.name.starts_with('-')) axis.name.erase(0, 1);
  const std::string_view values = text.substr(equals + 1);
  FORETRACE_ASSIGN_OR_RETURN(const auto range, Range(values));
  if (range.has_value()) {
    axis.values = *range;
    return axis;
  }
  const char separator = values.find(';') == std::string_view::npos ? ',' : ';';
  for (const std::string_view value : Split(values, separator)) {
    if (value.empty()) return InvalidInput("--over: \"{}\" holds an empty value", text);
    if (std::ranges::find(axis.values, value) != axis.values.end()) {
      return InvalidInput("--over: \"{}\" holds {} twice", text, value);
    }
    axis.values.emplace_back(value);
  }
  return axis;
}

bool HasOption(std::string_view help, std::string_view name) {
  const std::vector<std::string> options = OptionsOf(help);
  return std::ranges::find(options, name) != options.end();
}

absl::StatusOr<SweptCommand> SweptCommand::Make(std::vector<std::string> arguments,
                                                std::vector<SweepAxis> axes,
                                                std::string_view help) {
  SweptCommand out;
  out.arguments_ = std::move(arguments);
  std::set<std::string> names;
  double points = 1;
  for (const SweepAxis& axis : axes) {
    points *= static_cast<double>(axis.values.size());
    if (!names.insert(axis.name).second) {
      return InvalidInput("--over: {} is given twice", axis.name);
    }
    FORETRACE_ASSIGN_OR_RETURN(const Target target, out.TargetOf(axis, help));
    out.targets_.push_back(target);
  }
  if (points > static_cast<double>(kMostValues)) {
    return InvalidInput("--over: {:.0f} points; at most {}", points, kMostValues);
  }
  out.axes_ = std::move(axes);
  if (points > 1) FORETRACE_RETURN_IF_ERROR(out.CheckOutputs(help));
  return out;
}

absl::Status SweptCommand::CheckOutputs(std::string_view help) const {
  const std::set<std::string> outputs = OutputsOf(help);
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const size_t equals = arguments_[i].find('=');
    const std::string option = arguments_[i].substr(0, equals);
    if (!outputs.contains(option)) continue;
    const bool apart = equals == std::string::npos && i + 1 < arguments_.size();
    const std::string value = apart ? arguments_[i + 1] : arguments_[i].substr(option.size());
    for (const SweepAxis& axis : axes_) {
      if (axis.values.size() < 2 || value.find("{" + axis.name + "}") != std::string::npos)
        continue;
      return InvalidInput(
          "{} {}: every value of {} would write over it; name it by {{{}}}, as in {{{}}}.json",
          option, Excerpt(apart ? value : value.substr(1), 60), axis.name, axis.name, axis.name);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SweptCommand::Target> SweptCommand::TargetOf(const SweepAxis& axis,
                                                            std::string_view help) {
  const std::string place = "{" + axis.name + "}";
  for (const std::string& argument : arguments_) {
    if (argument.find(place) != std::string::npos) return Target::kPlaceholder;
  }
  if (HasOption(help, axis.name)) {
    for (const std::string& argument : arguments_) {
      const std::string option = "--" + axis.name;
      if (argument != option && !argument.starts_with(option + "=")) continue;
      return InvalidInput("--over: {} is also an argument of {}; leave that out", axis.name,
                          command());
    }
    return Target::kOption;
  }
  if (axis.name.find('.') != std::string::npos) {
    FORETRACE_RETURN_IF_ERROR(LoadPlatformFile());
    FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root,
                               ParseYaml(platform_text_, arguments_[platform_argument_]));
    const YAML::Node fact = Find(root, axis.name);
    if (fact.IsDefined() && fact.IsScalar()) return Target::kPlatformFact;
    std::vector<std::string> facts;
    ListFacts(root, "", facts);
    if (!axis.name.starts_with(kOfAccelerator)) {
      return InvalidInput("--over: the platform has no value {}; it has {}, and those of {}NAME",
                          axis.name, fmt::join(facts, ", "), kOfAccelerator);
    }
    FORETRACE_ASSIGN_OR_RETURN(const auto file, AcceleratorFile(root, platform_folder_));
    FORETRACE_ASSIGN_OR_RETURN(const YAML::Node device, ReadYaml(file.string()));
    const YAML::Node of_device = Find(device, axis.name.substr(kOfAccelerator.size()));
    if (of_device.IsDefined() && of_device.IsScalar()) return Target::kAcceleratorFact;
    facts.clear();
    ListFacts(device, std::string(kOfAccelerator.substr(0, kOfAccelerator.size() - 1)), facts);
    return InvalidInput("--over: {} has no value {}; it has {}", file.string(), axis.name,
                        fmt::join(facts, ", "));
  }
  const std::vector<std::string> options = OptionsOf(help);
  const std::string nearest = NearestName(axis.name, options);
  return InvalidInput(
      "--over: {} has no option --{}{}; it has {}; a part of an argument is named by {{{}}} in it, "
      "a "
      "fact of the platform by its path, such as links.LINK.bandwidth_GBps",
      command(), axis.name, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
      fmt::join(options, ", "), axis.name);
}

absl::Status SweptCommand::LoadPlatformFile() {
  if (platform_argument_ != 0) return absl::OkStatus();
  std::string name;
  for (size_t i = 1; i < arguments_.size() && platform_argument_ == 0; ++i) {
    for (const std::string_view option : {"--platform", "--on", "--topology"}) {
      if (arguments_[i] == option && i + 1 < arguments_.size()) {
        platform_argument_ = i + 1;
        name = arguments_[i + 1];
      } else if (arguments_[i].starts_with(std::string(option) + "=")) {
        platform_argument_ = i;
        platform_prefix_ = std::string(option) + "=";
        name = arguments_[i].substr(platform_prefix_.size());
      }
    }
  }
  if (platform_argument_ == 0) {
    return InvalidInput(
        "--over: a name with '.' is a fact of the platform, and {} names none (--platform, --on, "
        "--topology)",
        command());
  }
  const size_t colon = name.rfind(':');
  if (colon != std::string::npos && colon + 1 < name.size() &&
      name.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
    platform_nodes_ = name.substr(colon);
    name.resize(colon);
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::string path, FindShipped(kPlatforms, name));
  FORETRACE_ASSIGN_OR_RETURN(platform_text_, ReadTextFile(path, kMaxYamlBytes));
  platform_folder_ = std::filesystem::absolute(path).parent_path().string();
  return absl::OkStatus();
}

size_t SweptCommand::points() const {
  size_t points = 1;
  for (const SweepAxis& axis : axes_) points *= axis.values.size();
  return points;
}

std::string_view SweptCommand::Value(size_t point, size_t axis) const {
  for (size_t a = axes_.size() - 1; a > axis; --a) point /= axes_[a].values.size();
  return axes_[axis].values[point % axes_[axis].values.size()];
}

std::string SweptCommand::Label(size_t point) const {
  std::vector<std::string> parts;
  for (size_t a = 0; a < axes_.size(); ++a) {
    parts.push_back(fmt::format("{}={}", axes_[a].name, Value(point, a)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

absl::Status SweptCommand::ChangeAccelerator(size_t point, const std::string& folder,
                                             YAML::Node& platform) const {
  YAML::Node device;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (targets_[a] != Target::kAcceleratorFact) continue;
    if (!device.IsMap()) {
      FORETRACE_ASSIGN_OR_RETURN(const auto file, AcceleratorFile(platform, platform_folder_));
      FORETRACE_ASSIGN_OR_RETURN(device, ReadYaml(file.string()));
    }
    Find(device, axes_[a].name.substr(kOfAccelerator.size())) = std::string(Value(point, a));
  }
  if (!device.IsMap()) return absl::OkStatus();
  // Another board of the same chip: calibrations carry over, drivers' names stay the original's.
  const std::string name = fmt::format("accelerator-{}", point);
  device["name"] = name;
  device.remove("aliases");
  const std::string path = fmt::format("{}/{}.yaml", folder, name);
  Find(platform, "node.accelerator") = path;
  return WriteFile(path, YAML::Dump(device) + "\n");
}

absl::StatusOr<std::vector<std::string>> SweptCommand::Arguments(size_t point,
                                                                 const std::string& folder) const {
  std::vector<std::string> arguments = arguments_;
  YAML::Node platform;
  for (size_t a = 0; a < axes_.size(); ++a) {
    const std::string value(Value(point, a));
    const std::string place = "{" + axes_[a].name + "}";
    if (targets_[a] == Target::kOption) {
      arguments.push_back(fmt::format("--{}={}", axes_[a].name, value));
    } else if (targets_[a] == Target::kPlaceholder) {
      for (std::string& argument : arguments) {
        for (size_t at = argument.find(place); at != std::string::npos;
             at = argument.find(place, at + value.size())) {
          argument.replace(at, place.size(), value);
        }
      }
    } else {
      if (!platform.IsMap()) {
        FORETRACE_ASSIGN_OR_RETURN(platform,
                                   ParseYaml(platform_text_, arguments_[platform_argument_]));
      }
      if (targets_[a] == Target::kPlatformFact) Find(platform, axes_[a].name) = value;
    }
  }
  if (platform.IsMap()) {
    FORETRACE_RETURN_IF_ERROR(ChangeAccelerator(point, folder, platform));
    YAML::Node accelerator = Find(platform, "node.accelerator");
    if (accelerator.IsDefined() && accelerator.IsScalar() &&
        accelerator.Scalar().ends_with(".yaml")) {
      accelerator = (std::filesystem::path(platform_folder_) / accelerator.Scalar()).string();
    }
    const std::string path = fmt::format("{}/platform-{}.yaml", folder, point);
    FORETRACE_RETURN_IF_ERROR(WriteFile(path, YAML::Dump(platform) + "\n"));
    arguments[platform_argument_] = platform_prefix_ + path + platform_nodes_;
  }
  return arguments;
}

std::string SweptCommand::InGivenNames(std::string message, const std::string& folder) const {
  if (platform_argument_ == 0) return message;
  // Lines are those of a file that nobody sees.
  const std::string place = RE2::QuoteMeta(folder) + "/";
  const std::string line = "-\\d+\\.yaml(:\\d+)?";
  const std::string name = arguments_[platform_argument_].substr(platform_prefix_.size());
  std::string plain;  // \\ would begin a group's number
  for (const char c : name) plain += c == '\\' ? "\\\\" : std::string(1, c);
  RE2::GlobalReplace(&message, place + "platform" + line, plain);
  RE2::GlobalReplace(&message, place + "accelerator" + line, plain + ": its accelerator");
  return message;
}

}  // namespace foretrace
