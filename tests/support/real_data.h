#pragma once
// Where the public traces of traces/README.md lie; tests skip what is absent.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace foretrace {

inline std::string RealData(const std::string& name) {
  const char* folder = std::getenv("FORETRACE_REALDATA");
  const std::filesystem::path root =
      folder != nullptr ? std::filesystem::path(folder)
                        : std::filesystem::path(FORETRACE_SOURCE_DIR) / "../shared/realdata";
  return (root / name).string();
}

}  // namespace foretrace

#define FORETRACE_SKIP_WITHOUT(path)                                           \
  if (!std::filesystem::exists(path))                                          \
  GTEST_SKIP() << path << " is absent; scripts/fetch_public_data fetches it, " \
               << "FORETRACE_REALDATA names its folder"
