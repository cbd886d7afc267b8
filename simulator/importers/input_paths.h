#pragma once
// What a user names on the command line, as files on disk.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/importers/io/input_file.h"

namespace foretrace {

// A file that the user named, or that lies in a folder that he named.
struct InputPath {
  std::string path;
  bool named = false;  // by the user himself: it must be a trace
  std::string inside;  // the member, or folder of members, that he named of a tar; empty for all

  absl::StatusOr<std::unique_ptr<InputFile>> Open(const InputLimits& limits) const {
    return InputFile::Open(path, limits, inside);
  }
};

// Files, folders (two levels deep, in order of names) and parts of tars ("traces.tar:run1") as
// files. Errors: a path that does not exist, a folder without traces, nothing given.
absl::StatusOr<std::vector<InputPath>> ExpandPaths(const std::vector<std::string>& paths);

// Whether a name is one of what lies beside traces: notes, tables, scripts, pictures.
bool IsSideFile(std::string_view base_name);

}  // namespace foretrace
