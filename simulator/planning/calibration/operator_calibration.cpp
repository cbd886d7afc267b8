#include "simulator/planning/calibration/operator_calibration.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/output.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/planning/calibration/gemm_table.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/serve/operator_rows.h"
#include "simulator/serve/operator_table.h"

namespace foretrace {
namespace {

// The device that a table's name has: "gemm-h100", "aiconfigurator-h200-sxm5-nvswitch-moe".
std::optional<GpuPeaks> DeviceNamed(const std::string& file) {
  std::string stem = std::filesystem::path(file).filename().string();
  while (true) {
    const auto device = FindGpuPeaksOfLabel(stem.substr(0, stem.find('.')));
    if (device.ok()) return *device;
    const size_t dash = stem.find('-');
    if (dash == stem.npos) return std::nullopt;
    stem = stem.substr(dash + 1);
  }
}

// Between devices that both tables name; else they are one.
serve::OperatorScale ScaleBetween(const std::string& table, const std::string& test) {
  const auto from = DeviceNamed(table), to = DeviceNamed(test);
  if (!from || !to) return {};
  return {to->dram_gbps / from->dram_gbps,
          to->peak_tflops(Precision::kHalf) / from->peak_tflops(Precision::kHalf)};
}

// GEMMs where their device is known, as `calibrate kernel` does; `device` is then its label.
// Other operators along lines.
absl::StatusOr<std::vector<serve::OperatorErrors>> ErrorsOf(const OperatorCalibration& options,
                                                            std::string_view text,
                                                            const CommandContext& context,
                                                            std::string& device) {
  const std::string& asked = options.platform;
  std::string test;
  if (!options.test.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(test, ReadTableText(options.test));
  }
  device = asked.empty() ? DeviceOfTable(options.table) : asked;
  if (!device.empty()) {
    const ProgressSink progress = [&context](std::string_view what, int64_t done, int64_t total) {
      context.console->Progress(what, done, total);
    };
    FORETRACE_ASSIGN_OR_RETURN(
        auto gemms, options.test.empty()
                        ? HoldOutGemms(device, options.table, text, options.folds, progress)
                        : TestGemms(device, options.table, text, options.test, test, progress));
    if (!gemms.empty()) return gemms;
  }
  for (const auto& [name, given] :
       {std::pair("--platform", !asked.empty()), std::pair("--folds", options.folds > 0)}) {
    if (!given) continue;
    return InvalidInput(
        "{} goes with tables of GEMMs on a known device that are large enough for a model of "
        "kernels, {} is none",
        name, options.table);
  }
  device.clear();
  if (!options.test.empty()) {
    return serve::TestOperators(options.table, text, options.test, test,
                                ScaleBetween(options.table, options.test));
  }
  return serve::HoldOutOperators(options.table, text);
}

}  // namespace

std::optional<std::string> OperatorTableText(const std::string& path) {
  auto text = ReadTableText(path);
  if (!text.ok() || !serve::IsOperatorTable(*text)) return std::nullopt;
  return *std::move(text);
}

absl::Status RunOperatorCalibration(const OperatorCalibration& options, std::string_view text,
                                    const CommandContext& context) {
  std::string device;
  FORETRACE_ASSIGN_OR_RETURN(const auto errors, ErrorsOf(options, text, context, device));
  const std::string& of = options.test.empty() ? options.table : options.test;
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("calibrate serving", [&] { return OperatorJson(of, errors); }));
  if (options.json) {
    return context.console->PrintJson("calibrate serving", OperatorJson(of, errors));
  }
  std::string answer = OperatorText(of, errors);
  if (!device.empty()) {
    const std::string held_out =
        !options.test.empty() ? "fitted to " + options.table
        : options.folds > 0
            ? fmt::format("each weight matrix (n, k) held out once, in {} parts", options.folds)
            : "a fifth of the weight matrices (n, k) held out (calibrate kernel --hold-out "
              "unseen-nk)";
    answer += fmt::format("by the model of kernels on {}, {}\n", device, held_out);
  }
  for (const std::string& note : serve::OperatorNotes(errors)) answer += "Note: " + note + "\n";
  return context.console->Print(answer);
}

}  // namespace foretrace
