#pragma once
// Parsing YAML from strangers: yaml-cpp, with what it lets pass refused.

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"

namespace foretrace {

// Parses one document. Errors name file and line: not YAML, nested too deeply, a key given twice
// in one mapping (of which yaml-cpp takes the first), aliases that expand to more than a file
// holds.
absl::StatusOr<YAML::Node> ParseYaml(const std::string& text, const std::string& file);
// Of a file of at most kMaxYamlBytes (input.h).
absl::StatusOr<YAML::Node> ReadYaml(const std::string& path);

}  // namespace foretrace
