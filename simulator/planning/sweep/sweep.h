#pragma once
// One command over values of its options, of parts of its arguments, or of facts of its platform.

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

struct SweepAxis {
  std::string name;
  std::vector<std::string> values;
};

// "NAME=VALUES": a list "1,2,4" (with ';' between values that hold a comma), or a range "A:B",
// "A:B:STEP", "A:B:xFACTOR" of numbers, ends included. Errors: neither; no value; over a million.
absl::StatusOr<SweepAxis> ParseSweepAxis(std::string_view text);

// Whether a command's help lists the option --NAME.
bool HasOption(std::string_view help, std::string_view name);

// A command line with something in it that changes from point to point. An axis NAME stands for
// "{NAME}" in the arguments where it occurs; else for the option --NAME of the command; else, with
// a '.', for a fact of the platform file that --platform, --on or --topology names, or, behind
// "accelerator.", of the file of that platform's accelerator.
class SweptCommand {
 public:
  // `help`: of the command, whose options it lists. Errors: a name that is none of these, with what
  // there is; one given twice.
  static absl::StatusOr<SweptCommand> Make(std::vector<std::string> arguments,
                                           std::vector<SweepAxis> axes, std::string_view help);

  const std::string& command() const { return arguments_.front(); }
  const std::vector<SweepAxis>& axes() const { return axes_; }
  size_t points() const;  // the last axis varies fastest
  std::string_view Value(size_t point, size_t axis) const;
  std::string Label(size_t point) const;  // "ranks=8, bytes=1MB"

  // The command line of a point; a changed platform is written into `folder`.
  absl::StatusOr<std::vector<std::string>> Arguments(size_t point, const std::string& folder) const;
  // A message about a point, in which files of `folder` go by what was given: the platform's name.
  std::string InGivenNames(std::string message, const std::string& folder) const;

 private:
  enum class Target { kPlaceholder, kOption, kPlatformFact, kAcceleratorFact };
  SweptCommand() = default;
  absl::StatusOr<Target> TargetOf(const SweepAxis& axis, std::string_view help);
  absl::Status LoadPlatformFile();
  // Names in the point's platform a copy of its accelerator's file with the point's values, if any.
  absl::Status ChangeAccelerator(size_t point, const std::string& folder,
                                 YAML::Node& platform) const;
  // That points do not write over each other's files. `help`: of the command.
  absl::Status CheckOutputs(std::string_view help) const;

  std::vector<std::string> arguments_;
  std::vector<SweepAxis> axes_;
  std::vector<Target> targets_;
  size_t platform_argument_ = 0;  // 0: none was needed
  std::string platform_nodes_;    // ":4" behind its name
  std::string platform_prefix_;   // of that argument: "--platform="
  std::string platform_folder_;   // of its file, where an accelerator's may lie beside it
  std::string platform_text_;
};

// What a point answered: a column's number or text, in order of the columns asked for.
struct SweepValue {
  std::string column;
  std::optional<double> number;
  std::string text;
};

// Columns of a document: "iteration_time_us", "mappings[0].mapping", "rows[-1].time_us". Errors:
// not in the document, with what numbers there are.
absl::StatusOr<std::vector<SweepValue>> ReadColumns(const std::string& json,
                                                    const std::vector<std::string>& columns);

// What a sweep of the command shows where nothing else is asked for.
std::vector<std::string> DefaultColumns(std::string_view command);

}  // namespace foretrace
