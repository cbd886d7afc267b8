#pragma once
// Searchers over mappings and over stage graphs, run for a job.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/console/command.h"
#include "simulator/console/output.h"
#include "simulator/console/processes.h"
#include "simulator/planning/mappings/search_report.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/search/mapping_search.h"

namespace foretrace {

// What is searched for, and how.
struct SearchQuestion {
  std::vector<std::string> searchers;  // "all", or names; none: those of the job's kind of model
  std::vector<std::string> schedules = {"1f1b"};
  std::vector<std::string> dispatches = {"alltoall"};
  std::vector<std::string> formats = {"model"};  // of GEMMs
  MappingSpace space;
  size_t top = 10;
  int jobs = 0;                  // threads; 0: one a processor
  std::optional<int32_t> steps;  // of the local search; 4000
  std::optional<int64_t> seed;   // of the local search; 1
  std::string journal;
};

// Where a search runs: its processes, of which one tells how far it is, and what may stop it.
struct SearchRun {
  const Processes& processes;
  const CommandContext& context;

  void Progress(std::string_view what, int64_t done, int64_t total) const {
    if (processes.rank() == 0) context.console->Progress(what, done, total);
  }
};

// Whether words such as tp8 pp4 map the model.
bool HasParallelMappings(const TrainingJob& job);
// Whether a searcher is asked: by its name or "all"; where none is, those of mappings (`parallel`)
// for models that have them, and those of stage graphs for others.
bool Wanted(const SearchQuestion& question, const TrainingJob& job, std::string_view name,
            bool parallel);

// The exhaustive search, and the local one from its best, of iterations of `global_batch` samples;
// with the journal. Adds to the report. Errors: those of evaluations and of the journal.
absl::Status SearchParallel(const SearchQuestion& question, int32_t global_batch,
                            const TrainingJob& job, const SearchRun& run, SearchReport& report);
// Every wanted searcher over stage graphs; those without a plan are the report's failures. Rows are
// in order of their iterations.
absl::Status SearchGraphs(const SearchQuestion& question, int32_t global_batch,
                          const TrainingJob& job, const SearchRun& run, SearchReport& report);

}  // namespace foretrace
