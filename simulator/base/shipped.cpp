#include "simulator/base/shipped.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/base/nearest_name.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// Names of the kind in a folder, in order.
std::vector<std::string> NamesIn(const fs::path& folder, const ShippedKind& kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (kind.suffix.empty() ? !entry.is_directory(error) : !name.ends_with(kind.suffix)) continue;
    name.resize(name.size() - kind.suffix.size());
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// " (did you mean X?)": those that have the name as a part (h100: dgx-h100), else the nearest. Of
// many the first ones, and how many more there are.
std::string MeantNames(const std::string& name, const std::vector<std::string>& names) {
  std::vector<std::string> meant;
  const std::string typed = LowerCase(name);
  constexpr size_t kShortest = 3;  // shorter parts are in too many
  for (const std::string& known : names) {
    if (typed.size() >= kShortest && LowerCase(known).find(typed) != std::string::npos) {
      meant.push_back(known);
    }
  }
  if (meant.empty()) meant.push_back(NearestName(name, names));
  if (meant.front().empty()) return "";
  constexpr size_t kMostMeant = 6;
  if (meant.size() > kMostMeant) {
    const size_t others = meant.size() - kMostMeant;
    meant.resize(kMostMeant);
    return fmt::format(" (did you mean {} or another of {} more with \"{}\" in it?)",
                       fmt::join(meant, ", "), others, name);
  }
  return fmt::format(" (did you mean {}?)", fmt::join(meant, " or "));
}

absl::Status Unknown(const ShippedKind& kind, const std::string& name) {
  std::vector<std::string> looked, names;
  for (const std::string& root : DataFolders()) {
    const fs::path folder = fs::path(root) / kind.folder;
    std::error_code error;
    if (!fs::is_directory(folder, error)) continue;
    looked.push_back(folder.string());
    for (std::string& known : NamesIn(folder, kind)) names.push_back(std::move(known));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (looked.empty()) {
    return InvalidInput(
        "{} \"{}\": there is no such file, and no folder {} with those that ship with foretrace; "
        "set FORETRACE_DATA to the folder that holds it",
        kind.what, name, kind.folder);
  }
  constexpr size_t kMostNamed = 60;  // more fill a screen
  const std::string there = names.size() <= kMostNamed
                                ? fmt::format("there are {}", fmt::join(names, ", "))
                                : fmt::format("`foretrace list {}` shows those there are",
                                              fs::path(kind.folder).filename().string());
  return InvalidInput("{} \"{}\": there is no such file, and none of that name{} in {}; {}",
                      kind.what, name, MeantNames(name, names), fmt::join(looked, " or "), there);
}

}  // namespace

std::vector<std::string> DataFolders() {
  std::vector<std::string> candidates;
  if (const char* folders = std::getenv("FORETRACE_DATA"); folders != nullptr) {
    std::string_view rest = folders;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) candidates.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  const size_t given = candidates.size();
  const std::string here = CodeFolder();
  for (const std::string& folder :
       {std::string("."), here + "/data", here + "/share/foretrace", here + "/../share/foretrace",
        std::string(FORETRACE_INSTALLED_DATA), std::string(FORETRACE_SOURCE_DATA)}) {
    candidates.push_back(folder);
  }
  std::vector<std::string> folders;
  std::vector<fs::path> seen;
  for (size_t c = 0; c < candidates.size(); ++c) {
    const std::string& folder = candidates[c];
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || std::find(seen.begin(), seen.end(), real) != seen.end()) continue;
    seen.push_back(real);
    // As given, so that messages name what was said; what is relative to this program is not.
    const bool said = folder == "." || (c < given && fs::path(folder).is_absolute());
    folders.push_back(said ? folder : real.string());
  }
  return folders;
}

absl::StatusOr<std::string> FindShipped(const ShippedKind& kind, const std::string& name) {
  if (name.find('/') != std::string::npos || access(name.c_str(), R_OK) == 0) return name;
  for (const std::string& root : DataFolders()) {
    const std::string path = fmt::format("{}/{}/{}{}", root, kind.folder, name, kind.suffix);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  for (const ShippedFile& file : ListShipped(kind)) {
    if (LowerCase(file.name) == LowerCase(name)) return file.path;
  }
  return Unknown(kind, name);
}

std::vector<ShippedFile> ListShipped(const ShippedKind& kind) {
  std::vector<ShippedFile> all;
  for (const std::string& root : DataFolders()) {
    const std::string folder = fmt::format("{}/{}", root, kind.folder);
    for (std::string& name : NamesIn(folder, kind)) {
      std::string path = fmt::format("{}/{}{}", folder, name, kind.suffix);
      all.push_back({std::move(name), std::move(path)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const ShippedFile& a, const ShippedFile& b) { return a.name < b.name; });
  all.erase(
      std::unique(all.begin(), all.end(),
                  [](const ShippedFile& a, const ShippedFile& b) { return a.name == b.name; }),
      all.end());
  return all;
}

std::vector<std::string> ListShipped(std::string_view folder, std::string_view file) {
  std::vector<std::string> all;
  for (const ShippedFile& one : ListShipped(ShippedKind{"folder", folder, ""})) {
    const fs::path path = fs::path(one.path) / file;
    std::error_code error;
    if (fs::exists(path, error)) all.push_back(path.string());
  }
  return all;
}

}  // namespace foretrace
