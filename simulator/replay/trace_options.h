#pragma once
// Options of the commands that read traces.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CommandContext;

namespace CLI {
class App;
}

struct TraceOptions {
  std::vector<std::string> paths;
  bool strict = false;
  std::string process_groups;
  std::vector<std::string> ignore;
  int jobs = 0;  // 0: one per processor

  // `positional`: TRACES arguments; else --trace PATH, which may be repeated.
  void Register(CLI::App& command, bool positional,
                const char* of_strict = "refuse input that needs repairs, and ops without a model");
  // The same for commands that look at each rank by itself: no process groups.
  void RegisterRanks(CLI::App& command, bool positional, const char* of_strict);
  // How paths are read that the command registers by itself: all but what to pass over in folders.
  void RegisterReading(CLI::App& command, const char* of_strict);
  // Those that the context brings where there are any, else imported. Stopped between files.
  absl::StatusOr<std::shared_ptr<const TraceStore>> Load(const CommandContext& context) const;
  // What their profiles hold besides what is replayed.
  absl::StatusOr<std::vector<ProfileExtras>> LoadExtras(const CommandContext& context) const;

 private:
  void RegisterJobs(CLI::App& command);
  void RegisterGroups(CLI::App& command);
};

}  // namespace foretrace
