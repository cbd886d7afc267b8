#pragma once
// What holds for the arguments of every command, checked once after parsing.

#include "absl/status/status.h"
#include "simulator/base/atomic_file.h"

namespace CLI {
class App;
}

namespace foretrace {

// Errors: an option whose value is empty; a number that is none (nan, inf), negative where it
// counts something, or beyond what its type holds, which CLI11 would wrap or saturate.
absl::Status CheckValues(const ::CLI::App& command);

// Every file that the command line names, but for outputs (kOutputGroup); none where it names no
// output.
ProtectedFiles InputsOf(const ::CLI::App& command);

// `status`, where it is an error that names no argument of the command, with the first file that
// the command line names before it: what goes wrong deep within (a deadlock) knows no files.
absl::Status NamingAnInput(const ::CLI::App& command, absl::Status status);

// Errors: an output is one of `inputs`, or the same file as another output.
absl::Status CheckOutputs(const ::CLI::App& command, const ProtectedFiles& inputs);

}  // namespace foretrace
