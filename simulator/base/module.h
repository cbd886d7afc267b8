#pragma once
// Parts of the program that few commands need and that bring heavy libraries (solvers, SimGrid):
// shared objects that are loaded when a command asks for them. A module is linked against its
// library alone; what it needs of this program comes as values, so headers of modules stay free of
// functions that are defined elsewhere.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

// The folder of the program, or of the shared library that this code is part of.
std::string CodeFolder();

// Loads foretrace_NAME.so and finds `symbol` in it. Stays loaded. Looked for in $FORETRACE_MODULES
// where that is set; else beside the program or library, in ../lib/foretrace from there (an
// installation), and where foretrace is installed and was built. Errors say where it was looked
// for; they are of their own kind (Unavailable, exit code 3), being no verdict on what was asked
// for, so that no search passes over what it could not try.
absl::StatusOr<void*> LoadModule(std::string_view name, const char* symbol);

}  // namespace foretrace
