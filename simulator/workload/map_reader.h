#pragma once
// Reads the maps of a workload file.

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "simulator/base/error.h"
#include "simulator/base/units.h"

namespace foretrace {

// Reads scalars of one map and remembers the first thing wrong, so that callers check once.
class MapReader {
 public:
  MapReader(const YAML::Node& node, std::string where) : node_(node), where_(std::move(where)) {
    if (!node.IsNull() && !node.IsMap()) status_ = InvalidInput("{}: must be a map", where_);
  }

  void Int(const char* key, int64_t& value) {
    double number = static_cast<double>(value);
    Number(key, number);
    if (number != std::floor(number) || std::abs(number) > 9e15) {
      Fail(key, "is not a whole number");
    } else {
      value = static_cast<int64_t>(number);
    }
  }
  void BytesAt(const char* key, Bytes& value) {
    int64_t n = value.count();
    Int(key, n);
    value = Bytes(n);
  }
  void FlopAt(const char* key, Flop& value) {
    double n = value.count();
    Number(key, n);
    value = Flop(n);
  }
  void Real(const char* key, double& value) { Number(key, value); }
  void Bool(const char* key, bool& value) {
    if (const YAML::Node v = Take(key); v.IsDefined() && !YAML::convert<bool>::decode(v, value)) {
      Fail(key, "is not true or false");
    }
  }
  void Bool(const char* key, std::optional<bool>& value) {
    if (const YAML::Node v = Take(key); v.IsDefined()) Bool(key, value.emplace());
  }
  void String(const char* key, std::string& value) {
    if (const YAML::Node v = Take(key); v.IsDefined()) {
      if (v.IsScalar()) {
        value = v.Scalar();
      } else {
        Fail(key, "is not a word");
      }
    }
  }
  void Fail(const char* key, const char* what) {
    if (status_.ok()) status_ = InvalidInput("{}: '{}' {}", where_, key, what);
  }
  // A list, which may be missing.
  YAML::Node List(const char* key) {
    const YAML::Node v = Take(key);
    if (!v.IsDefined()) return YAML::Node(YAML::NodeType::Sequence);
    if (!v.IsSequence()) Fail(key, "is not a list");
    return v;
  }
  // The first error, or a key that nobody asked for.
  absl::Status Finish() {
    if (!status_.ok() || !node_.IsMap()) return status_;
    for (const auto& entry : node_) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      if (!known_.contains(key)) {
        std::string names;
        for (const auto& [name, unused] : known_) names += names.empty() ? name : ", " + name;
        return InvalidInput("{}: unknown key '{}'; known are {}", where_, key, names);
      }
    }
    return absl::OkStatus();
  }

 private:
  YAML::Node Take(const char* key) {
    known_[key] = true;
    if (!node_.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    return node_[key];
  }
  void Number(const char* key, double& value) {
    const YAML::Node v = Take(key);
    if (!v.IsDefined()) return;
    if (!v.IsScalar() || !YAML::convert<double>::decode(v, value) || !std::isfinite(value)) {
      Fail(key, "is not a number");
      value = 0;
    }
  }

  const YAML::Node node_;
  std::string where_;
  std::map<std::string, bool> known_;
  absl::Status status_;
};

}  // namespace foretrace
