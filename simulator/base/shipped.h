#pragma once
// Data that ship with foretrace and are found by name: platforms and calibrations.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// FOLDER/NAME+SUFFIX below a data folder.
struct ShippedKind {
  std::string_view what;
  std::string_view folder;
  std::string_view suffix;
};
inline constexpr ShippedKind kPlatforms = {"platform", "topologies", ".yaml"};
inline constexpr ShippedKind kCalibrations = {"calibration", "calibration", ""};
inline constexpr ShippedKind kAccelerators = {"accelerator", "topologies/accelerators", ".yaml"};
inline constexpr ShippedKind kWorkloads = {"workload", "traces/workloads", ".yaml"};

// Where data are looked for, first to last: the folders of $FORETRACE_DATA (':' between them), the
// working folder, `data` and share/foretrace beside the program or library, ../share/foretrace from
// there, and where foretrace is installed and was built. Those that are there, each once.
std::vector<std::string> DataFolders();

// `name` itself where it can be read or looks like a path, else the data of that name, in whatever
// case where none is written so. Errors: none has it; the message says what there is and where was
// looked.
absl::StatusOr<std::string> FindShipped(const ShippedKind& kind, const std::string& name);

// All of a kind, in order of names; of equal names the one that FindShipped finds.
struct ShippedFile {
  std::string name;
  std::string path;
};
std::vector<ShippedFile> ListShipped(const ShippedKind& kind);

// FOLDER/NAME/FILE where it is there, in order of names; of equal names the folder that FindShipped
// finds.
std::vector<std::string> ListShipped(std::string_view folder, std::string_view file);

}  // namespace foretrace
