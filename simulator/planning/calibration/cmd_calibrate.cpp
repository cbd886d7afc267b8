#include <fmt/ranges.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/calibrate.h"
#include "simulator/calibrate/collective/collective_fitter.h"
#include "simulator/calibrate/collective/exchange_fitter.h"
#include "simulator/calibrate/embedding/embedding_fitter.h"
#include "simulator/calibrate/embedding/trace_lookups.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/calibrate/memcpy/memory_fitter.h"
#include "simulator/calibrate/memcpy/trace_copies.h"
#include "simulator/calibrate/overheads/overhead_fitter.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/calibration/calibration_report.h"
#include "simulator/planning/calibration/operator_calibration.h"
#include "simulator/replay/trace_options.h"

namespace foretrace {
namespace {

// One line per family of cost models.
std::vector<std::shared_ptr<const Fitter>> AllFitters() {
  return {
      std::make_shared<CollectiveFitter>(), std::make_shared<KernelFitter>(),
      std::make_shared<EmbeddingFitter>(),  std::make_shared<MemoryFitter>(),
      std::make_shared<OverheadFitter>(),   std::make_shared<ExchangeFitter>(),
  };
}

struct CalibrateCommandOptions {
  CalibrateOptions run;
  std::string interconnect;
  std::optional<int64_t> seed;
  std::string rows_file;
  bool json = false;
  // Lookups and copies alone.
  TraceOptions traces, test_traces;
  std::vector<std::string> provenance;
  std::string table_file;
};

absl::StatusOr<std::pair<std::string, std::string>> ParseProvenance(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals >= text.size() - 1 || text.find('\n') != std::string::npos) {
    return InvalidInput("--provenance {}: expected KEY=VALUE, such as licence=MIT", text);
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// What a family finds in traces, as one table; nothing where no traces are given.
absl::Status AddTraceTable(BenchmarkKind kind, const TraceOptions& traces,
                           const CommandContext& context,
                           const std::vector<std::string>& provenance,
                           std::vector<BenchmarkTable>& tables) {
  if (traces.paths.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, traces.Load(context));
  const TraceStore& store = *loaded;
  std::string names;
  for (const std::string& path : traces.paths) {
    names += (names.empty() ? "" : " --trace ") +
             std::filesystem::path(path).lexically_normal().filename().string();
  }
  FORETRACE_ASSIGN_OR_RETURN(BenchmarkTable table, kind == BenchmarkKind::kMemory
                                                       ? CopyTable(store, names)
                                                       : LookupTable(store, names));
  for (const std::string& text : provenance) {
    FORETRACE_ASSIGN_OR_RETURN(auto entry, ParseProvenance(text));
    table.provenance[entry.first] = entry.second;
  }
  table.provenance["trace"] = names;
  tables.push_back(std::move(table));
  return absl::OkStatus();
}

absl::Status AddTraceTables(BenchmarkKind kind, CalibrateCommandOptions& options,
                            const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(
      AddTraceTable(kind, options.traces, context, options.provenance, options.run.made_tables));
  FORETRACE_RETURN_IF_ERROR(
      AddTraceTable(kind, options.test_traces, context, {}, options.run.made_test_tables));
  if (options.table_file.empty()) return absl::OkStatus();
  if (options.run.made_tables.empty()) return InvalidInput("--table-out needs --trace");
  return WriteFile(options.table_file, BenchmarkCsv(options.run.made_tables.front()));
}

// A calibration that is corrected or evaluated has its form, and nothing is drawn for it.
absl::Status CheckFit(const CalibrateCommandOptions& options) {
  const bool fits = options.run.adapt.empty() && options.run.calibration.empty();
  if (fits) return absl::OkStatus();
  const std::string_view other = options.run.adapt.empty() ? "--calibration" : "--adapt";
  if (!options.run.fit.form.empty()) {
    return InvalidInput("--form {} would change nothing: {} keeps the form of its calibration",
                        options.run.fit.form, other);
  }
  if (options.seed && options.run.hold_out.empty()) {
    return InvalidInput("--seed {} would change nothing: {} fits nothing anew", *options.seed,
                        other);
  }
  return absl::OkStatus();
}

// Experts, latent attention and others that the neutral schema has no place for.
absl::Status RunOperators(const CalibrateCommandOptions& options, std::string text,
                          const CommandContext& context) {
  const CalibrateOptions& run = options.run;
  const std::string& table = run.tables.front();
  if (run.test_tables.size() > 1) {
    return InvalidInput("{}: is a table of operators, which are tested by one table at a time",
                        table);
  }
  if (!run.adapt.empty() && run.test_tables.empty()) {
    return InvalidInput(
        "--adapt of a table of operators takes --test: other rows of the device that {} has a few "
        "of",
        table);
  }
  for (const auto& [name, given] :
       {std::pair("--hold-out", !run.hold_out.empty()),
        std::pair("--calibration", !run.calibration.empty()),
        std::pair("--output", !run.output.empty()), std::pair("--form", !run.fit.form.empty()),
        std::pair("--seed", options.seed.has_value()),
        std::pair("--rows", !options.rows_file.empty())}) {
    if (!given) continue;
    return InvalidInput(
        "{} goes with tables in the neutral schema; {} is one of operators, whose rows "
        "are predicted from others of it or, with --test, from all",
        name, table);
  }
  OperatorCalibration operators{"calibrate", table, "", "", run.platform, 0, options.json};
  if (!run.test_tables.empty()) operators.test = run.test_tables.front();
  if (run.adapt.empty()) return RunOperatorCalibration(operators, std::move(text), context);
  auto adapted = OperatorTableText(run.adapt);
  if (!adapted) {
    return InvalidInput("--adapt {}: is no table of operators, which {} corrects", run.adapt,
                        table);
  }
  operators.few = std::exchange(operators.table, run.adapt);
  return RunOperatorCalibration(operators, *std::move(adapted), context);
}

absl::Status RunCommand(const Fitter& fitter, CalibrateCommandOptions options,
                        const CommandContext& context) {
  if (fitter.row_kind() == BenchmarkKind::kKernel && options.run.tables.size() == 1) {
    auto text = OperatorTableText(options.run.tables.front());
    if (text) return RunOperators(options, *std::move(text), context);
  }
  FORETRACE_RETURN_IF_ERROR(AddTraceTables(fitter.row_kind(), options, context));
  FORETRACE_RETURN_IF_ERROR(CheckFit(options));
  if (options.seed) options.run.fit.seed = static_cast<uint64_t>(*options.seed);
  if (!options.interconnect.empty()) {
    options.run.fit.interconnect = ParseInterconnect(options.interconnect);
    if (options.run.fit.interconnect == Interconnect::kUnknown) {
      return InvalidInput("--interconnect is '{}', not switch or mesh", options.interconnect);
    }
  }
  if (!options.run.output_platform.empty()) {
    FORETRACE_RETURN_IF_ERROR(CheckFileName(options.run.output_platform, "--as"));
  }
  options.run.fit.progress = [&context](std::string_view what, int64_t done, int64_t total) {
    context.console->Progress(what, done, total);
  };
  FORETRACE_ASSIGN_OR_RETURN(const CalibrateReport report, RunCalibrate(fitter, options.run));
  if (!options.rows_file.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(options.rows_file, CalibrationRows(report)));
  }
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("calibrate", [&] { return CalibrationJson(report, true); }));
  if (options.json) return context.console->PrintJson("calibrate", CalibrationJson(report, false));
  return context.console->Print(CalibrationText(report, context.console->style()));
}

// Options that some families have.
void AddFitOptions(CLI::App& command, const Fitter& fitter, CalibrateCommandOptions& options) {
  if (!fitter.Forms().empty()) {
    command.add_option("--form", options.run.fit.form,
                       fmt::format("form of the model: {}", fmt::join(fitter.Forms(), ", ")));
  }
  if (fitter.row_kind() == BenchmarkKind::kCollective) {
    command.add_option("--interconnect", options.interconnect, "switch or mesh")
        ->needs("--output")
        ->type_name("KIND");
  }
  if (fitter.Draws()) {
    command
        .add_option("--seed", options.seed, "of the random starts and of what --hold-out draws (1)")
        ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  }
}

// Families whose work recordings hold are fitted to these too.
void AddTraceOptions(CLI::App& command, const Fitter& fitter, CalibrateCommandOptions& options) {
  const bool copies = fitter.row_kind() == BenchmarkKind::kMemory;
  if (!copies && fitter.row_kind() != BenchmarkKind::kEmbedding) return;
  const std::string_view what = copies ? "copies" : "lookups";
  command
      .add_option(
          "--trace", options.traces.paths,
          fmt::format("fit the {} of these traces (files, folders, tars or zips of one job)", what))
      ->type_name("PATH")
      ->allow_extra_args(false);
  command
      .add_option("--test-trace", options.test_traces.paths,
                  fmt::format("evaluate on the {} of these traces, which take no part", what))
      ->type_name("PATH")
      ->allow_extra_args(false);
  command
      .add_option("--provenance", options.provenance,
                  "what to write into the file of the traces, such as licence=MIT")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--table-out", options.table_file,
                  fmt::format("write the {} of --trace as a table in the neutral schema", what))
      ->group(kOutputGroup)
      ->type_name("CSV");
}

std::string ExamplesOf(std::string_view kind) {
  if (kind == "collective") {
    return Examples({
        "foretrace calibrate collective lab.csv --hold-out every-third",
        "foretrace calibrate collective three_points.csv --adapt "
        "calibration/a100-sxm4-nvswitch/collectives.yaml -o calibration/ --as our-a100",
    });
  }
  if (kind == "kernel") {
    return Examples({
        "foretrace calibrate kernel gemms.csv --hold-out unseen-nk",
        "foretrace calibrate kernel --calibration none --test gemms.csv --json",
        "foretrace calibrate kernel gemms.csv -o calibration/ --date 2026-01-31   # platform: "
        "h100-sxm5-lab",
        "foretrace search llama2-7b --platform dgx-h100 --global-batch 64 --kernels "
        "calibration/h100-sxm5-lab",
    });
  }
  if (kind == "embedding") {
    return Examples({
        "foretrace calibrate embedding embedding.csv --hold-out every-third",
        "foretrace calibrate embedding --trace kineto/ --trace execution_traces/",
    });
  }
  if (kind == "memory") {
    return Examples({
        "foretrace calibrate memory --trace kineto/ --hold-out odd-steps",
        "foretrace calibrate memory copies.csv -o calibration/",
    });
  }
  if (kind == "overheads") {
    return Examples({"foretrace calibrate overheads launches.csv --hold-out every-third"});
  }
  return Examples({
      "foretrace calibrate expert-exchange normal.csv low_latency.csv --hold-out shapes",
  });
}

void AddFamily(CLI::App& calibrate, CommandContext& context,
               const std::shared_ptr<const Fitter>& fitter) {
  auto options = std::make_shared<CalibrateCommandOptions>();
  CalibrateOptions& run = options->run;
  CLI::App* command = calibrate.add_subcommand(
      std::string(fitter->kind()), fmt::format("fit and evaluate {} models", fitter->kind()));
  command
      ->add_option("tables", run.tables,
                   fitter->row_kind() == BenchmarkKind::kKernel
                       ? "tables to fit, in the neutral CSV schema; or one of operators in "
                         "aiconfigurator's columns"
                       : "tables to fit, in the neutral CSV schema")
      ->type_name("CSV");
  command->add_option("--test", run.test_tables, "evaluate on these tables, which take no part")
      ->type_name("CSV");
  command
      ->add_option("--hold-out", run.hold_out,
                   fmt::format("hold rows out and evaluate on them: {}",
                               fmt::join(fitter->HoldOutRules(), ", ")))
      ->type_name("RULE");
  if (fitter->Adapts()) {
    command
        ->add_option("--adapt", run.adapt,
                     fitter->row_kind() == BenchmarkKind::kKernel
                         ? "correct this calibration, or table of operators, with the tables' few "
                           "points, instead of fitting"
                         : "correct this calibration with the tables' few points, instead of "
                           "fitting")
        ->type_name(fitter->row_kind() == BenchmarkKind::kKernel ? "YAML|CSV" : "YAML");
  }
  command
      ->add_option("--calibration", run.calibration,
                   fitter->row_kind() == BenchmarkKind::kKernel
                       ? "evaluate this calibration on the --test tables; none: the files of "
                         "their devices alone"
                       : "evaluate this calibration on the --test tables")
      ->type_name("YAML");
  command
      ->add_option("-o,--output", run.output,
                   fmt::format("write DIR/<platform>/{}.yaml", fitter->file_stem()))
      ->group(kOutputGroup)
      ->type_name("DIR");
  command->add_option("--platform", run.platform, "use only rows of this platform");
  command->add_option("--as", run.output_platform, "name of the written platform")
      ->needs("--output");
  AddFitOptions(*command, *fitter, *options);
  command->add_option("--date", run.date, "date to write into the file")
      ->needs("--output")
      ->type_name("YYYY-MM-DD");
  command->add_option("--note", run.note, "words to write into the file")->needs("--output");
  command
      ->add_option("--rows", options->rows_file,
                   "write measured and predicted times, for scripts/plot_fit.py")
      ->group(kOutputGroup)
      ->type_name("CSV");
  command->add_flag("--json", options->json, "one JSON document on standard output");
  AddTraceOptions(*command, *fitter, *options);
  command->footer(ExamplesOf(fitter->kind()));
  command->callback([options, fitter, &context] {
    context.run = [options, fitter, &context] { return RunCommand(*fitter, *options, context); };
  });
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "fit cost models from benchmark tables, and report their errors");
  command->require_subcommand(1);
  for (const auto& fitter : AllFitters()) AddFamily(*command, context, fitter);
  AddServingCalibration(*command, context);
  AddPowerCalibration(*command, context);
  AddTraceOverheads(*command, context);
  command->footer(Examples({
      "foretrace calibrate collective lab.csv --hold-out every-third",
      "foretrace calibrate collective lab.csv -o calibration/ --date 2026-01-31",
      "foretrace calibrate collective three_points.csv --adapt "
      "calibration/a100-sxm4-nvswitch/collectives.yaml -o calibration/ --as our-a100",
      "foretrace calibrate embedding embedding.csv --hold-out every-third",
      "foretrace calibrate embedding --trace kineto/ --trace execution_traces/",
      "foretrace calibrate memory --trace kineto/ --hold-out odd-steps",
      "foretrace calibrate expert-exchange normal.csv low_latency.csv --hold-out shapes",
  }));
}

}  // namespace foretrace
