// Recordings drawn from bytes (tests/support/random_store.h) through everything that predict does.
#include "tests/support/whole_pipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)foretrace::PredictDrawn({reinterpret_cast<const char*>(data), size});
  return 0;
}
