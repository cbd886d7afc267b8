#include "simulator/calibrate/calibrate.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "simulator/base/atomic_file.h"
#include "simulator/base/counted.h"
#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/platform_rows.h"

namespace foretrace {
namespace {

// "a100-pcie-40gb/kernels.yaml": a calibration's name with its platform.
std::string LastTwo(const std::string& path) {
  const std::filesystem::path p(path);
  return (p.parent_path().filename() / p.filename()).string();
}

// The library with its version: up to the first word like "2.29"; empty: it states none.
std::string Versioned(std::string_view library) {
  std::string words;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(std::string(library), ' ', absl::SkipEmpty()))) {
    words += words.empty() ? word : " " + word;
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != word.npos) return words;
  }
  return "";
}

std::vector<std::string> StackOf(const std::vector<BenchmarkRow>& rows,
                                 const std::vector<std::string>& prior) {
  std::set<std::string> stack(prior.begin(), prior.end());
  std::string_view last;
  for (const BenchmarkRow& row : rows) {
    if (row.library == last) continue;  // tables repeat it line by line
    last = row.library;
    if (std::string versioned = Versioned(last); !versioned.empty()) {
      stack.insert(std::move(versioned));
    }
  }
  return {stack.begin(), stack.end()};
}

// A calibration to correct or to evaluate.
struct Prior {
  std::unique_ptr<FittedModels> models;
  std::vector<std::map<std::string, std::string, std::less<>>> sources;
  std::vector<std::string> stack;
};

// The command that makes the same file from the same tables, without folders.
std::string CommandLine(const Fitter& fitter, const CalibrateOptions& options,
                        const PlatformData& data) {
  std::string command = fmt::format("foretrace calibrate {}", fitter.kind());
  for (const auto& source : data.sources) {
    const auto trace = source.find("trace");
    command +=
        " " + (trace != source.end() ? "--trace " + trace->second : source.find("table")->second);
  }
  if (!options.fit.form.empty()) command += " --form " + options.fit.form;
  if (options.fit.seed != 1) command += fmt::format(" --seed {}", options.fit.seed);
  if (!options.hold_out.empty()) command += " --hold-out " + options.hold_out;
  if (!options.adapt.empty()) command += " --adapt " + LastTwo(options.adapt);
  return command;
}

absl::StatusOr<std::unique_ptr<FittedModels>> FitOrAdapt(const Fitter& fitter,
                                                         const CalibrateOptions& options,
                                                         const FittedModels* prior,
                                                         std::span<const BenchmarkRow> rows,
                                                         Interconnect interconnect) {
  if (prior != nullptr) return fitter.Adapt(*prior, rows);
  FitOptions fit = options.fit;
  if (fit.interconnect == Interconnect::kUnknown) fit.interconnect = interconnect;
  return fitter.Fit(rows, fit);
}

// "memcpy dtod int8", "linear float8_e4m3fn forward, vllm 0.22.0".
std::string KindOf(const BenchmarkRow& row) {
  constexpr size_t kWord = 16;  // longer texts are no kinds
  std::string kind = row.op;
  for (const auto& [key, value] : row.shape.entries()) {
    const bool word = !row.shape.Int(key) && value.size() < kWord;
    if (word && value.find('|') == value.npos) kind += " " + value;
  }
  kind += " " + row.dtype;
  if (row.phase != Phase::kNone) kind += fmt::format(" {}", Name(row.phase));
  return row.library.empty() ? kind : kind + ", " + row.library;
}

// Rows that no model covers, by what they are, and rows that another stack's models answer for.
void NoteGaps(const std::string& platform, std::span<const BenchmarkRow> tested,
              const std::vector<EvaluatedRow>& evaluated, std::string_view hold_out,
              CalibrateReport& report) {
  std::map<std::string, size_t> uncovered, stood_in;
  std::set<const BenchmarkRow*> covered;
  for (const EvaluatedRow& row : evaluated) {
    covered.insert(row.row);
    if (!row.by.empty()) ++stood_in[fmt::format("{}: by {}", row.row->library, row.by)];
  }
  for (const BenchmarkRow& row : tested) {
    if (covered.contains(&row)) continue;
    ++uncovered[KindOf(row)];
  }
  for (const auto& [what, count] : uncovered) {
    report.notes.push_back(fmt::format(
        "{}: no model covers {} of {}: none was fitted to such rows; {}", platform,
        Counted(count, "row"), what,
        hold_out.empty()
            ? std::string("fit tables that hold some")
            : fmt::format(
                  "--hold-out {} leaves too few of them to fit: hold out by another rule, or "
                  "give tables with more of them",
                  hold_out)));
  }
  for (const auto& [what, count] : stood_in) {
    report.notes.push_back(fmt::format("{}: {} no model of {} own stack, {}", platform,
                                       Counted(count, "row has", "rows have"),
                                       count == 1 ? "its" : "their", what));
  }
}

void Report(const std::string& platform, std::span<const BenchmarkRow> tested,
            const std::vector<EvaluatedRow>& evaluated, std::string_view hold_out,
            CalibrateReport& report) {
  report.uncovered_count += tested.size() - evaluated.size();
  NoteGaps(platform, tested, evaluated, hold_out, report);
  for (const EvaluatedRow& row : evaluated) {
    std::string shape;
    for (const auto& [key, value] : row.row->shape.entries()) {
      shape += fmt::format("{}{}={}", shape.empty() ? "" : ";", key, value);
    }
    report.rows.push_back({platform, row.model, std::move(shape), row.row->time_us,
                           row.predicted_us, row.extrapolated});
  }
}

absl::Status Write(const Fitter& fitter, const CalibrateOptions& options,
                   const std::string& platform, const FittedModels& models,
                   const CalibrationHeader& header, CalibrateReport& report) {
  const std::filesystem::path folder = std::filesystem::path(options.output) / platform;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return InvalidInput("{}: cannot make the folder: {}", folder.string(), error.message());
  const std::string path = (folder / (std::string(fitter.file_stem()) + ".yaml")).string();
  FORETRACE_RETURN_IF_ERROR(WriteFile(path, HeaderYaml(header) + models.ToYaml()));
  report.written.push_back(path);
  for (const auto& [name, bytes] : models.SideFiles()) {
    const std::string side = (folder / name).string();
    FORETRACE_RETURN_IF_ERROR(WriteFile(side, bytes));
    report.written.push_back(side);
  }
  return absl::OkStatus();
}

std::optional<ErrorSummary> PooledErrors(const std::vector<EvaluatedRow>& rows) {
  if (rows.empty()) return std::nullopt;
  return SummarizeByModel(rows).back().errors;
}

absl::Status RunPlatform(const Fitter& fitter, const CalibrateOptions& options, const Prior& prior,
                         const std::string& platform, const PlatformData& data,
                         CalibrateReport& report) {
  RowSplit split{data.rows, data.test_rows};
  if (!options.hold_out.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(split, fitter.Split(data.rows, options.hold_out, options.fit.seed));
  }
  std::unique_ptr<FittedModels> models;
  if (options.calibration.empty()) {
    auto fitted = FitOrAdapt(fitter, options, prior.models.get(), split.train, data.interconnect);
    if (!fitted.ok()) {
      return InFile(fmt::format("{}: {}", absl::StrJoin(data.files, ", "), platform),
                    fitted.status());
    }
    models = *std::move(fitted);
    for (const std::string& note : models->Notes()) {
      report.notes.push_back(fmt::format("{}: {}", platform, note));
    }
  }
  const FittedModels& tested_models = models ? *models : *prior.models;
  const std::vector<BenchmarkRow>& tested = report.in_sample ? split.train : split.test;
  const std::vector<EvaluatedRow> evaluated = tested_models.Evaluate(tested);
  Report(platform, tested, evaluated, options.hold_out, report);
  for (const std::string& note : tested_models.NotesOn(platform)) {
    report.notes.push_back(fmt::format("{}: {}", platform, note));
  }
  if (options.output.empty() || data.fitted_elsewhere) return absl::OkStatus();

  // The file rests on all rows; without rows held out that is what was tested.
  std::unique_ptr<FittedModels> final_models = std::move(models);
  if (!options.hold_out.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(final_models, FitOrAdapt(fitter, options, prior.models.get(),
                                                        data.rows, data.interconnect));
  }
  FORETRACE_RETURN_IF_ERROR(InFile(absl::StrJoin(data.files, ", "), final_models->Writable()));
  CalibrationHeader header;
  header.kind = fitter.kind();
  header.platform = options.output_platform.empty() ? platform : options.output_platform;
  header.interconnect = options.fit.interconnect != Interconnect::kUnknown
                            ? options.fit.interconnect
                            : data.interconnect;
  header.stack = StackOf(data.rows, prior.stack);
  header.date = !options.date.empty() ? options.date : data.date.empty() ? "undated" : data.date;
  header.command = CommandLine(fitter, options, data);
  header.note = options.note;
  header.sources = data.sources;
  for (auto source : prior.sources) {
    source["by_way_of"] = LastTwo(options.adapt);
    header.sources.push_back(std::move(source));
  }
  header.in_sample = PooledErrors(final_models->Evaluate(data.rows));
  if (!report.in_sample) {
    header.held_out = PooledErrors(evaluated);
    header.held_out_rule = options.hold_out.empty() ? "test tables" : options.hold_out;
  }
  return Write(fitter, options, header.platform, *final_models, header, report);
}

absl::Status CheckOptions(const CalibrateOptions& options) {
  const bool fits = !options.tables.empty() || !options.made_tables.empty();
  const bool tests = !options.test_tables.empty() || !options.made_test_tables.empty();
  if (options.calibration.empty() != fits) {
    return InvalidInput("give tables to fit, or --calibration FILE with --test tables");
  }
  if (!options.calibration.empty() && !tests) {
    return InvalidInput("--calibration needs --test tables to evaluate it on");
  }
  if (!options.calibration.empty() && (!options.adapt.empty() || !options.output.empty())) {
    return InvalidInput("--calibration evaluates; it goes neither with --adapt nor --output");
  }
  for (const std::string& test : options.test_tables) {
    for (const std::string& fitted : options.tables) {
      std::error_code error;
      if (!std::filesystem::equivalent(test, fitted, error)) continue;
      return InvalidInput(
          "{}: is fitted and cannot be the --test of the fit too; --hold-out keeps "
          "rows of it back",
          test);
    }
  }
  if (!options.hold_out.empty() && tests) {
    return InvalidInput("--hold-out and --test exclude each other");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CalibrateReport> RunCalibrate(const Fitter& fitter,
                                             const CalibrateOptions& options) {
  FORETRACE_RETURN_IF_ERROR(CheckOptions(options));
  FORETRACE_ASSIGN_OR_RETURN(Platforms platforms, ReadPlatforms(fitter, options));
  Prior prior;
  const std::string prior_path = options.calibration.empty() ? options.adapt : options.calibration;
  if (!prior_path.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(auto loaded, fitter.Load(prior_path));
    prior.models = std::move(loaded.second);
    prior.sources = std::move(loaded.first.sources);
    prior.stack = std::move(loaded.first.stack);
  }
  if (!options.output_platform.empty() && platforms.size() > 1) {
    return InvalidInput("one name for {} platforms; choose one with --platform", platforms.size());
  }
  CalibrateReport report;
  report.in_sample =
      options.hold_out.empty() && options.test_tables.empty() && options.made_test_tables.empty();
  if (options.calibration.empty()) FORETRACE_RETURN_IF_ERROR(FitForOthers(fitter, platforms));
  for (const auto& [platform, data] : platforms) {
    FORETRACE_RETURN_IF_ERROR(RunPlatform(fitter, options, prior, platform, data, report));
  }
  if (report.rows.empty() && report.uncovered_count > 0) {
    return InvalidInput("no row can be judged: {}", absl::StrJoin(report.notes, "; "));
  }
  // Summaries over all platforms.
  std::vector<BenchmarkRow> measured(report.rows.size());
  std::vector<EvaluatedRow> all;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const CalibrateRow& row = report.rows[i];
    measured[i].time_us = row.measured_us;
    all.push_back({&measured[i], platforms.size() > 1 ? row.platform + " " + row.model : row.model,
                   row.predicted_us, row.extrapolated});
  }
  report.models = SummarizeByModel(all);
  return report;
}

}  // namespace foretrace
