#include "simulator/planning/calibration/gemm_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/cost/kernel/shape_kriging.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

constexpr std::string_view kRule = "unseen-nk";
constexpr std::array<std::string_view, 5> kColumns = {"gemm_dtype", "m", "n", "k", "latency_ms"};
// Types of the operands in the neutral schema.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
    {{"bfloat16", "bfloat16"},
     {"float16", "float16"},
     {"fp8", "float8_e4m3fn"},
     {"fp8_block", "float8_e4m3fn"}}};

struct Gemms {
  std::vector<BenchmarkRow> rows;
  std::set<std::pair<int64_t, int64_t>> matrices;
};

std::string_view TypeOf(std::string_view precision) {
  const auto found = std::ranges::find(kTypes, precision, &decltype(kTypes)::value_type::first);
  return found == kTypes.end() ? std::string_view() : found->second;
}

// Where the columns stand; empty: another table.
std::vector<size_t> ColumnsOf(std::string_view header) {
  const std::vector<std::string> names = SplitCsvLine(header);
  std::vector<size_t> at;
  for (const std::string_view column : kColumns) {
    const auto found = std::ranges::find(names, column);
    if (found == names.end()) return {};
    at.push_back(static_cast<size_t>(found - names.begin()));
  }
  return at;
}

absl::StatusOr<BenchmarkRow> RowOf(const std::vector<std::string>& fields,
                                   std::span<const size_t> at) {
  std::array<int64_t, 3> sizes = {};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string& text = fields[at[i + 1]];
    if (!absl::SimpleAtoi(text, &sizes[i]) || sizes[i] < 1) {
      return InvalidInput("{} '{}' is no positive number", kColumns[i + 1], text);
    }
  }
  double ms = 0;
  if (!absl::SimpleAtod(fields[at[4]], &ms) || !(ms > 0) || !std::isfinite(ms)) {
    return InvalidInput("{} '{}' is no positive number", kColumns[4], fields[at[4]]);
  }
  BenchmarkRow row;
  row.phase = Phase::kForward;
  row.op = "linear";
  row.dtype = TypeOf(fields[at[0]]);
  FORETRACE_ASSIGN_OR_RETURN(
      row.shape,
      ShapeKeys::Parse(fmt::format("m={};n={};k={};bias=0", sizes[0], sizes[1], sizes[2])));
  row.time_us = 1e3 * ms;
  row.source = "aiconfigurator";
  return row;
}

// By precision; empty where the table is another or has a type that no model is of.
absl::StatusOr<std::map<std::string, Gemms>> ReadGemms(const std::string& device,
                                                       const std::string& file,
                                                       std::string_view text) {
  std::map<std::string, Gemms> gemms;
  std::vector<size_t> at;
  size_t number = 0;
  for (const std::string_view line : SplitLines(text)) {
    ++number;
    if (line.starts_with('#')) continue;  // provenance
    if (at.empty()) {
      at = ColumnsOf(line);
      if (at.empty()) return gemms;
      continue;
    }
    const std::vector<std::string> fields = SplitCsvLine(line);
    if (line.empty() || fields.size() <= std::ranges::max(at)) continue;
    if (TypeOf(fields[at[0]]).empty()) return std::map<std::string, Gemms>();
    auto row = RowOf(fields, at);
    if (!row.ok())
      return InvalidInput("{}:{}: {}", file, number, std::string(row.status().message()));
    row->platform = device;
    Gemms& same = gemms[fields[at[0]]];
    same.matrices.emplace(*row->shape.Int("n"), *row->shape.Int("k"));
    same.rows.push_back(*std::move(row));
  }
  return gemms;
}

// Shapes of fewer matrices are not interpolated over.
bool HasModels(const std::map<std::string, Gemms>& gemms) {
  return std::ranges::all_of(gemms, [](const auto& entry) {
    return entry.second.matrices.size() >= 2 * ShapeKriging::kMinPoints;
  });
}

// Of the rows of a split the part that is tested, in percent, from the rest.
absl::Status AddErrors(const RowSplit& split, const FitOptions& options,
                       std::vector<double>& percent) {
  FORETRACE_ASSIGN_OR_RETURN(const auto fitted, KernelFitter().Fit(split.train, options));
  for (const EvaluatedRow& row : fitted->Evaluate(split.test)) {
    percent.push_back(100 * std::abs(row.predicted_us / row.row->time_us - 1));
  }
  return absl::OkStatus();
}

// Weight matrices whole; the first of five parts is what kRule holds out.
RowSplit FoldOf(std::span<const BenchmarkRow> rows, int32_t fold, int32_t folds, uint64_t seed) {
  RowSplit split;
  for (const BenchmarkRow& row : rows) {
    const uint64_t part =
        PartOfMatrix(*row.shape.Int("n"), *row.shape.Int("k"), static_cast<uint64_t>(folds), seed);
    (part == static_cast<uint64_t>(fold) ? split.test : split.train).push_back(row);
  }
  return split;
}

serve::OperatorErrors Errors(const std::string& precision, size_t rows,
                             const std::vector<double>& percent) {
  return {precision, rows, percent.size(), Quantile(percent, 0.5), Quantile(percent, 0.9)};
}

}  // namespace

std::string DeviceOfTable(const std::string& file) {
  std::string stem = std::filesystem::path(file).filename().string();
  stem = stem.substr(0, stem.find('.'));
  const std::string label = stem.substr(stem.rfind('-') + 1);
  const auto catalog = AcceleratorCatalog::Load();
  return catalog.ok() && !label.empty() && catalog->FindLabel(label) != nullptr ? label : "";
}

absl::StatusOr<std::vector<serve::OperatorErrors>> HoldOutGemms(const std::string& device,
                                                                const std::string& file,
                                                                std::string_view text,
                                                                int32_t folds,
                                                                const ProgressSink& progress) {
  std::vector<serve::OperatorErrors> errors;
  FORETRACE_ASSIGN_OR_RETURN(const auto gemms, ReadGemms(device, file, text));
  if (!HasModels(gemms)) return errors;
  FitOptions options;
  options.progress = progress;
  for (const auto& [precision, same] : gemms) {
    std::vector<double> percent;
    for (int32_t fold = 0; fold < folds; ++fold) {
      FORETRACE_RETURN_IF_ERROR(
          AddErrors(FoldOf(same.rows, fold, folds, options.seed), options, percent));
    }
    if (folds == 0) {
      FORETRACE_ASSIGN_OR_RETURN(const RowSplit split,
                                 KernelFitter().Split(same.rows, kRule, options.seed));
      FORETRACE_RETURN_IF_ERROR(AddErrors(split, options, percent));
    }
    if (percent.empty()) return InvalidInput("{}: no row of {} is held out", file, precision);
    errors.push_back(Errors(precision, same.rows.size(), percent));
  }
  return errors;
}

absl::StatusOr<std::vector<serve::OperatorErrors>> TestGemms(
    const std::string& device, const std::string& file, std::string_view text,
    const std::string& test_file, std::string_view test_text, const ProgressSink& progress) {
  std::vector<serve::OperatorErrors> errors;
  FORETRACE_ASSIGN_OR_RETURN(auto known, ReadGemms(device, file, text));
  const std::string named = DeviceOfTable(test_file);
  FORETRACE_ASSIGN_OR_RETURN(auto asked,
                             ReadGemms(named.empty() ? device : named, test_file, test_text));
  const bool all =
      std::ranges::all_of(asked, [&](const auto& entry) { return known.contains(entry.first); });
  if (!all || !HasModels(known)) return errors;
  FitOptions options;
  options.progress = progress;
  for (auto& [precision, rows] : asked) {
    std::vector<double> percent;
    const size_t count = rows.rows.size();
    FORETRACE_RETURN_IF_ERROR(
        AddErrors({std::move(known[precision].rows), std::move(rows.rows)}, options, percent));
    errors.push_back(Errors(precision, count, percent));
  }
  return errors;
}

}  // namespace foretrace
