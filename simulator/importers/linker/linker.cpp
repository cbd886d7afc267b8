#include "simulator/importers/linker/linker.h"

namespace foretrace {

absl::Status LinkGraphIntoProfile(ImportedFile, ImportedFile&) { return absl::OkStatus(); }

}  // namespace foretrace
