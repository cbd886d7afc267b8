#include "simulator/planning/calibration/gemm_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/input.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/kernel/gpu_peaks.h"
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
    row->line = static_cast<int64_t>(number);
    Gemms& same = gemms[fields[at[0]]];
    same.matrices.emplace(*row->shape.Int("n"), *row->shape.Int("k"));
    same.rows.push_back(*std::move(row));
  }
  return gemms;
}

// Fewer rows, or matrices of which to hold some out, make no model.
constexpr size_t kFewestRows = 5, kFewestMatrices = 16;

bool HasRows(const std::map<std::string, Gemms>& gemms, size_t matrices) {
  return std::ranges::all_of(gemms, [&](const auto& entry) {
    return entry.second.rows.size() >= kFewestRows && entry.second.matrices.size() >= matrices;
  });
}

using Shape = std::array<int64_t, 3>;

Shape ShapeOf(const BenchmarkRow& row) {
  return {*row.shape.Int("m"), *row.shape.Int("n"), *row.shape.Int("k")};
}

// What was measured of shapes that are asked for: exact on its own device, and on another board of
// the chip as many times as long as the model says.
class MeasuredGemms {
 public:
  explicit MeasuredGemms(std::span<const BenchmarkRow> rows) {
    for (const BenchmarkRow& row : rows) times_[ShapeOf(row)].push_back(row.time_us);
    if (!rows.empty()) platform_ = rows.front().platform;
  }
  // `us`: what the models say of the row.
  double Us(const FittedModels& models, const BenchmarkRow& row, double us) const {
    const auto at = times_.find(ShapeOf(row));
    if (at == times_.end()) return us;
    BenchmarkRow here = row;
    here.platform = platform_;
    const std::vector<EvaluatedRow> own = models.Evaluate({&here, 1});
    return own.empty() ? us : Quantile(at->second, 0.5) * us / own.front().predicted_us;
  }

 private:
  std::map<Shape, std::vector<double>> times_;
  std::string platform_;
};

bool OfOneChip(std::span<const BenchmarkRow> a, std::span<const BenchmarkRow> b) {
  if (a.empty() || b.empty()) return false;
  const auto first = FindGpuPeaksOfLabel(a.front().platform);
  const auto second = FindGpuPeaksOfLabel(b.front().platform);
  return first.ok() && second.ok() &&
         Compare(first->accelerator, second->accelerator) != DeviceMatch::kOther;
}

// The files that rows are from.
struct RowFiles {
  std::string table, few;
};

// An error of rows as one of their file, whose times are in milliseconds.
absl::Status InTable(const std::string& file, const absl::Status& status) {
  std::string message(status.message());
  if (const size_t at = message.find(": are the times in "); at != message.npos) {
    message = message.substr(0, at) +
              ": are the times in milliseconds, as latency_ms takes them, or of another device?";
  }
  return InFile(file, absl::Status(status.code(), message));
}

// Of the rows of a split the part that is tested, relative to what was measured, from the rest.
// `few`: of the tested device, which correct the fit; may be empty.
absl::Status AddErrors(const RowFiles& files, const RowSplit& split, const FitOptions& options,
                       std::vector<double>& relative, std::span<const BenchmarkRow> few = {}) {
  auto fitted = KernelFitter().Fit(split.train, options);
  if (!fitted.ok()) return InTable(files.table, fitted.status());
  if (!few.empty()) {
    fitted = KernelFitter().Adapt(**fitted, few);
    if (!fitted.ok()) return InTable(files.few, fitted.status());
  }
  const bool measured = few.empty() && OfOneChip(split.train, split.test);
  const MeasuredGemms known(measured ? std::span<const BenchmarkRow>(split.train)
                                     : std::span<const BenchmarkRow>());
  for (const EvaluatedRow& row : (*fitted)->Evaluate(split.test)) {
    relative.push_back(known.Us(**fitted, *row.row, row.predicted_us) / row.row->time_us - 1);
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

}  // namespace

std::string StatedDevice(std::string_view text) {
  const auto catalog = AcceleratorCatalog::Load();
  if (!catalog.ok()) return "";
  constexpr std::string_view kStated = "# device:";
  for (const std::string_view line : SplitLines(text)) {
    if (!line.starts_with('#')) break;
    if (!line.starts_with(kStated)) continue;
    std::string stated(line.substr(kStated.size()));
    absl::StripAsciiWhitespace(&stated);
    if (catalog->FindLabel(stated) != nullptr) return stated;
  }
  return "";
}

std::string DeviceOfTable(const std::string& file, std::string_view text) {
  if (std::string stated = StatedDevice(text); !stated.empty()) return stated;
  const auto catalog = AcceleratorCatalog::Load();
  if (!catalog.ok()) return "";
  std::string label = std::filesystem::path(file).filename().string();
  label = label.substr(0, label.find('.'));
  std::ranges::replace(label, '_', '-');
  while (catalog->FindLabel(label) == nullptr) {
    const size_t dash = label.find('-');
    if (dash == label.npos) return "";
    label = label.substr(dash + 1);
  }
  return label;
}

absl::StatusOr<std::vector<serve::OperatorErrors>> HoldOutGemms(const std::string& device,
                                                                const std::string& file,
                                                                std::string_view text,
                                                                int32_t folds,
                                                                const ProgressSink& progress) {
  std::vector<serve::OperatorErrors> errors;
  FORETRACE_ASSIGN_OR_RETURN(const auto gemms, ReadGemms(device, file, text));
  if (!HasRows(gemms, kFewestMatrices)) return errors;
  FitOptions options;
  options.progress = progress;
  for (const auto& [precision, same] : gemms) {
    std::vector<double> relative;
    for (int32_t fold = 0; fold < folds; ++fold) {
      FORETRACE_RETURN_IF_ERROR(
          AddErrors({file, ""}, FoldOf(same.rows, fold, folds, options.seed), options, relative));
    }
    size_t fitted = 0;
    if (folds == 0) {
      FORETRACE_ASSIGN_OR_RETURN(const RowSplit split,
                                 KernelFitter().Split(same.rows, kRule, options.seed));
      FORETRACE_RETURN_IF_ERROR(AddErrors({file, ""}, split, options, relative));
      fitted = split.train.size();
    }
    if (relative.empty()) return std::vector<serve::OperatorErrors>();
    errors.push_back(serve::SummarizeOperator(precision, same.rows.size(), std::move(relative)));
    errors.back().fitted = fitted;
    errors.back().by_kernels = true;
  }
  return errors;
}

absl::StatusOr<std::vector<serve::OperatorErrors>> TestGemms(
    const std::string& device, const std::string& file, std::string_view text,
    const std::string& test_device, const std::string& test_file, std::string_view test_text,
    const serve::OperatorFile& few, const ProgressSink& progress) {
  std::vector<serve::OperatorErrors> errors;
  FORETRACE_ASSIGN_OR_RETURN(auto known, ReadGemms(device, file, text));
  const std::string& there = test_device.empty() ? device : test_device;
  FORETRACE_ASSIGN_OR_RETURN(auto asked, ReadGemms(there, test_file, test_text));
  FORETRACE_ASSIGN_OR_RETURN(auto few_rows, ReadGemms(there, few.file, few.text));
  if (few_rows.empty() && !few.text.empty()) return errors;
  const bool all =
      std::ranges::all_of(asked, [&](const auto& entry) { return known.contains(entry.first); });
  if (!all || !HasRows(known, 1)) return errors;
  FitOptions options;
  options.progress = progress;
  for (auto& [precision, rows] : asked) {
    std::vector<double> relative;
    const size_t count = rows.rows.size();
    FORETRACE_RETURN_IF_ERROR(AddErrors({file, few.file},
                                        {std::move(known[precision].rows), std::move(rows.rows)},
                                        options, relative, few_rows[precision].rows));
    errors.push_back(serve::SummarizeOperator(precision, count, std::move(relative)));
    errors.back().by_kernels = true;
  }
  return errors;
}

}  // namespace foretrace
