#include "simulator/base/module.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>

namespace foretrace {
namespace {

// The object that holds this code: its path; empty for the program itself.
int NoteObject(dl_phdr_info* info, size_t, void* result) {
  const auto here = reinterpret_cast<uintptr_t>(&NoteObject);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && here >= begin && here < begin + segment.p_memsz) {
      *static_cast<std::string*>(result) = info->dlpi_name;
      return 1;
    }
  }
  return 0;
}

std::vector<std::string> ModuleFolders() {
  if (const char* folder = std::getenv("FORETRACE_MODULES"); folder != nullptr) return {folder};
  const std::string here = CodeFolder();
  return {here, here + "/lib/foretrace", here + "/../lib/foretrace", FORETRACE_INSTALLED_MODULES,
          FORETRACE_BUILD_FOLDER};
}

}  // namespace

std::string CodeFolder() {
  std::string path;
  dl_iterate_phdr(&NoteObject, &path);
  if (path.empty()) path = "/proc/self/exe";
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) == nullptr) return ".";
  path = real;
  return path.substr(0, path.rfind('/'));
}

absl::StatusOr<void*> LoadModule(std::string_view name, const char* symbol) {
  std::vector<std::string> looked;
  for (const std::string& folder : ModuleFolders()) {
    const std::string path = fmt::format("{}/foretrace_{}.so", folder, name);
    if (std::ranges::find(looked, path) != looked.end()) continue;
    looked.push_back(path);
    if (access(path.c_str(), R_OK) != 0) continue;
    void* const module = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    void* const found = module == nullptr ? nullptr : dlsym(module, symbol);
    if (found != nullptr) return found;
    return absl::UnavailableError(fmt::format("module {} cannot be loaded: {}", name, dlerror()));
  }
  return absl::UnavailableError(fmt::format(
      "module {} is not installed (looked for {}); build the target foretrace_{}, or set "
      "FORETRACE_MODULES to its folder",
      name, fmt::join(looked, ", "), name));
}

}  // namespace foretrace
