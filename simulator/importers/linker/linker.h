#pragma once
// Joins the execution trace and the profile of one rank of one run.

#include "absl/status/status.h"
#include "simulator/importers/importer.h"

namespace foretrace {

// Puts what `graph` (an execution trace) knows onto the operators of `profile`: tensors with their
// ids, data dependencies between operators, process groups and split sizes of collectives.
// Operators without a partner are counted in profile.builder->diagnostics(). Errors: the two have
// no operators in common, so that they cannot be of the same run.
absl::Status LinkGraphIntoProfile(ImportedFile graph, ImportedFile& profile);

}  // namespace foretrace
