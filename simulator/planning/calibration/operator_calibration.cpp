#include "simulator/planning/calibration/operator_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/boosting.h"
#include "simulator/console/output.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/hardware/catalog.h"
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

// As CheckDevice of calibrate does for other tables.
absl::Status CheckPlatform(const std::string& file, const std::string& stated,
                           const std::string& platform) {
  if (stated.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  const Accelerator *device = catalog.FindLabel(stated), *named = catalog.FindLabel(platform);
  // "H100" may be of any of its boards.
  if (device == nullptr || named == nullptr || device->chip == named->chip) return absl::OkStatus();
  return InvalidInput(
      "{}: its device is {}, but --platform {} is named after {}; correct one of them", file,
      stated, platform, named->name);
}

absl::StatusOr<Table> TableOf(const std::string& file, std::string text,
                              const std::string& platform) {
  Table table{file, std::move(text), platform, std::nullopt};
  if (platform.empty()) {
    table.device = DeviceOfTable(file, table.text);
  } else {
    FORETRACE_RETURN_IF_ERROR(CheckPlatform(file, StatedDevice(table.text), platform));
  }
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

// Has both in the same columns.
absl::Status InSameColumns(Table& table, Table& test, std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(serve::AlignedOperators aligned,
                             serve::AlignOperators(table.file, table.text, test.file, test.text));
  table.text = std::move(aligned.known);
  test.text = std::move(aligned.test);
  notes.insert(notes.end(), aligned.notes.begin(), aligned.notes.end());
  return absl::OkStatus();
}

// Few rows of the tests' device; all three in the same columns.
absl::StatusOr<Table> FewRows(const OperatorCalibration& options, Table& table, Table& test,
                              std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTableText(options.few));
  FORETRACE_ASSIGN_OR_RETURN(Table few, TableOf(options.few, std::move(text), ""));
  if (few.peaks && test.peaks && few.peaks->name != test.peaks->name) {
    return InvalidInput("{} is of {}, but {} of {}: few rows correct for their own device alone",
                        few.file, few.peaks->name, test.file, test.peaks->name);
  }
  FORETRACE_RETURN_IF_ERROR(InSameColumns(table, few, notes));
  // What the few lack the table has lost or the few have got, so that this changes the tests alone.
  std::vector<std::string> of_tests;
  FORETRACE_RETURN_IF_ERROR(InSameColumns(table, test, of_tests));
  for (std::string& note : of_tests) {
    if (!note.starts_with(table.file + " has no column")) notes.push_back(std::move(note));
  }
  return few;
}

// What the few rows correct, and of which precisions they are none.
struct Corrections {
  std::string said;  // empty: there are no few rows
  std::vector<std::string> lacking;
};

absl::StatusOr<Corrections> CorrectionsBy(const Table& few,
                                          const std::vector<serve::OperatorErrors>& errors) {
  Corrections corrections;
  if (few.text.empty()) return corrections;
  FORETRACE_ASSIGN_OR_RETURN(const serve::OperatorRows rows,
                             serve::ReadOperatorRows(few.file, few.text));
  corrections.said = fmt::format("corrected by {} row{} of {}", rows.rows.size(),
                                 rows.rows.size() == 1 ? "" : "s", few.file);
  for (const serve::OperatorErrors& e : errors) {
    const bool has = std::ranges::any_of(
        rows.rows, [&](const serve::OperatorRow& row) { return row.precision == e.name; });
    if (has) continue;
    corrections.lacking.push_back(
        fmt::format("{} has no rows of {}: these are not corrected", few.file, e.name));
  }
  return corrections;
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

// Boosted trees, as residuals of kernels are learnt (calibrate/kernel/residual_fit.h).
serve::ResidualTrainer BoostedTrees(const ProgressSink& progress) {
  return [progress](std::span<const float> features, int count, std::span<const float> targets,
                    bool rough) -> absl::StatusOr<serve::LearntResidual> {
    const BoostingOptions options{.trees = rough ? 100 : 300,
                                  .depth = 6,
                                  .learning_rate = 0.07,
                                  .min_child_weight = 8,
                                  .features_per_node = 0.5,
                                  .rows_per_tree = 0.7,
                                  .huber = rough ? 0.1 : 0,
                                  .progress = progress};
    const std::vector<float> weights(targets.size(), 1.0F);
    FORETRACE_ASSIGN_OR_RETURN(TreeEnsemble learnt,
                               TrainBoostedTrees(features, count, targets, weights, options));
    return serve::LearntResidual(
        [learnt = std::move(learnt)](std::span<const float> x) { return learnt.Evaluate(x); });
  };
}

// GEMMs where their device is known, as `calibrate kernel` does. Other operators along lines.
absl::StatusOr<std::vector<serve::OperatorErrors>> ErrorsOf(const OperatorCalibration& options,
                                                            const Table& table, const Table& test,
                                                            const Table& few,
                                                            const CommandContext& context) {
  const bool tests = !test.file.empty();
  const ProgressSink progress = [&context](std::string_view what, int64_t done, int64_t total) {
    context.console->Progress(what, done, total);
  };
  if (!table.device.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(
        auto gemms,
        tests ? TestGemms(table.device, table.file, table.text, test.device, test.file, test.text,
                          {few.file, few.text}, progress)
              : HoldOutGemms(table.device, table.file, table.text, options.folds, progress));
    if (!gemms.empty()) return gemms;
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
                                ScaleBetween(table, test), {few.file, few.text},
                                BoostedTrees(progress));
  }
  return serve::HoldOutOperators(table.file, table.text);
}

// Why none of the tests' rows is predicted.
absl::Status NothingCovered(const Table& table, const Table& test, size_t rows) {
  std::string why = "no measured shapes of their types lie on both sides of theirs";
  if (table.device.empty() &&
      serve::HeaderLine(table.text).find("gemm_dtype") != std::string::npos) {
    why +=
        ", and without a device there is no model of kernels: name it in a line '# device: H100' "
        "before the header, or by --platform";
  }
  return InvalidInput("{}: none of its {} rows is covered by {}: {}", test.file, rows, table.file,
                      why);
}

std::string HowPredicted(const OperatorCalibration& options, const Table& table, bool by_kernels,
                         const std::string& corrected) {
  const bool tests = !options.test.empty();
  if (!by_kernels && !tests) return serve::OperatorHeading().how;
  std::string how;
  if (by_kernels) {
    const std::string held_out =
        tests ? "fitted to " + options.table
        : options.folds > 0
            ? fmt::format("each weight matrix (n, k) held out once, in {} parts", options.folds)
            : "a fifth of the weight matrices (n, k) held out (calibrate kernel --hold-out "
              "unseen-nk)";
    how = fmt::format("by the model of kernels on {}, {}", table.device, held_out);
  } else {
    how = fmt::format("each shape as {} has it, or predicted from its neighbours there",
                      options.table);
  }
  return corrected.empty() ? how : how + ", " + corrected;
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
  const bool tests = !options.test.empty();
  Table test, few;
  std::vector<std::string> assumed;
  if (tests) {
    FORETRACE_ASSIGN_OR_RETURN(std::string test_text, ReadTableText(options.test));
    FORETRACE_ASSIGN_OR_RETURN(test, TableOf(options.test, std::move(test_text), ""));
    assumed = NotesOnDevices(table, test);
    FORETRACE_RETURN_IF_ERROR(InSameColumns(table, test, assumed));
    if (!options.few.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(few, FewRows(options, table, test, assumed));
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto errors, ErrorsOf(options, table, test, few, context));
  const serve::OperatorErrors all = serve::AllOperators(errors);
  if (tests && all.held_out == 0) return NothingCovered(table, test, all.rows);
  FORETRACE_ASSIGN_OR_RETURN(Corrections corrections, CorrectionsBy(few, errors));
  assumed.insert(assumed.end(), corrections.lacking.begin(), corrections.lacking.end());
  const std::string& of = tests ? options.test : options.table;
  const auto json = [&] {
    std::vector<std::string> notes = assumed;
    if (!corrections.said.empty()) notes.insert(notes.begin(), corrections.said);
    return OperatorJson(of, errors, notes);
  };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer(options.command, json));
  if (options.json) return context.console->PrintJson(options.command, json());
  const bool by_kernels = !errors.empty() && errors.front().by_kernels;
  std::string answer =
      OperatorText(of, errors, {HowPredicted(options, table, by_kernels, corrections.said), tests});
  std::vector<std::string> notes = serve::OperatorNotes(errors);
  notes.insert(notes.end(), assumed.begin(), assumed.end());
  for (const std::string& note : notes) answer += "Note: " + note + "\n";
  return context.console->Print(answer);
}

}  // namespace foretrace
