#include "simulator/planning/calibration/operator_calibration.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/output.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/planning/calibration/gemm_table.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/serve/operator_columns.h"
#include "simulator/serve/operator_rows.h"
#include "simulator/serve/operator_table.h"

namespace foretrace {
namespace {

// A table, its text and its device as far as it says so.
struct Table {
  std::string file;
  std::string text;
  std::string device;
  std::optional<GpuPeaks> peaks;
};

absl::StatusOr<Table> TableOf(const std::string& file, std::string text,
                              const std::string& device) {
  Table table{file, std::move(text), device, std::nullopt};
  if (device.empty()) table.device = DeviceOfTable(file, table.text);
  if (table.device.empty()) return table;
  FORETRACE_ASSIGN_OR_RETURN(table.peaks, FindGpuPeaksOfLabel(table.device));
  return table;
}

// Between devices that both tables name; else they are one.
serve::OperatorScale ScaleBetween(const Table& table, const Table& test) {
  if (!table.peaks || !test.peaks) return {};
  const GpuPeaks &from = *table.peaks, &to = *test.peaks;
  return {to.dram_gbps / from.dram_gbps, RateRatio(from, to, kHalfRates),
          RateRatio(from, to, kEightBitRates), RateRatio(from, to, kFourBitRates)};
}

// Few rows of the tests' device, in the table's columns.
absl::StatusOr<Table> FewRows(const OperatorCalibration& options, const Table& table,
                              const Table& test) {
  FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTableText(options.few));
  FORETRACE_ASSIGN_OR_RETURN(Table few, TableOf(options.few, std::move(text), ""));
  if (few.peaks && test.peaks && few.peaks->name != test.peaks->name) {
    return InvalidInput("{} is of {}, but {} of {}: few rows correct for their own device alone",
                        few.file, few.peaks->name, test.file, test.peaks->name);
  }
  FORETRACE_ASSIGN_OR_RETURN(serve::AlignedOperators aligned,
                             serve::AlignOperators(table.file, table.text, few.file, few.text));
  few.text = std::move(aligned.test);
  FORETRACE_RETURN_IF_ERROR(serve::ReadOperatorRows(few.file, few.text).status());
  return few;
}

// What was scaled between the tables, or why nothing was.
std::vector<std::string> NotesOnDevices(const Table& table, const Table& test) {
  if (!table.peaks && !test.peaks) return {};
  if (!table.peaks || !test.peaks) {
    const Table& silent = table.peaks ? test : table;
    const Table& stated = table.peaks ? table : test;
    return {
        fmt::format("{} names no device, neither in its name nor in a line '# device: ...': it "
                    "is taken as of {}'s, {}, and nothing is scaled",
                    silent.file, stated.file, stated.peaks->name)};
  }
  if (table.peaks->name == test.peaks->name) return {};
  return {fmt::format("{} is predicted from {} {}", test.file, table.file,
                      DescribeScale(*table.peaks, *test.peaks))};
}

// GEMMs where their device is known, as `calibrate kernel` does; `by_kernels`: that was done. Other
// operators along lines.
absl::StatusOr<std::vector<serve::OperatorErrors>> ErrorsOf(const OperatorCalibration& options,
                                                            const Table& table, const Table& test,
                                                            const Table& few,
                                                            const CommandContext& context,
                                                            bool& by_kernels) {
  const bool tests = !test.file.empty();
  if (!table.device.empty()) {
    const ProgressSink progress = [&context](std::string_view what, int64_t done, int64_t total) {
      context.console->Progress(what, done, total);
    };
    FORETRACE_ASSIGN_OR_RETURN(
        auto gemms,
        tests ? TestGemms(table.device, table.file, table.text, test.device, test.file, test.text,
                          few.text, progress)
              : HoldOutGemms(table.device, table.file, table.text, options.folds, progress));
    by_kernels = !gemms.empty();
    if (by_kernels) return gemms;
  }
  for (const auto& [name, given] : {std::pair("--platform", !options.platform.empty() && !tests),
                                    std::pair("--folds", options.folds > 0)}) {
    if (!given) continue;
    return InvalidInput(
        "{} goes with tables of GEMMs on a known device that are large enough for a model of "
        "kernels, {} is none",
        name, options.table);
  }
  if (tests) {
    return serve::TestOperators(table.file, table.text, test.file, test.text,
                                ScaleBetween(table, test), few.text);
  }
  return serve::HoldOutOperators(table.file, table.text);
}

std::string HowFitted(const OperatorCalibration& options, const Table& table) {
  const std::string held_out =
      !options.test.empty() ? "fitted to " + options.table
      : options.folds > 0
          ? fmt::format("each weight matrix (n, k) held out once, in {} parts", options.folds)
          : "a fifth of the weight matrices (n, k) held out (calibrate kernel --hold-out "
            "unseen-nk)";
  return fmt::format("by the model of kernels on {}, {}\n", table.device, held_out);
}

}  // namespace

std::optional<std::string> OperatorTableText(const std::string& path) {
  auto text = ReadTableText(path);
  if (!text.ok() || !serve::IsOperatorTable(*text)) return std::nullopt;
  return *std::move(text);
}

absl::Status RunOperatorCalibration(const OperatorCalibration& options, std::string text,
                                    const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(Table table,
                             TableOf(options.table, std::move(text), options.platform));
  Table test, few;
  std::vector<std::string> assumed;
  if (!options.test.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(std::string test_text, ReadTableText(options.test));
    FORETRACE_ASSIGN_OR_RETURN(test, TableOf(options.test, std::move(test_text), ""));
    assumed = NotesOnDevices(table, test);
    FORETRACE_ASSIGN_OR_RETURN(serve::AlignedOperators aligned,
                               serve::AlignOperators(table.file, table.text, test.file, test.text));
    table.text = std::move(aligned.known);
    test.text = std::move(aligned.test);
    assumed.insert(assumed.end(), aligned.notes.begin(), aligned.notes.end());
    if (!options.few.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(few, FewRows(options, table, test));
    }
  }
  bool by_kernels = false;
  FORETRACE_ASSIGN_OR_RETURN(const auto errors,
                             ErrorsOf(options, table, test, few, context, by_kernels));
  const std::string& of = options.test.empty() ? options.table : options.test;
  const auto json = [&] { return OperatorJson(of, errors, assumed); };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer(options.command, json));
  if (options.json) return context.console->PrintJson(options.command, json());
  std::string answer = OperatorText(of, errors);
  if (by_kernels) answer += HowFitted(options, table);
  std::vector<std::string> notes = serve::OperatorNotes(errors);
  notes.insert(notes.end(), assumed.begin(), assumed.end());
  for (const std::string& note : notes) answer += "Note: " + note + "\n";
  return context.console->Print(answer);
}

}  // namespace foretrace
