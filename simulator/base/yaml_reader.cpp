#include "simulator/base/yaml_reader.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

std::string Join(std::span<const std::string_view> names) {
  std::string text;
  for (std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

// Octal in YAML 1.1, decimal in YAML 1.2.
bool IsOctal(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

}  // namespace

std::string YamlReader::Label(std::string_view key) const {
  if (key.empty()) return path_;
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void YamlReader::Fail(std::string_view key, std::string_view message) const {
  if (!sink_->status.ok()) return;
  int line = node_.IsDefined() ? node_.Mark().line : -1;
  if (!key.empty() && node_.IsDefined() && node_.IsMap()) {
    const YAML::Node child = node_[std::string(key)];
    if (child.IsDefined()) line = child.Mark().line;
  }
  const std::string label = Label(key);
  sink_->status = InvalidInput("{}:{}: key '{}': {}", sink_->file, std::max(1, line + 1),
                               label.empty() ? "(top level)" : label, message);
}

void YamlReader::FailMissing(std::string_view key) const {
  if (ok()) {
    Fail(key, "missing");
    sink_->only_missing = true;
  } else if (reading() && node_.IsDefined()) {
    const std::string first(sink_->status.message().substr(0, sink_->status.message().find(';')));
    sink_->missing.push_back(fmt::format("'{}'", Label(key)));
    sink_->status = InvalidInput("{}; so {} {}", first, sink_->missing.size() == 1 ? "is" : "are",
                                 fmt::join(sink_->missing, ", "));
  }
}

void YamlReader::ExpectKeys(std::span<const std::string_view> allowed) const {
  if (!ok()) return;
  if (!node_.IsDefined() || !node_.IsMap()) {
    return Fail("", fmt::format("must be a mapping with keys {}", Join(allowed)));
  }
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      return Fail(key, fmt::format("unknown key; allowed: {}", Join(allowed)));
    }
  }
}

bool YamlReader::Has(std::string_view key) const {
  return node_.IsDefined() && node_.IsMap() && node_[std::string(key)].IsDefined();
}

YamlReader YamlReader::Child(std::string_view key) const {
  if (!Has(key)) {
    FailMissing(key);
    return {YAML::Node(YAML::NodeType::Undefined), Label(key), sink_};
  }
  return {node_[std::string(key)], Label(key), sink_};
}

std::vector<YamlReader> YamlReader::Items() const {
  std::vector<YamlReader> items;
  if (!ok()) return items;
  if (!node_.IsDefined() || !node_.IsSequence()) {
    Fail("", "must be a list");
    return items;
  }
  for (size_t i = 0; i < node_.size(); ++i) {
    items.emplace_back(node_[i], fmt::format("{}[{}]", path_, i), sink_);
  }
  return items;
}

std::vector<std::pair<std::string, YamlReader>> YamlReader::Entries() const {
  std::vector<std::pair<std::string, YamlReader>> entries;
  if (!reading()) return entries;
  if (!node_.IsDefined() || !node_.IsMap()) {
    Fail("", "must be a mapping");
    return entries;
  }
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    entries.emplace_back(key, YamlReader(entry.second, Label(key), sink_));
  }
  return entries;
}

std::string YamlReader::String(std::string_view key) const { return Child(key).AsString(); }

std::string YamlReader::AsString() const {
  if (!reading()) return "";
  if (!node_.IsDefined() || !node_.IsScalar() || node_.Scalar().empty()) {
    Fail("", "must be a non-empty string");
    return "";
  }
  return node_.Scalar();
}

std::string YamlReader::String(std::string_view key, std::string_view fallback) const {
  return Has(key) ? String(key) : std::string(fallback);
}

double YamlReader::AsNumber(double low, double high) const {
  if (!reading()) return low;
  double value = 0;
  if (!node_.IsDefined() || !node_.IsScalar() || !YAML::convert<double>::decode(node_, value) ||
      !std::isfinite(value)) {
    Fail("", fmt::format("must be a number from {} to {}", low, high));
    return low;
  }
  if (value < low || value > high) {
    Fail("", fmt::format("{} is outside the allowed range {} to {}", value, low, high));
    return low;
  }
  return value;
}

int32_t YamlReader::AsInteger(int32_t low, int32_t high) const {
  if (!ok()) return low;
  int64_t value = 0;
  if (node_.IsDefined() && node_.IsScalar() && IsOctal(node_.Scalar())) {
    Fail("", fmt::format("'{}' begins with 0, which some take for octal; leave the 0 out",
                         Excerpt(node_.Scalar(), 20)));
    return low;
  }
  if (!node_.IsDefined() || !node_.IsScalar() || !YAML::convert<int64_t>::decode(node_, value)) {
    Fail("", fmt::format("must be an integer from {} to {}", low, high));
    return low;
  }
  if (value < low || value > high) {
    Fail("", fmt::format("{} is outside the allowed range {} to {}", value, low, high));
    return low;
  }
  return static_cast<int32_t>(value);
}

double YamlReader::Number(std::string_view key, double low, double high) const {
  return Child(key).AsNumber(low, high);
}
double YamlReader::Number(std::string_view key, double low, double high, double fallback) const {
  return Has(key) ? Number(key, low, high) : fallback;
}
int32_t YamlReader::Integer(std::string_view key, int32_t low, int32_t high) const {
  return Child(key).AsInteger(low, high);
}
int32_t YamlReader::Integer(std::string_view key, int32_t low, int32_t high,
                            int32_t fallback) const {
  return Has(key) ? Integer(key, low, high) : fallback;
}

int32_t YamlReader::OneOf(std::string_view key, std::span<const int32_t> allowed,
                          int32_t fallback) const {
  if (!Has(key)) return fallback;
  const auto [low, high] = std::minmax_element(allowed.begin(), allowed.end());
  const int32_t value = Integer(key, *low, *high);
  if (ok() && std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    Fail(key, fmt::format("{} is not one of {}", value, fmt::join(allowed, ", ")));
  }
  return value;
}

bool YamlReader::Bool(std::string_view key, bool fallback) const {
  if (!Has(key)) return fallback;
  bool value = fallback;
  if (!YAML::convert<bool>::decode(node_[std::string(key)], value)) Fail(key, "must be a boolean");
  return value;
}

std::vector<int32_t> YamlReader::Integers(std::string_view key, int32_t low, int32_t high) const {
  std::vector<int32_t> values;
  for (const YamlReader& item : Child(key).Items()) values.push_back(item.AsInteger(low, high));
  return values;
}

size_t YamlReader::Choice(std::string_view key, std::span<const std::string_view> names) const {
  const std::string text = String(key);
  if (!reading()) return 0;
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    Fail(key, fmt::format("'{}' is not known; allowed: {}", text, Join(names)));
    return 0;
  }
  return static_cast<size_t>(found - names.begin());
}

absl::StatusOr<YamlReader> ParseYamlText(const std::string& text, const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(YAML::Node root, ParseYaml(text, file));
  auto sink = std::make_shared<YamlSink>();
  sink->file = file;
  return YamlReader(std::move(root), "", sink);
}

absl::StatusOr<YamlReader> ReadYamlFile(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxYamlBytes));
  return ParseYamlText(text, file);
}

absl::Status YamlError(const std::string& file, const YAML::Exception& error) {
  return InvalidInput("{}:{}: {}", file, error.mark.line + 1, error.msg);
}

}  // namespace foretrace
