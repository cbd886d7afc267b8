#pragma once
// Files of one rank each through everything that `predict` does: import, assembly, matching,
// compilation, both executors, explanation and report. Any input must end in figures or in an
// error of one line; that the process goes on says the rest.

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"
#include "simulator/importers/importer.h"
#include "simulator/replay/replay_check.h"
#include "simulator/replay/run.h"
#include "simulator/report/report_json.h"
#include "simulator/report/text_report.h"

namespace foretrace {

inline absl::StatusOr<TraceStore> ReadRanks(const Importer& importer,
                                            const std::vector<std::string>& files) {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  Diagnostics diagnostics;
  for (size_t r = 0; r < files.size(); ++r) {
    const auto source = MakeMemorySource("rank", files[r]);
    auto file = importer.Import(*source, "rank", {});
    if (!file.ok()) return file.status();
    file->builder->info().rank = static_cast<int32_t>(r);
    auto built = file->builder->Build(file->build_options);
    if (!built.ok()) return built.status();
    diagnostics.Merge(built->diagnostics);
    ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  }
  return TraceStore::Assemble(std::move(ranks), std::move(diagnostics));
}

// Both executors agree where both can run the program.
inline void CheckExecutors(const TraceStore& store, const CompiledJob& job) {
  if (NeedsDataflow(job.program)) return;
  const auto straight = RunStraight(store, job.program, nullptr);
  const auto dataflow = RunDataflow(store, job.program, nullptr);
  FORETRACE_CHECK(straight.ok() == dataflow.ok());
  if (!straight.ok()) return;
  FORETRACE_CHECK(straight->makespan == dataflow->makespan);
  for (size_t r = 0; r < straight->ranks.size(); ++r) {
    FORETRACE_CHECK(straight->ranks[r].start == dataflow->ranks[r].start);
    FORETRACE_CHECK(straight->ranks[r].end == dataflow->ranks[r].end);
  }
}

inline absl::Status PredictAndReport(const TraceStore& store, const SimulationOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup, SimulationSetup::Make(options, store));
  FORETRACE_ASSIGN_OR_RETURN(const CompiledJob job, Compile(store, setup.compile()));
  if (setup.network() == nullptr) CheckExecutors(store, job);
  std::optional<Prediction> unedited;
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction,
                             Simulate(store, setup, setup.compile(), setup.network(), &unedited));
  ReportOptions report_options;
  report_options.notes = RunNotes(store, prediction, setup);
  const Prediction* before = unedited.has_value() ? &*unedited : nullptr;
  FORETRACE_ASSIGN_OR_RETURN(const auto doubt, DoubtOfReplay(store, setup, prediction, before));
  if (doubt.has_value()) report_options.notes.push_back(*doubt);
  EventTable table(store);
  EngineObserver* observers[] = {&table};
  const auto windows = Windows(prediction);
  Tell(store, prediction, observers, ProgramUse::kKeep);
  FORETRACE_ASSIGN_OR_RETURN(const PredictionReport report,
                             BuildPredictionReport(table, windows, report_options));
  FORETRACE_CHECK(!ReportJson(report, store).empty());
  FORETRACE_CHECK(!TextReport(report, store, {}).empty());
  return absl::OkStatus();
}

inline absl::Status RunWholePipe(const Importer& importer, const std::vector<std::string>& files,
                                 const SimulationOptions& options) {
  const auto run = [&]() -> absl::Status {
    FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, ReadRanks(importer, files));
    return PredictAndReport(store, options);
  };
  const absl::Status status = run();
  if (!status.ok()) {
    FORETRACE_CHECK(status.message().find('\n') == std::string_view::npos);
    FORETRACE_CHECK(status.code() != absl::StatusCode::kInternal);
  }
  return status;
}

}  // namespace foretrace
