#pragma once
// What every calibration file begins with: version, kind, platform, where its data come from, and
// how well it predicts. The models below it belong to the families (collective, kernel, ...).

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/base/statistics.h"

namespace YAML {
class Node;
}

namespace foretrace {

// Files of another version are refused: models change meaning between versions.
inline constexpr int kCalibrationVersion = 1;

// Whether ranks of one node reach each other alike (switch), so that times may be interpolated over
// the number of ranks, or not (mesh).
enum class Interconnect : uint8_t { kUnknown, kSwitch, kMesh, kCount };
std::string_view Name(Interconnect interconnect);
// kUnknown for unknown names.
Interconnect ParseInterconnect(std::string_view name);

struct CalibrationHeader {
  std::string kind;      // "collective", "kernel", "overheads", "embedding", "memory"
  std::string platform;  // "a100-sxm4-nvswitch"
  Interconnect interconnect = Interconnect::kUnknown;
  // Software that ran what was measured, with versions: "nccl 2.29.2". The same kernels and
  // collectives take other times under another release. Empty: the tables do not say.
  std::vector<std::string> stack;
  std::string date;     // of the calibration, YYYY-MM-DD; "undated" when nobody gave it
  std::string command;  // that made the file
  std::string note;     // what the numbers rest on, in words; may be empty
  // Provenance of each table: source, commit, licence, path, ...
  std::vector<std::map<std::string, std::string, std::less<>>> sources;
  std::optional<ErrorSummary> in_sample;
  std::optional<ErrorSummary> held_out;
  std::string held_out_rule;  // "every third size"; empty without held_out
};

// "text" with YAML double-quote escapes.
std::string YamlQuoted(std::string_view text);

// The header as YAML, ending where the family's `models:` follows.
std::string HeaderYaml(const CalibrationHeader& header);

// Errors: not a calibration file, another version, another kind than `kind`, missing keys.
absl::StatusOr<CalibrationHeader> ParseHeader(const YAML::Node& root, const std::string& path,
                                              std::string_view kind);

}  // namespace foretrace
