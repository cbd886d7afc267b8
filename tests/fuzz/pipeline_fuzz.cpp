// Two ranks of Kineto profiles, which a zero byte parts, through everything that predict does.
#include "tests/support/whole_pipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto importer = foretrace::MakeKinetoImporter();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t first = bytes.find('\0');
  foretrace::SimulationOptions options;
  options.allow_missing_ranks = true;
  std::vector<std::string> files = {std::string(bytes.substr(0, first))};
  if (first != std::string_view::npos) files.emplace_back(bytes.substr(first + 1));
  (void)foretrace::RunWholePipe(*importer, files, options);
  return 0;
}
