#include "simulator/cli/shipped.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace foretrace {

std::string FindShipped(const std::string& folder, const std::string& name,
                        const std::string& suffix) {
  if (access(name.c_str(), R_OK) == 0) return name;
  for (const std::string& root : {std::string("."), std::string(FORETRACE_DATA_DIR)}) {
    const std::string path = root + "/" + folder + "/" + name + suffix;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return name;
}

std::string ShippedFolder(const std::string& folder) {
  return std::string(FORETRACE_DATA_DIR) + "/" + folder;
}

std::vector<std::string> ListShipped(const std::string& folder, const std::string& file) {
  namespace fs = std::filesystem;
  std::vector<std::string> all;
  for (const std::string& root : {folder, std::string(FORETRACE_DATA_DIR) + "/" + folder}) {
    std::error_code error;
    std::vector<std::string> here;
    for (const auto& entry : fs::directory_iterator(root, error)) {
      const fs::path path = entry.path() / file;
      if (fs::exists(path, error)) here.push_back(path.string());
    }
    std::sort(here.begin(), here.end());
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

}  // namespace foretrace
