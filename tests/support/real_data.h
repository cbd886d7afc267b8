#pragma once
// Where the public data of traces/README.md lie: what FORETRACE_REALDATA names, else beside the
// checkout, else the slice of them in tests/data/public; tests skip what is absent.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace foretrace {

inline std::string RealData(const std::string& name) {
  const char* folder = std::getenv("FORETRACE_REALDATA");
  if (folder != nullptr) return (std::filesystem::path(folder) / name).string();
  const std::filesystem::path source = FORETRACE_SOURCE_DIR;
  const std::filesystem::path whole = source / "../shared/realdata";
  return ((std::filesystem::is_directory(whole) ? whole : source / "tests/data/public") / name)
      .string();
}

}  // namespace foretrace

#define FORETRACE_SKIP_WITHOUT(path)                                           \
  if (!std::filesystem::exists(path))                                          \
  GTEST_SKIP() << path << " is absent; scripts/fetch_public_data fetches it, " \
               << "FORETRACE_REALDATA names its folder"
