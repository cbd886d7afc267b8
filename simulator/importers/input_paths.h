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
  std::string
      inside;  // the member, or folder of members, that he named of an archive; empty for all

  absl::StatusOr<std::unique_ptr<InputFile>> Open(const InputLimits& limits) const {
    return InputFile::Open(path, limits, inside);
  }
};

// Levels of folders within a folder that are looked into.
inline constexpr int kFolderLevels = 5;

// Files, folders (in order of names), parts of archives ("traces.tar:run1") and standard input
// ("-") as files. `ignore`: shell patterns of names to pass over in folders. Errors: a path that
// does not exist, a folder without traces, folders nested more deeply, a pipe or device in a
// folder, a pattern that no name matches, nothing given.
absl::StatusOr<std::vector<InputPath>> ExpandPaths(const std::vector<std::string>& paths,
                                                   const std::vector<std::string>& ignore = {});

// Whether a name is one of what lies beside traces: notes, tables, scripts, pictures.
bool IsSideFile(std::string_view base_name);

}  // namespace foretrace
