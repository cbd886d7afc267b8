#include "simulator/cli/trace_options.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/import.h"

namespace foretrace {

void TraceOptions::Register(CLI::App& command, bool positional) {
  const char* help =
      "trace files, folders or tars of ranks (Chakra .et, PyTorch execution trace, Kineto; plain or "
      "compressed)";
  if (positional) {
    command.add_option("traces", paths, help)->required();
  } else {
    command.add_option("--trace", paths, help)->type_name("PATH");
  }
  command.add_flag("--strict", strict, "refuse input that needs repairs, and ops without a model");
  command.add_option("--process-groups", process_groups,
                     "YAML with the members of communicators: groups: [{name: \"1\", ranks: [0, 1]}]")
      ->type_name("FILE");
  command.add_option("--jobs", jobs, "files imported at once (default: one per processor)");
}

absl::StatusOr<TraceStore> TraceOptions::Load() const {
  ImportOptions options;
  options.strict = strict;
  options.process_groups_file = process_groups;
  options.jobs = jobs > 0 ? jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (isatty(STDERR_FILENO)) {
    options.progress = [](int done, int total) {
      if (total > 1) fmt::print(stderr, "\rreading traces: {}/{}{}", done, total,
                                done == total ? "\r\033[K" : "");
    };
  }
  return ImportTraces(paths, options);
}

void SimulationOptions::Register(CLI::App& command) {
  command.add_option("--semantics", semantics,
                     "full, or algorithm1 (the multi-GPU paper's Algorithm 1)")
      ->check(CLI::IsMember({"full", "algorithm1"}))
      ->capture_default_str();
  command.add_option("--without", without,
                     "leave ingredients out: rank-sync, stream-sync, cpu, blocking, contention")
      ->delimiter(',')
      ->check(CLI::IsMember({"rank-sync", "stream-sync", "cpu", "blocking", "contention"}));
  command.add_flag("--aligned-start", aligned_start,
                   "start all ranks together instead of with their recorded skew");
  command.add_flag("--allow-missing-ranks", allow_missing_ranks,
                   "simulate the ranks that are there; collectives with absent members keep their "
                   "recorded durations");
}

absl::StatusOr<SimulationSetup> SimulationSetup::Make(const SimulationOptions& options,
                                                      const TraceStore& store) {
  (void)store;
  SimulationSetup setup;
  CompileOptions& compile = setup.compile_;
  compile.semantics =
      options.semantics == "algorithm1" ? Semantics::kAlgorithm1 : Semantics::kFull;
  for (const std::string& ingredient : options.without) {
    if (ingredient == "rank-sync") compile.rank_sync = false;
    if (ingredient == "stream-sync") compile.stream_sync = false;
    if (ingredient == "cpu") compile.cpu = false;
    if (ingredient == "blocking") compile.blocking = false;
    if (ingredient == "contention") compile.contention = false;
  }
  compile.aligned_start = options.aligned_start;
  compile.allow_missing_ranks = options.allow_missing_ranks;
  return setup;
}

}  // namespace foretrace
