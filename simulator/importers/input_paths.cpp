#include "simulator/importers/input_paths.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

absl::Status ListFolder(const std::string& path, int levels, std::vector<InputPath>& out) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) return InvalidInput("{}: cannot list: {}", path, error.message());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    if (entry.filename().string().starts_with('.')) continue;
    if (fs::is_directory(entry, error)) {
      if (levels > 0) FORETRACE_RETURN_IF_ERROR(ListFolder(entry.string(), levels - 1, out));
    } else if (!IsSideFile(entry.filename().string())) {
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

absl::StatusOr<std::vector<InputPath>> ExpandPaths(const std::vector<std::string>& paths) {
  std::vector<InputPath> files;
  for (const std::string& path : paths) {
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
    FORETRACE_RETURN_IF_ERROR(ListFolder(path, 1, files));
    if (files.size() == before) return InvalidInput("{}: the folder holds no traces", path);
  }
  if (files.empty()) return InvalidInput("no traces given");
  return files;
}

}  // namespace foretrace
