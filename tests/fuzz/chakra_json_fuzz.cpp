#include "tests/fuzz/import_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto importer = foretrace::MakeChakraJsonImporter();
  foretrace::FuzzImport(*importer, data, size);
  return 0;
}
