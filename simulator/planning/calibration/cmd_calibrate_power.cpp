// calibrate power: power of a device by what its kernels do, from measured powers of GEMMs.

#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/power/power_fit.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/files/table_text.h"
#include "simulator/planning/serving/serving_costs.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/weighted_gemm.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

struct PowerCalibrationOptions {
  std::string table, test, platform, output, date;
  std::vector<std::string> provenance;
  bool json = false;
};

struct MeasuredPowers {
  std::vector<PowerRow> rows;
  double limit_w = 0;
  std::vector<std::string> notes;
};

Bytes LastCache(const Accelerator& device) {
  Bytes last;
  for (const MemoryLevel& level : device.memory) {
    if (level.kind == MemoryKind::kCache) last = std::max(last, level.capacity);
  }
  return last;
}

// y[m,n] = x[m,k] w[n,k], as the table's header of aiconfigurator says it.
KernelWork GemmOf(int64_t m, int64_t n, int64_t k) {
  return Kernels({LinearOp{m, n, k}, DType::kBFloat16, Direction::kForward}).front();
}

// The table states powers alone: how long each GEMM takes is this program's model of the device.
absl::StatusOr<MeasuredPowers> ReadPowers(const std::string& file, const PlatformSpec& platform) {
  MeasuredPowers measured;
  FORETRACE_ASSIGN_OR_RETURN(const auto costs,
                             MakeDeviceCosts(platform, "auto", false, measured.notes));
  FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTableText(file));
  FORETRACE_ASSIGN_OR_RETURN(
      serve::CsvColumns table,
      serve::CsvColumns::Parse(file, std::move(text),
                               {"gemm_dtype", "n", "k", "m", "power_W", "power_limit_W"}));
  const Bytes cache = LastCache(platform.node.accelerator);
  constexpr int32_t kMostSize = 1 << 24;
  while (table.Next()) {
    const serve::CsvRow& in = table.row();
    const int64_t n = in.Integer(1, 1, kMostSize), k = in.Integer(2, 1, kMostSize);
    const int64_t m = in.Integer(3, 1, kMostSize);
    PowerRow row;
    row.narrow = in.Text(0).starts_with("fp8");
    if (!row.narrow && in.Text(0) != "bfloat16" && in.Text(0) != "float16") {
      table.Fail("gemm_dtype is none of bfloat16, float16, fp8 and fp8_block");
      break;
    }
    row.watts = in.Number(4, 1, 1e5);
    measured.limit_w = std::max(measured.limit_w, in.Number(5, 1, 1e5));
    const KernelWork work = GemmOf(m, n, k);
    const WeightFormat format = row.narrow ? WeightFormat::kFp8Block : WeightFormat::kModel;
    row.time = serve::WeightedGemm(*costs, work, format).time;
    const int64_t operands = work.read.count() / (row.narrow ? 2 : 1);
    row.activity = ActivityOf(work.flop, Bytes(operands + work.written.count()), row.time, cache);
    row.group = n << 32 | k;
    row.series = m;
    measured.rows.push_back(row);
  }
  FORETRACE_RETURN_IF_ERROR(table.status());
  return measured;
}

struct PowerAnswer {
  PowerFit fit;
  PowerErrors errors;
  bool tested = false;  // on other rows than those of the table
  std::vector<std::string> notes;
  std::string written;
};

double MedianOf(std::vector<double> errors, double q) {
  for (double& e : errors) e = 100 * std::abs(e);
  return Quantile(std::move(errors), q);
}
std::vector<double> All(const PowerErrors& errors) {
  std::vector<double> all = errors.continuous;
  all.insert(all.end(), errors.with_gaps.begin(), errors.with_gaps.end());
  return all;
}

std::string Text(const PowerAnswer& a) {
  const auto rates = [](const char* name, const PowerRates& r, SimTime gap, size_t series) {
    return fmt::format(
        "{:<8} {:>6.1f} W busy, {:.3f} pJ a FLOP, {:.1f} pJ a byte of memory, {:.1f} of the cache; "
        "{:.0f} us between kernels of {} series\n",
        name, r.busy_w, r.pj_per_flop, r.pj_per_memory_byte, r.pj_per_cache_byte, gap.us(), series);
  };
  const std::vector<double> all = All(a.errors);
  std::string text = fmt::format(
      "Verdict: median error {:.2f} %, P90 {:.1f} %, on {} {} rows\n"
      "idle {:.1f} W, limit {:.0f} W\n",
      MedianOf(all, 0.5), MedianOf(all, 0.9), all.size(), a.tested ? "test" : "held-out",
      a.fit.model.idle_w, a.fit.model.limit_w);
  text += rates("16 bits", a.fit.model.wide, a.fit.gap_wide, a.fit.gaps_wide.size());
  text += rates("8 bits", a.fit.model.narrow, a.fit.gap_narrow, a.fit.gaps_narrow.size());
  text +=
      fmt::format("\n{:<40} {:>7} {:>9} {:>7}\n",
                  a.tested ? "test rows, %" : "held out by n and k, %", "rows", "median", "P90");
  const auto errors = [&](const char* name, const std::vector<double>& e) {
    text += fmt::format("{:<40} {:>7} {:>9.2f} {:>7.1f}\n", name, e.size(), MedianOf(e, 0.5),
                        MedianOf(e, 0.9));
  };
  errors("kernels that follow each other", a.errors.continuous);
  errors("kernels with gaps", a.errors.with_gaps);
  errors("operands of 16 bits", a.errors.wide);
  if (!a.errors.narrow.empty()) errors("operands of 8 bits", a.errors.narrow);
  errors("all", all);
  for (const std::string& note : a.notes) text += "Note: " + note + "\n";
  if (!a.written.empty()) text += "wrote " + a.written + "\n";
  return text;
}

std::string Json(const PowerAnswer& a) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("idle_w", a.fit.model.idle_w);
  out.Field("limit_w", a.fit.model.limit_w);
  const auto rates = [&](const char* name, const PowerRates& r, SimTime gap) {
    out.Key(name);
    out.StartObject();
    out.Field("busy_w", r.busy_w);
    out.Field("pj_per_flop", r.pj_per_flop);
    out.Field("pj_per_memory_byte", r.pj_per_memory_byte);
    out.Field("pj_per_cache_byte", r.pj_per_cache_byte);
    out.Field("gap_us", gap.us());
    out.EndObject();
  };
  rates("wide", a.fit.model.wide, a.fit.gap_wide);
  rates("narrow", a.fit.model.narrow, a.fit.gap_narrow);
  const auto errors = [&](const char* name, const std::vector<double>& e) {
    out.Key(name);
    out.StartObject();
    out.Field("rows", static_cast<uint64_t>(e.size()));
    out.Field("median_percent", MedianOf(e, 0.5));
    out.Field("p90_percent", MedianOf(e, 0.9));
    out.EndObject();
  };
  errors("held_out", All(a.errors));
  errors("held_out_continuous", a.errors.continuous);
  errors("held_out_with_gaps", a.errors.with_gaps);
  out.Key("models");
  out.StartArray();
  for (const auto& [name, e] :
       {std::pair("16 bits", a.errors.wide), std::pair("8 bits", a.errors.narrow),
        std::pair("all", All(a.errors))}) {
    if (e.empty()) continue;
    out.StartObject();
    out.Field("name", name);
    out.Field("count", static_cast<uint64_t>(e.size()));
    out.Field("median_percent", MedianOf(e, 0.5));
    out.Field("p90_percent", MedianOf(e, 0.9));
    out.EndObject();
  }
  out.EndArray();
  out.Field("notes", a.notes);
  out.EndObject();
  return buffer.GetString();
}

// power.yaml of `options.output`.
absl::StatusOr<std::string> Write(const PowerCalibrationOptions& options, const PowerAnswer& a) {
  namespace fs = std::filesystem;
  CalibrationHeader header;
  header.kind = "power";
  header.platform = fs::path(options.output).lexically_normal().filename().string();
  header.date = options.date.empty() ? "undated" : options.date;
  header.command = fmt::format("foretrace calibrate power {} --platform {}",
                               fs::path(options.table).filename().string(), options.platform);
  header.note =
      "times of the GEMMs are this program's for the platform; power above idle is that of the "
      "work, whoever does it";
  auto& source = header.sources.emplace_back();
  source["table"] = fs::path(options.table).filename().string();
  for (const std::string& pair : options.provenance) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (entry.first.empty() || entry.second.empty()) {
      return InvalidInput("--provenance '{}': is no KEY=VALUE", pair);
    }
    source[entry.first] = entry.second;
  }
  header.held_out = SummarizeErrors(All(a.errors));
  header.held_out_rule = a.tested ? "test table" : "a fifth of (n, k) each time";
  const std::string path = (fs::path(options.output) / "power.yaml").string();
  std::error_code error;
  fs::create_directories(options.output, error);
  FORETRACE_RETURN_IF_ERROR(WriteFile(path, HeaderYaml(header) + PowerModelYaml(a.fit.model)));
  return path;
}

absl::Status Run(const PowerCalibrationOptions& options, const CommandContext& context) {
  if (options.output.empty() && !(options.date.empty() && options.provenance.empty())) {
    return InvalidInput("--date and --provenance go with --output");
  }
  FORETRACE_ASSIGN_OR_RETURN(const PlatformSpec platform, FindPlatform(options.platform, 1));
  FORETRACE_ASSIGN_OR_RETURN(MeasuredPowers measured, ReadPowers(options.table, platform));
  const Accelerator& device = platform.node.accelerator;
  if (device.physical.power_w > 0 && measured.limit_w > device.physical.power_w) {
    return InvalidInput(
        "{}: a power_limit_W of {:g}, but --platform {} has {}, rated at {:g} W; name a platform "
        "of "
        "the device that was measured",
        options.table, measured.limit_w, options.platform, device.name, device.physical.power_w);
  }
  PowerAnswer answer;
  FORETRACE_ASSIGN_OR_RETURN(answer.fit, FitPower(measured.rows, measured.limit_w));
  answer.fit.model.device = platform.node.accelerator.name;
  if (options.test.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(answer.errors, HoldOutPower(measured.rows, measured.limit_w));
  } else {
    FORETRACE_ASSIGN_OR_RETURN(const MeasuredPowers test, ReadPowers(options.test, platform));
    for (const PowerRow& row : test.rows) answer.errors.Add(answer.fit, row);
    answer.tested = true;
  }
  answer.notes = std::move(measured.notes);
  if (!options.output.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(answer.written, Write(options, answer));
  }
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("calibrate power", [&] { return Json(answer); }));
  if (options.json) return context.console->PrintJson("calibrate power", Json(answer));
  return context.console->Print(Text(answer));
}

}  // namespace

void AddPowerCalibration(CLI::App& calibrate, CommandContext& context) {
  auto options = std::make_shared<PowerCalibrationOptions>();
  CLI::App* command = calibrate.add_subcommand(
      "power",
      "energy of a FLOP and of a byte from measured powers of GEMMs, each shape predicted from "
      "others");
  command
      ->add_option("table", options->table,
                   "columns gemm_dtype, n, k, m, power_W, power_limit_W (aiconfigurator's)")
      ->type_name("TABLE.csv")
      ->required();
  command
      ->add_option("--test", options->test,
                   "predict the powers of this table, in the same columns, instead of TABLE's own")
      ->type_name("TABLE.csv");
  command->add_option("--platform", options->platform, "whose device was measured")->required();
  command->add_option("-o,--output", options->output, "write DIR/power.yaml")
      ->group(kOutputGroup)
      ->type_name("DIR");
  command->add_option("--date", options->date, "date to write into the file")
      ->type_name("YYYY-MM-DD");
  command
      ->add_option("--provenance", options->provenance, "what to write into the file of the table")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "one JSON document instead of a table");
  command->footer(Examples({
      "foretrace calibrate power h200_gemm_power.csv --platform dgx-h200 -o calibration/h200-lab",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return Run(*options, context); };
  });
}

}  // namespace foretrace
