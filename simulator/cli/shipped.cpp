#include "simulator/cli/shipped.h"

#include <unistd.h>

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

}  // namespace foretrace
