#include "simulator/importers/input_paths.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// Names to pass over, and which of the patterns did.
struct Ignored {
  std::span<const std::string> patterns;
  std::vector<bool> used;

  explicit Ignored(std::span<const std::string> p) : patterns(p), used(p.size(), false) {}
  bool Matches(const std::string& name) {
    bool any = false;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (::fnmatch(patterns[i].c_str(), name.c_str(), 0) != 0) continue;
      any = used[i] = true;
    }
    return any;
  }
};

absl::Status ListFolder(const std::string& path, int levels, Ignored& ignored,
                        std::vector<InputPath>& out) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) return InvalidInput("{}: cannot list: {}", path, error.message());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (ignored.Matches(name) || name.starts_with('.')) continue;
    if (fs::is_directory(entry, error)) {
      if (levels == 0) {
        return InvalidInput("{}: more than {} folders deep; give a folder within", entry.string(),
                            kFolderLevels);
      }
      FORETRACE_RETURN_IF_ERROR(ListFolder(entry.string(), levels - 1, ignored, out));
    } else if (!IsSideFile(name)) {
      if (!fs::is_regular_file(entry, error)) {
        return InvalidInput(
            "{}: a pipe, device or broken link among the traces; --ignore '{}' "
            "passes it over",
            entry.string(), name);
      }
      out.push_back({entry.string(), false, ""});
    }
  }
  return absl::OkStatus();
}

// "traces.tar:run1": a file, and what is meant of its members.
std::optional<InputPath> SplitTarPath(const std::string& path) {
  std::error_code error;
  for (size_t colon = path.find(':'); colon != std::string::npos;
       colon = path.find(':', colon + 1)) {
    std::string file = path.substr(0, colon);
    if (colon + 1 < path.size() && fs::is_regular_file(file, error)) {
      return InputPath{std::move(file), true, path.substr(colon + 1)};
    }
  }
  return std::nullopt;
}

}  // namespace

bool IsSideFile(std::string_view base_name) {
  const std::string name = LowerCase(base_name);
  if (name.starts_with('.')) return true;
  for (const std::string_view prefix : {"readme", "license", "licence", "manifest", "source.txt"}) {
    if (name.starts_with(prefix)) return true;
  }
  for (const std::string_view ending : {".yaml", ".yml", ".md", ".txt", ".csv", ".log", ".py",
                                        ".sh", ".toml", ".cfg", ".ini", ".html", ".png", ".pdf"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

absl::StatusOr<std::vector<InputPath>> ExpandPaths(const std::vector<std::string>& paths,
                                                   const std::vector<std::string>& ignore) {
  std::vector<InputPath> files;
  Ignored ignored(ignore);
  for (const std::string& path : paths) {
    if (path == "-") {
      files.push_back({path, true, ""});
      continue;
    }
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      std::optional<InputPath> part = SplitTarPath(path);
      if (!part) return InvalidInput("{}: no such file or folder", path);
      files.push_back(*std::move(part));
      continue;
    }
    if (!fs::is_directory(status)) {
      files.push_back({path, true, ""});
      continue;
    }
    const size_t before = files.size();
    FORETRACE_RETURN_IF_ERROR(ListFolder(path, kFolderLevels, ignored, files));
    if (files.size() == before) return InvalidInput("{}: the folder holds no traces", path);
  }
  if (files.empty()) return InvalidInput("no traces given");
  for (size_t i = 0; i < ignore.size(); ++i) {
    if (ignored.used[i]) continue;
    return InvalidInput(
        "--ignore '{}' would change nothing: no file in the folders given has such a name",
        ignore[i]);
  }
  return files;
}

}  // namespace foretrace
