// The result of a validation as tables and as JSON.

#include <algorithm>

#include "simulator/base/counted.h"
#include "simulator/base/error.h"
#include "simulator/planning/validation/validation.h"
#include "simulator/report/report_json.h"

namespace foretrace {
namespace {

std::string StepTable(const ValidationResult& result, const TextStyle& style) {
  using Align = TextTable::Align;
  const bool replayed = std::any_of(result.steps.begin(), result.steps.end(),
                                    [](const auto& s) { return s.replay_error.has_value(); });
  std::vector<TextTable::Column> columns = {{"case", Align::kLeft, true},
                                            {"step"},
                                            {"rank"},
                                            {"measured us"},
                                            {"predicted us"},
                                            {"error %"}};
  const auto any = [&](std::optional<double> StepError::*error) {
    return std::any_of(result.steps.begin(), result.steps.end(),
                       [&](const auto& s) { return (s.error.*error).has_value(); });
  };
  const bool completed = any(&StepError::completion_error);
  const bool periods = any(&StepError::period_error);
  if (replayed) columns.push_back({"replay %"});
  if (completed) columns.push_back({"done %"});
  if (periods) columns.push_back({"period %"});
  for (const char* heading : {"blocked %", "start err us", "p90"}) columns.push_back({heading});
  columns.push_back({"", Align::kLeft});
  TextTable table(columns);
  for (const ValidatedStep& s : result.steps) {
    std::vector<std::string> row = {s.case_name,
                                    fmt::format("{}", s.error.step),
                                    fmt::format("{}", s.rank),
                                    fmt::format("{:.1f}", s.error.measured.us()),
                                    fmt::format("{:.1f}", s.error.predicted.us()),
                                    fmt::format("{:+.2f}", 100 * s.error.error)};
    if (replayed) {
      row.push_back(s.replay_error ? fmt::format("{:+.2f}", 100 * *s.replay_error) : "-");
    }
    const auto percent = [](const std::optional<double>& error) {
      return error.has_value() ? fmt::format("{:+.2f}", 100 * *error) : std::string("-");
    };
    if (completed) row.push_back(percent(s.error.completion_error));
    if (periods) row.push_back(percent(s.error.period_error));
    row.push_back(fmt::format("{:.1f}", 100 * s.error.blocked_share));
    row.push_back(fmt::format("{:.1f}", s.error.kernel_start_median.us()));
    row.push_back(fmt::format("{:.1f}", s.error.kernel_start_p90.us()));
    row.push_back(s.judged          ? ""
                  : s.error.partial ? "partial"
                  : s.error.idle    ? "nothing runs"
                                    : "not judged");
    table.AddRow(std::move(row));
  }
  return table.Format(style);
}

std::string AblationTable(const ValidationResult& result, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"case", Align::kLeft, true},
                   {"variant", Align::kLeft},
                   {"steps"},
                   {"mean error %"},
                   {"max %"}});
  for (const AblationRow& row : result.ablation) {
    table.AddRow({row.case_name, row.variant, fmt::format("{}", row.steps),
                  fmt::format("{:.2f}", row.mape_percent), fmt::format("{:.2f}", row.max_percent)});
  }
  return table.Format(style);
}

std::string DurationTable(const ValidationResult& result, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"case", Align::kLeft, true},
                   {"operator", Align::kLeft},
                   {"calls"},
                   {"time %"},
                   {"by time %"},
                   {"GMAE %"},
                   {"MAPE %"},
                   {"bias %"},
                   {"beyond %"},
                   {"alone"},
                   {"GMAE %"},
                   {"bias %"}});
  for (const DurationErrorRow& row : result.durations) {
    const auto count = static_cast<double>(std::max<size_t>(row.errors.count, 1));
    table.AddRow(
        {row.case_name, row.operator_class, fmt::format("{}", row.errors.count),
         fmt::format("{:.1f}", 100 * row.share), fmt::format("{:.1f}", row.time_gmae_percent),
         fmt::format("{:.1f}", row.errors.gmae_percent),
         fmt::format("{:.1f}", row.errors.mape_percent), fmt::format("{:+.1f}", row.bias_percent),
         fmt::format("{:.0f}", 100 * static_cast<double>(row.extrapolated) / count),
         fmt::format("{}", row.alone.count),
         row.alone.count > 0 ? fmt::format("{:.1f}", row.alone.gmae_percent) : "-",
         row.alone.count > 0 ? fmt::format("{:+.1f}", row.alone_bias_percent) : "-"});
  }
  return "Durations of device work by operator, modelled against recorded (by time: GMAE, each "
         "call "
         "weighted by its recorded time; beyond: analytic, or outside a calibrated range; alone: "
         "calls that no kernel of another stream ran beside)\n" +
         table.Format(style);
}

void String(JsonWriter& json, std::string_view text) {
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void WriteStep(const ValidatedStep& s, JsonWriter& json) {
  json.StartObject();
  json.Key("name");
  String(json, s.case_name);
  json.Key("step");
  json.Int64(s.error.step);
  json.Key("rank");
  json.Int(s.rank);
  json.Key("measured_us");
  json.Double(s.error.measured.us());
  json.Key("predicted_us");
  json.Double(s.error.predicted.us());
  json.Key("error_percent");
  json.Double(100 * s.error.error);
  if (s.replay_error.has_value()) {
    json.Key("replay_error_percent");
    json.Double(100 * *s.replay_error);
  }
  for (const auto& [key, error] : {std::pair("completion_error_percent", s.error.completion_error),
                                   std::pair("period_error_percent", s.error.period_error)}) {
    json.Key(key);
    error.has_value() ? json.Double(100 * *error) : json.Null();
  }
  json.Key("blocked_share");
  json.Double(s.error.blocked_share);
  json.Key("partial");
  json.Bool(s.error.partial);
  json.Key("judged");
  json.Bool(s.judged);
  json.Key("kernel_start_error_us");
  json.StartObject();
  json.Key("median");
  json.Double(s.error.kernel_start_median.us());
  json.Key("p90");
  json.Double(s.error.kernel_start_p90.us());
  json.EndObject();
  json.EndObject();
}

void WriteDurations(const DurationErrorRow& row, JsonWriter& json) {
  json.StartObject();
  json.Key("name");
  String(json, row.case_name);
  json.Key("operator");
  String(json, row.operator_class);
  json.Key("count");
  json.Uint64(row.errors.count);
  json.Key("extrapolated_count");
  json.Int64(row.extrapolated);
  json.Key("alone_count");
  json.Uint64(row.alone.count);
  const std::pair<const char*, double> figures[] = {{"share", row.share},
                                                    {"time_gmae_percent", row.time_gmae_percent},
                                                    {"gmae_percent", row.errors.gmae_percent},
                                                    {"mape_percent", row.errors.mape_percent},
                                                    {"std_percent", row.errors.std_percent},
                                                    {"max_percent", row.errors.max_percent},
                                                    {"bias_percent", row.bias_percent},
                                                    {"alone_gmae_percent", row.alone.gmae_percent},
                                                    {"alone_mape_percent", row.alone.mape_percent},
                                                    {"alone_bias_percent", row.alone_bias_percent}};
  for (const auto& [key, value] : figures) {
    json.Key(key);
    json.Double(value);
  }
  json.EndObject();
}

}  // namespace

std::string ValidationText(const ValidationResult& result, const TextStyle& style) {
  const ErrorSummary& s = result.summary;
  std::string text;
  for (const std::string& doubt : result.doubts) text += "NOT RELIABLE: " + doubt + "\n";
  text += fmt::format(
      "Verdict: {} judged: mean absolute error {:.2f} %, geometric mean {:.2f} %{}, standard "
      "deviation {:.2f} %, max {:.2f} %\n",
      Counted(s.count, "step"), s.mape_percent, s.gmae_percent,
      s.gmae_percent > s.mape_percent ? " (of errors that count as 0.04 % at least)" : "",
      s.std_percent, s.max_percent);
  for (const auto& [what, errors] :
       {std::pair("until the device work of a step is done", &result.completion),
        std::pair("from one such completion to the next", &result.period)}) {
    if (errors->count == 0) continue;
    text += fmt::format("{} {}: mean absolute error {:.2f} %, max {:.2f} %\n",
                        Counted(errors->count, "step"), what, errors->mape_percent,
                        errors->max_percent);
  }
  text +=
      fmt::format("device work starts within {:.1f} us of the recording (median; p90 {:.1f} us)\n",
                  result.kernel_start_median.us(), result.kernel_start_p90.us());
  text += "A step error says little where the blocked share is near zero: the CPU is replayed.\n\n";
  text += StepTable(result, style);
  if (!result.durations.empty()) text += "\n" + DurationTable(result, style);
  if (!result.ablation.empty()) text += "\n" + AblationTable(result, style);
  if (!result.notes.empty() || !result.skipped.empty()) text += "\n";
  for (const std::string& note : result.notes) text += "Note: " + note + "\n";
  for (const std::string& skipped : result.skipped) text += "Skipped: " + skipped + "\n";
  return text;
}

std::string ValidationJson(const ValidationResult& result) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("cases");
  json.StartArray();
  for (const ValidatedStep& s : result.steps) WriteStep(s, json);
  json.EndArray();
  json.Key("summary");
  json.StartObject();
  json.Key("count");
  json.Uint64(result.summary.count);
  const std::pair<const char*, double> figures[] = {
      {"gmae_percent", result.summary.gmae_percent},
      {"mape_percent", result.summary.mape_percent},
      {"std_percent", result.summary.std_percent},
      {"min_percent", result.summary.min_percent},
      {"max_percent", result.summary.max_percent},
      {"completion_mape_percent", result.completion.mape_percent},
      {"completion_max_percent", result.completion.max_percent},
      {"period_mape_percent", result.period.mape_percent},
      {"period_max_percent", result.period.max_percent},
      {"kernel_start_median_us", result.kernel_start_median.us()},
      {"kernel_start_p90_us", result.kernel_start_p90.us()}};
  for (const auto& [key, value] : figures) {
    json.Key(key);
    json.Double(value);
  }
  json.EndObject();
  json.Key("ablation");
  json.StartArray();
  for (const AblationRow& row : result.ablation) {
    json.StartObject();
    json.Key("name");
    String(json, row.case_name);
    json.Key("variant");
    String(json, row.variant);
    json.Key("steps");
    json.Uint64(row.steps);
    json.Key("mape_percent");
    json.Double(row.mape_percent);
    json.Key("max_percent");
    json.Double(row.max_percent);
    json.EndObject();
  }
  json.EndArray();
  json.Key("durations");
  json.StartArray();
  for (const DurationErrorRow& row : result.durations) WriteDurations(row, json);
  json.EndArray();
  for (const auto& [key, list] : {std::pair{"doubts", &result.doubts},
                                  {"notes", &result.notes},
                                  {"skipped", &result.skipped}}) {
    json.Key(key);
    json.StartArray();
    for (const std::string& text : *list) String(json, text);
    json.EndArray();
  }
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
