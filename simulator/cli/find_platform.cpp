#include "simulator/cli/find_platform.h"

#include <unistd.h>

namespace foretrace {

std::string FindPlatform(const std::string& name) {
  if (access(name.c_str(), R_OK) == 0) return name;
  for (const std::string& folder :
       {std::string("topologies"), std::string(FORETRACE_DATA_DIR) + "/topologies"}) {
    const std::string path = folder + "/" + name + ".yaml";
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return name;
}

}  // namespace foretrace
