#include "simulator/cli/data_files.h"

#include <fmt/format.h>
#include <unistd.h>

namespace foretrace {

std::string FindDataFile(std::string_view folder, const std::string& name,
                         std::string_view suffix) {
  if (access(name.c_str(), R_OK) == 0) return name;
  for (const std::string& base : {std::string("."), std::string(FORETRACE_DATA_DIR)}) {
    const std::string path = fmt::format("{}/{}/{}{}", base, folder, name, suffix);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return name;
}

}  // namespace foretrace
