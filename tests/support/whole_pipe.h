#pragma once
// Files of one rank each through everything that `predict` does: import, assembly, matching,
// compilation, both executors, explanation and report. Any input must end in figures or in an
// error of one line; that the process goes on says the rest.

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
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
#include "simulator/replay/run.h"
#include "simulator/replay/step_explanation.h"
#include "simulator/replay/timeline_request.h"
#include "simulator/replay/what_if/sensitivity.h"
#include "simulator/report/report_json.h"
#include "simulator/report/text_report.h"
#include "tests/support/random_store.h"

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

// What is asked for: how to simulate, and what else to find out and to write.
struct PipeOptions {
  SimulationOptions simulation;
  bool sensitivity = false;
  std::string timeline;  // as --timeline
};

inline absl::Status PredictAndReport(const TraceStore& store, const PipeOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup,
                             SimulationSetup::Make(options.simulation, store));
  CompileOptions compile = setup.compile();
  compile.keep_overheads = compile.keep_overheads || options.sensitivity;
  FORETRACE_ASSIGN_OR_RETURN(const CompiledJob job, CompileJob(store, setup, compile));
  if (setup.network() == nullptr) CheckExecutors(store, job);
  std::optional<Prediction> unedited;
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction,
                             Simulate(store, setup, compile, setup.network(), &unedited));
  const auto windows = Windows(prediction);
  FORETRACE_ASSIGN_OR_RETURN(
      ReportOptions report_options,
      ExplainStep(store, setup, {}, prediction, unedited.has_value() ? &*unedited : nullptr));
  if (options.sensitivity && report_options.step.has_value()) {
    FORETRACE_ASSIGN_OR_RETURN(
        report_options.sensitivity,
        ComputeSensitivity(store, prediction.job, *report_options.iteration, setup.network(), 3));
  }
  FORETRACE_RETURN_IF_ERROR(NoteAlignedStart(store, setup, prediction, report_options.notes));
  EventTable table(store);
  EngineObserver* observers[] = {&table};
  Tell(store, prediction, observers, ProgramUse::kKeep);
  FORETRACE_ASSIGN_OR_RETURN(const PredictionReport report,
                             BuildPredictionReport(table, windows, report_options));
  FORETRACE_CHECK(!ReportJson(report, store).empty());
  FORETRACE_CHECK(!TextReport(report, store, {}).empty());
  TimelineRequest timeline;
  timeline.path = options.timeline;
  FORETRACE_RETURN_IF_ERROR(timeline.Check(store));
  return timeline.Write({table, prediction, windows, report}, {});
}

inline std::string DrawnTimeline(Drawn& drawn) {
  static const std::string folder = fmt::format("/dev/shm/foretrace_whole_pipe_{}/", getpid());
  std::filesystem::create_directories(folder);
  switch (drawn.Below(32)) {
    case 1:
      return folder;
    case 2:
      return folder + "all.json";
    case 3:
      return folder + "all.pftrace";
    default:
      return "";
  }
}

// Another machine, other transfers, more ranks: of two in three inputs none, since each reads a
// platform's file.
inline void DrawMachine(Drawn& drawn, SimulationOptions& options) {
  const uint32_t kind = drawn.Below(18);
  if (kind == 0 || kind > 6) return;
  if (kind != 5) options.platform = "dgx-a100";
  if (kind <= 4) options.network = kind == 4 ? "fluid" : "fitted";
  if (kind == 2 || kind == 3) {
    options.ranks = static_cast<int32_t>(2 + drawn.Below(24));
    static constexpr std::string_view kGroups[] = {"", "all", "pair", "."};
    options.data_parallel = kGroups[drawn.Below(4)];
  }
  if (kind == 5) {
    options.on = "dgx-a100:2";
    options.cpu_scale = 0.5 + drawn.Below(4);
  }
  if (kind == 6) options.durations.durations = {"model"};
}

inline PipeOptions DrawnOptions(Drawn& drawn) {
  PipeOptions all;
  SimulationOptions& options = all.simulation;
  options.allow_missing_ranks = !drawn.OneIn(4);
  static constexpr std::string_view kAbsent[] = {"as-recorded", "alike", "never-last"};
  options.absent = kAbsent[drawn.Below(3)];
  static constexpr std::string_view kChanges[] = {"kind=kernel:x1e6",
                                                  "name=gemm:remove",
                                                  "kind=collective:x0.5",
                                                  "call=Synchronize:remove",
                                                  "cpu=aten:x2",
                                                  "op=aten:fuse",
                                                  "kind=memcpy:stream=9",
                                                  "op=op:graph",
                                                  "kind=collective:x0",
                                                  "name=softmax:+100us",
                                                  "rank=1:x1.5",
                                                  "rank=0:delay=500us",
                                                  "collective=all_reduce:buckets=1MB",
                                                  "kind=kernel,stream=8:=3us",
                                                  "kind=collective:ranks=6",
                                                  "kind=collective,name=nccl:ranks=8"};
  for (uint32_t n = drawn.Below(8); n > 5; --n) {
    options.what_if.emplace_back(kChanges[drawn.Below(std::size(kChanges))]);
  }
  static constexpr std::string_view kLeftOut[] = {"rank-sync", "stream-sync", "cpu",
                                                  "blocking",  "contention",  "fences"};
  if (drawn.OneIn(8)) options.without = {std::string(kLeftOut[drawn.Below(std::size(kLeftOut))])};
  if (drawn.OneIn(8)) options.durations.durations = {"model-for=kind=kernel"};
  if (drawn.OneIn(8)) options.semantics = "algorithm1";
  options.aligned_start = drawn.OneIn(8);
  DrawMachine(drawn, options);
  all.sensitivity = drawn.OneIn(16);
  all.timeline = DrawnTimeline(drawn);
  return all;
}

inline absl::Status PredictStore(const absl::StatusOr<TraceStore>& store,
                                 const PipeOptions& options) {
  const absl::Status status = store.ok() ? PredictAndReport(*store, options) : store.status();
  if (!status.ok()) {
    FORETRACE_CHECK(status.message().find('\n') == std::string_view::npos);
    FORETRACE_CHECK(status.code() != absl::StatusCode::kInternal);
  }
  return status;
}

inline absl::Status RunWholePipe(const Importer& importer, const std::vector<std::string>& files,
                                 const PipeOptions& options) {
  return PredictStore(ReadRanks(importer, files), options);
}

// Options and a recording, both drawn from bytes.
inline absl::Status PredictDrawn(std::string_view bytes) {
  Drawn drawn(bytes);
  const PipeOptions options = DrawnOptions(drawn);
  return PredictStore(RandomStore(drawn), options);
}

}  // namespace foretrace
