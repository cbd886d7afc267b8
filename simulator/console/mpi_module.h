#pragma once
// What the MPI module offers, which is there where foretrace was built with MPI; rules of modules:
// base/module.h.

#include "simulator/console/processes.h"

namespace foretrace {

// The module's one function; once per process. The result belongs to the caller.
using StartMpi = Processes*();
inline constexpr char kStartMpi[] = "foretrace_start_mpi";

}  // namespace foretrace
