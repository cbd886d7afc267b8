#pragma once
// Reads a YAML mapping against a schema: every problem is one line with file, line, key and what is
// allowed. The first problem sticks; later reads return defaults, so that loaders need no error
// branch per key.

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foretrace {

struct YamlSink {
  std::string file;
  absl::Status status;
  bool lists_missing = false;
  std::vector<std::string> missing;  // further keys, where the first problem was one
  bool only_missing = false;         // the first problem was one
};

class YamlReader {
 public:
  YamlReader(YAML::Node node, std::string path, std::shared_ptr<YamlSink> sink)
      : node_(std::move(node)), path_(std::move(path)), sink_(std::move(sink)) {}

  // Fails unless this is a mapping whose keys all appear in `allowed`.
  void ExpectKeys(std::span<const std::string_view> allowed) const;
  // From here on a missing key is a problem that all others that are missing stand beside.
  void ListMissing() const { sink_->lists_missing = true; }
  bool Has(std::string_view key) const;
  // The value of `key`; a missing one is an error unless optional (then an undefined reader).
  YamlReader Child(std::string_view key) const;
  std::vector<YamlReader> Items() const;                            // of a sequence
  std::vector<std::pair<std::string, YamlReader>> Entries() const;  // of a mapping

  std::string String(std::string_view key) const;
  std::string String(std::string_view key, std::string_view fallback) const;
  // Within [low, high]; finite.
  double Number(std::string_view key, double low, double high) const;
  double Number(std::string_view key, double low, double high, double fallback) const;
  int32_t Integer(std::string_view key, int32_t low, int32_t high) const;
  int32_t Integer(std::string_view key, int32_t low, int32_t high, int32_t fallback) const;
  // One of `allowed`; `fallback` where the key is missing.
  int32_t OneOf(std::string_view key, std::span<const int32_t> allowed, int32_t fallback) const;
  bool Bool(std::string_view key, bool fallback) const;
  std::vector<int32_t> Integers(std::string_view key, int32_t low, int32_t high) const;
  // Index of the string within `names`.
  size_t Choice(std::string_view key, std::span<const std::string_view> names) const;
  double AsNumber(double low, double high) const;
  int32_t AsInteger(int32_t low, int32_t high) const;
  std::string AsString() const;  // of a non-empty scalar
  bool IsMap() const { return node_.IsDefined() && node_.IsMap(); }
  bool IsScalar() const { return node_.IsDefined() && node_.IsScalar(); }

  void Fail(std::string_view key, std::string_view message) const;
  void FailMissing(std::string_view key) const;
  bool ok() const { return sink_->status.ok(); }
  const absl::Status& status() const { return sink_->status; }
  const std::string& path() const { return path_; }

 private:
  std::string Label(std::string_view key) const;
  // Whether there is anything left to find.
  bool reading() const { return ok() || (sink_->lists_missing && sink_->only_missing); }
  YAML::Node node_;
  std::string path_;  // "node.nics"; empty at the root
  std::shared_ptr<YamlSink> sink_;
};

// Reads and parses a file; ParseYaml's errors (base/yaml.h) and those of ReadTextFile.
absl::StatusOr<YamlReader> ReadYamlFile(const std::string& file);
absl::StatusOr<YamlReader> ParseYamlText(const std::string& text, const std::string& file);

absl::Status YamlError(const std::string& file, const YAML::Exception& error);

// What `load` makes of a document, with what yaml-cpp throws on the way as an error.
template <typename Value, typename Load>
absl::StatusOr<Value> LoadYaml(const absl::StatusOr<YamlReader>& root, const std::string& file,
                               const Load& load) {
  if (!root.ok()) return root.status();
  try {
    return load(*root);
  } catch (const YAML::Exception& error) {
    return YamlError(file, error);
  }
}

}  // namespace foretrace
