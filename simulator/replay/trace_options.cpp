#include "simulator/replay/trace_options.h"

#include <algorithm>
#include <thread>

#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/importers/import.h"

namespace foretrace {

void TraceOptions::Register(CLI::App& command, bool positional, const char* of_strict) {
  RegisterRanks(command, positional, of_strict);
  RegisterGroups(command);
}

void TraceOptions::RegisterReading(CLI::App& command, const char* of_strict) {
  command.add_flag("--strict", strict, of_strict);
  RegisterJobs(command);
  RegisterGroups(command);
}

void TraceOptions::RegisterGroups(CLI::App& command) {
  command
      .add_option("--process-groups", process_groups,
                  "YAML with the members of communicators: groups: [{name: \"1\", ranks: [0, 1]}]")
      ->type_name("FILE");
}

void TraceOptions::RegisterRanks(CLI::App& command, bool positional, const char* of_strict) {
  const char* help =
      "trace files, folders (up to five levels deep), tars or zips of ranks, or - for standard "
      "input "
      "(Chakra .et, PyTorch execution trace, Kineto; plain or compressed)";
  if (positional) {
    command.add_option("traces", paths, help)->required();
  } else {
    command.add_option("--trace", paths, help)->type_name("PATH");
  }
  command.add_flag("--strict", strict, of_strict);
  command
      .add_option("--ignore", ignore,
                  "names of files and folders to pass over in folders of traces, e.g. '*.pickle'")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  RegisterJobs(command);
}

void TraceOptions::RegisterJobs(CLI::App& command) {
  command.add_option("--jobs", jobs, "files imported at once (default: one per processor)");
}

absl::StatusOr<std::shared_ptr<const TraceStore>> TraceOptions::Load(
    const CommandContext& context) const {
  if (context.traces != nullptr) return context.traces;
  ImportOptions options;
  options.strict = strict;
  options.process_groups_file = process_groups;
  options.ignore = ignore;
  options.jobs =
      jobs > 0 ? jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.stop = context.stop;
  options.progress = [&context](int done, int total) {
    context.console->Progress("reading traces", done, total);
  };
  FORETRACE_ASSIGN_OR_RETURN(TraceStore store, ImportTraces(paths, options));
  return std::make_shared<const TraceStore>(std::move(store));
}

absl::StatusOr<std::vector<ProfileExtras>> TraceOptions::LoadExtras(
    const CommandContext& context) const {
  ImportOptions options;
  options.ignore = ignore;
  options.stop = context.stop;
  return ReadProfileExtras(paths, options);
}

}  // namespace foretrace
