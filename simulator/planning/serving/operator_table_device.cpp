#include "simulator/planning/serving/operator_table_device.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/graph/operator_graph.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace {
namespace {

// Boards of one name boost apart, and timers have their own resolution.
constexpr double kAbovePeak = 1.1;
constexpr double kLeastFlop = 1e10;

absl::Status OfAnother(const std::string& place, const std::string& found,
                       const Accelerator& device) {
  return InvalidInput(
      "{}: was measured on {}, the platform has {}: take a table of that device or another "
      "--platform",
      place, found, device.name);
}

// "gemm-h100.csv.xz": gemm, h100, csv, xz.
std::vector<std::string> WordsOf(const std::string& file) {
  std::vector<std::string> words(1);
  for (const char c : std::filesystem::path(file).filename().string()) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return words;
}

bool IsAlike(const Accelerator& a, const Accelerator& b) {
  return Compare(a, b) != DeviceMatch::kOther || (!a.chip.empty() && a.chip == b.chip);
}

absl::Status CheckName(const std::string& file, const AcceleratorCatalog& catalog,
                       const Accelerator& device) {
  for (const std::string& word : WordsOf(file)) {
    const bool is_model = word.size() > 1 && std::any_of(word.begin(), word.end(), [](char c) {
                            return std::isdigit(static_cast<unsigned char>(c)) != 0;
                          });
    if (!is_model) continue;
    bool named = false, alike = false;
    for (const Accelerator& a : catalog.all()) {
      if (a.name != word && !a.name.starts_with(word + "-")) continue;
      named = true;
      alike = alike || IsAlike(a, device);
    }
    if (named && !alike) return OfAnother(file + " (by its name)", word, device);
  }
  return absl::OkStatus();
}

absl::Status CheckColumn(const std::string& file, const std::string& text,
                         const AcceleratorCatalog& catalog, const Accelerator& device) {
  FORETRACE_ASSIGN_OR_RETURN(serve::CsvColumns table, serve::CsvColumns::Parse(file, text, {}));
  const int32_t column = table.Also("device");
  if (column < 0) return absl::OkStatus();
  while (table.Next()) {
    const std::string& name = table.row().Text(static_cast<size_t>(column));
    const Accelerator* stated = catalog.Find(name);
    if (stated != nullptr && !IsAlike(*stated, device)) {
      return OfAnother(fmt::format("{}:{}", file, table.line()), name, device);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRates(const std::string& file, const std::string& text,
                        const Accelerator& device) {
  if (serve::HeaderLine(text).find("gemm_dtype") == std::string_view::npos) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(
      serve::CsvColumns table,
      serve::CsvColumns::Parse(file, text, {"gemm_dtype", "m", "n", "k", "latency_ms"}));
  const double half = std::max(device.peak(RateKind::kBf16).per_second(),
                               device.peak(RateKind::kFp16).per_second());
  const double eighth = std::max(
      {device.peak(RateKind::kFp8).per_second(), device.peak(RateKind::kInt8).per_second(), half});
  while (table.Next()) {
    const serve::CsvRow& row = table.row();
    const bool whole = ElementSize(ParseDType(row.Text(0))) == 2;
    const double peak = whole ? half : eighth;
    const auto size = [&row](size_t column) {
      return static_cast<int64_t>(row.Number(column, 1, 1e9));
    };
    const double flop = GemmFlopOf(OperatorCall{LinearOp{size(1), size(2), size(3)}}).count();
    const double seconds = row.Number(4, 1e-9, 1e9) * 1e-3;
    if (peak <= 0 || seconds <= 0 || flop < kLeastFlop) continue;
    if (flop / seconds <= kAbovePeak * peak) continue;
    return InvalidInput(
        "{}:{}: is a GEMM at {:.0f} TFLOP/s, {} has {:.0f} at most: the table is of another "
        "device",
        file, table.line(), flop / seconds * 1e-12, device.name, peak * 1e-12);
  }
  return table.status();
}

}  // namespace

absl::Status CheckTableDevice(const std::string& file, const std::string& text,
                              const AcceleratorCatalog& catalog, const Accelerator& device) {
  FORETRACE_RETURN_IF_ERROR(CheckName(file, catalog, device));
  FORETRACE_RETURN_IF_ERROR(CheckColumn(file, text, catalog, device));
  return CheckRates(file, text, device);
}

}  // namespace foretrace
