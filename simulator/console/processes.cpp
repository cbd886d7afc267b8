#include "simulator/console/processes.h"

#include <cstdlib>

#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/console/mpi_module.h"

namespace foretrace {

namespace {

// A variable that mpirun sets, and is set; null: none.
const char* LaunchVariable() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (std::getenv(name) != nullptr) return name;
  }
  return nullptr;
}

}  // namespace

bool Processes::Launched() { return LaunchVariable() != nullptr; }

absl::StatusOr<std::unique_ptr<Processes>> Processes::Start() {
  // A process alone does not need MPI, whose start-up takes a fifth of a second.
  const char* variable = LaunchVariable();
  if (variable == nullptr) return std::make_unique<Processes>();
  const absl::StatusOr<void*> symbol = LoadModule("mpi", kStartMpi);
  if (!symbol.ok()) {
    return Infeasible("{} is set, so MPI started this process, but {} (scripts/setup --mpi)",
                      variable, std::string(symbol.status().message()));
  }
  return std::unique_ptr<Processes>(reinterpret_cast<StartMpi*>(*symbol)());
}

}  // namespace foretrace
