#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/base/atomic_file.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
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
#include "simulator/replay/trace_options.h"
#include "simulator/report/text_table.h"

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

// The unweighted mean over models, so that long sweeps do not drown short ones.
struct MeanErrors {
  double gmae_percent = 0;
  double mape_percent = 0;
};
MeanErrors MeanOfModels(const CalibrateReport& report) {
  MeanErrors mean;
  const size_t count = report.models.size() - 1;  // without "all"
  for (size_t i = 0; i < count; ++i) {
    mean.gmae_percent += report.models[i].errors.gmae_percent / static_cast<double>(count);
    mean.mape_percent += report.models[i].errors.mape_percent / static_cast<double>(count);
  }
  return mean;
}

void Key(PrettyJsonWriter& json, const char* key, double value) {
  json.Key(key);
  json.Double(value);
}

void Strings(PrettyJsonWriter& json, const char* key, const std::vector<std::string>& values) {
  json.Key(key);
  json.StartArray();
  for (const std::string& value : values) {
    json.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  json.EndArray();
}

// What each row was predicted to take; `residual_percent`: predicted over measured, less 1.
void Rows(PrettyJsonWriter& json, const CalibrateReport& report) {
  json.Key("rows");
  json.StartArray();
  for (const CalibrateRow& row : report.rows) {
    json.StartObject();
    json.Field("platform", row.platform);
    json.Field("model", row.model);
    json.Field("shape", row.shape);
    json.Field("measured_us", row.measured_us);
    json.Field("predicted_us", row.predicted_us);
    json.Field("residual_percent", 100 * (row.predicted_us / row.measured_us - 1));
    json.Field("extrapolated", row.extrapolated);
    json.EndObject();
  }
  json.EndArray();
}

// With `rows`, as pages and tables have it, also every row.
std::string Json(const CalibrateReport& report, bool rows) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter json(buffer);
  json.SetIndent(' ', 2);
  json.StartObject();
  json.Key("in_sample");
  json.Bool(report.in_sample);
  json.Key("models");
  json.StartArray();
  for (const ModelErrors& model : report.models) {
    json.StartObject();
    json.Key("name");
    json.String(model.name.data(), static_cast<rapidjson::SizeType>(model.name.size()));
    json.Key("count");
    json.Uint64(model.errors.count);
    Key(json, "gmae_percent", model.errors.gmae_percent);
    Key(json, "mape_percent", model.errors.mape_percent);
    Key(json, "median_percent", model.median_percent);
    Key(json, "p90_percent", model.p90_percent);
    Key(json, "std_percent", model.errors.std_percent);
    Key(json, "max_percent", model.errors.max_percent);
    json.Key("extrapolated_count");
    json.Uint64(model.extrapolated_count);
    json.EndObject();
  }
  json.EndArray();
  const MeanErrors mean = MeanOfModels(report);
  json.Key("mean_of_models");
  json.StartObject();
  json.Key("count");
  json.Uint64(report.models.size() - 1);
  Key(json, "gmae_percent", mean.gmae_percent);
  Key(json, "mape_percent", mean.mape_percent);
  json.EndObject();
  json.Key("uncovered_count");
  json.Uint64(report.uncovered_count);
  Strings(json, "notes", report.notes);
  Strings(json, "written", report.written);
  if (rows) Rows(json, report);
  json.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

// All rows together, and the model that is furthest off.
std::string Verdict(const CalibrateReport& report) {
  const ErrorSummary& all = report.models.back().errors;
  std::string text = fmt::format("Verdict: GMAE {:.2f} % on {} {} rows", all.gmae_percent,
                                 all.count, report.in_sample ? "fitted" : "held-out");
  const auto worst = std::max_element(
      report.models.begin(), report.models.end() - 1,
      [](const auto& a, const auto& b) { return a.errors.gmae_percent < b.errors.gmae_percent; });
  if (report.models.size() > 2) {
    text += fmt::format("; the furthest off is {} with {:.2f} %", worst->name,
                        worst->errors.gmae_percent);
  }
  return text + "\n";
}

std::string Text(const CalibrateReport& report, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{report.in_sample ? "errors on the fitted rows" : "errors on held-out rows",
                    Align::kLeft, true},
                   {"rows"},
                   {"GMAE %"},
                   {"MAPE %"},
                   {"std %"},
                   {"max %"},
                   {"extrapolated"}});
  for (const ModelErrors& model : report.models) {
    const ErrorSummary& e = model.errors;
    table.AddRow({model.name, fmt::format("{}", e.count), fmt::format("{:.2f}", e.gmae_percent),
                  fmt::format("{:.2f}", e.mape_percent), fmt::format("{:.2f}", e.std_percent),
                  fmt::format("{:.1f}", e.max_percent),
                  fmt::format("{}", model.extrapolated_count)});
  }
  const MeanErrors mean = MeanOfModels(report);
  std::string text = Verdict(report) + table.Format(style);
  text += fmt::format("mean over {} models: GMAE {:.2f} %, MAPE {:.2f} %\n",
                      report.models.size() - 1, mean.gmae_percent, mean.mape_percent);
  if (report.uncovered_count > 0) {
    text += fmt::format("{} rows are covered by no model\n", report.uncovered_count);
  }
  for (const std::string& note : report.notes) text += fmt::format("Note: {}\n", note);
  for (const std::string& path : report.written) text += fmt::format("wrote {}\n", path);
  return text;
}

// For scripts/plot_fit.py.
absl::Status WriteRows(const CalibrateReport& report, const std::string& path) {
  std::string text = "platform,model,shape,measured_us,predicted_us,extrapolated\n";
  for (const CalibrateRow& row : report.rows) {
    text += CsvLineOf(row.platform, row.model, row.shape, row.measured_us, row.predicted_us,
                      row.extrapolated ? 1 : 0);
  }
  return WriteFile(path, text);
}

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

absl::Status RunCommand(const Fitter& fitter, CalibrateCommandOptions options,
                        const CommandContext& context) {
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
    FORETRACE_RETURN_IF_ERROR(WriteRows(report, options.rows_file));
  }
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("calibrate", [&] { return Json(report, true); }));
  if (options.json) return context.console->PrintJson("calibrate", Json(report, false));
  return context.console->Print(Text(report, context.console->style()));
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
          fmt::format("fit the {} of these traces (files, folders or tars of one job)", what))
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

void AddFamily(CLI::App& calibrate, CommandContext& context,
               const std::shared_ptr<const Fitter>& fitter) {
  auto options = std::make_shared<CalibrateCommandOptions>();
  CalibrateOptions& run = options->run;
  CLI::App* command = calibrate.add_subcommand(
      std::string(fitter->kind()), fmt::format("fit and evaluate {} models", fitter->kind()));
  command->add_option("tables", run.tables, "tables to fit, in the neutral CSV schema")
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
                     "correct this calibration with the tables' few points, instead of fitting")
        ->type_name("YAML");
  }
  command
      ->add_option("--calibration", run.calibration,
                   "evaluate this calibration on the --test tables")
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
