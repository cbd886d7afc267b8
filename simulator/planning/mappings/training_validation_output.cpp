#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "simulator/base/statistics.h"
#include "simulator/planning/mappings/training_validation.h"
#include "simulator/report/report_json.h"

namespace foretrace {
namespace {

struct Group {
  std::vector<double> errors;
  size_t refused = 0;
};

std::string GroupTable(const char* what, const std::map<std::string, Group>& groups,
                       const TextStyle& style) {
  TextTable table({{what, TextTable::Align::kLeft, true},
                   {"rows"},
                   {"refused"},
                   {"mean %"},
                   {"median %"},
                   {"least %"},
                   {"most %"}});
  for (const auto& [name, group] : groups) {
    std::vector<double> absolute;
    double sum = 0;
    for (const double e : group.errors) {
      absolute.push_back(100 * std::abs(e));
      sum += absolute.back() / static_cast<double>(group.errors.size());
    }
    const auto [low, high] = std::minmax_element(group.errors.begin(), group.errors.end());
    const bool any = !absolute.empty();
    const auto cell = [&](double value, const char* form) {
      return any ? fmt::format(fmt::runtime(form), value) : std::string("-");
    };
    table.AddRow({name, fmt::format("{}", group.errors.size()), fmt::format("{}", group.refused),
                  cell(sum, "{:.1f}"), cell(any ? Quantile(absolute, 0.5) : 0, "{:.1f}"),
                  cell(any ? 100 * *low : 0, "{:+.1f}"), cell(any ? 100 * *high : 0, "{:+.1f}")});
  }
  return "\n" + table.Format(style);
}

std::string RowTable(const TrainingValidation& result, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"row", Align::kLeft, true},
                   {"model", Align::kLeft, true},
                   {"GPUs"},
                   {"measured s"},
                   {"predicted s"},
                   {"error %"},
                   {"mapping", Align::kLeft}});
  for (const JudgedRow& judged : result.rows) {
    const TrainingRow& row = judged.row;
    if (!judged.timed()) continue;
    table.AddRow({row.name, row.model, fmt::format("{}", row.gpus),
                  fmt::format("{:.4g}", row.measured.seconds()),
                  fmt::format("{:.4g}", judged.predicted.seconds()),
                  fmt::format("{:+.1f}", 100 * judged.error), ToString(row.mapping)});
  }
  return table.Format(style);
}

}  // namespace

std::string TrainingValidationText(const TrainingValidation& result, const TextStyle& style) {
  std::map<std::string, Group> by_model, by_stack;
  std::string refusals;
  for (const JudgedRow& judged : result.rows) {
    Group* groups[] = {&by_model[judged.row.model], &by_stack[judged.row.stack]};
    for (Group* group : groups) {
      if (judged.timed()) group->errors.push_back(judged.error);
      if (!judged.judged()) ++group->refused;
    }
    if (!judged.judged()) {
      refusals += fmt::format("Refused: {}: {}\n", judged.row.name, judged.row.refused);
    }
  }
  const ErrorSummary& s = result.summary;
  std::string text = fmt::format("Verdict: {} rows, {} refused", s.count, result.refused);
  if (s.count > 0) {
    text += fmt::format(": mean absolute error {:.2f} %, median {:.2f} %, max {:.2f} %",
                        s.mape_percent, result.median_percent, s.max_percent);
  }
  text += "\n";
  if (result.memory_summary.count > 0) {
    text += fmt::format("memory of {} rows: mean absolute error {:.1f} %, max {:.1f} %\n",
                        result.memory_summary.count, result.memory_summary.mape_percent,
                        result.memory_summary.max_percent);
  }
  if (result.reserved_summary.count > 0) {
    text += fmt::format("reserved memory of {} rows: mean absolute error {:.1f} %, max {:.1f} %\n",
                        result.reserved_summary.count, result.reserved_summary.mape_percent,
                        result.reserved_summary.max_percent);
  }
  if (result.out_of_memory > 0) {
    text += fmt::format("out of memory: {} runs, of which {} are predicted to be\n",
                        result.out_of_memory, result.out_of_memory_predicted);
  }
  if (result.fitted) {
    text += fmt::format(
        "with one efficiency a stack, fitted to its other models: {} rows, mean absolute error "
        "{:.2f} %, max {:.2f} %\n",
        result.fitted_summary.count, result.fitted_summary.mape_percent,
        result.fitted_summary.max_percent);
  }
  if (result.calibrated + result.extrapolated > 0)
    text += fmt::format(
        "kernel time: {:.0f} % by a calibration, {:.0f} % of it all for shapes beyond what was "
        "measured (extrapolated)\n",
        100 * result.calibrated, 100 * result.extrapolated);
  text += "\n" + RowTable(result, style);
  text += GroupTable("model", by_model, style) + GroupTable("stack", by_stack, style) + "\n";
  text += refusals;
  for (const std::string& note : result.notes) text += "Note: " + note + "\n";
  return text;
}

namespace {

void WriteRow(const JudgedRow& judged, JsonWriter& json) {
  const TrainingRow& row = judged.row;
  json.StartObject();
  json.Field("name", row.name);
  json.Field("model", row.model);
  json.Field("stack", row.stack);
  json.Field("assumed_stack", row.release.empty() ? row.family : row.family + " " + row.release);
  json.Field("gpus", row.gpus);
  json.Field("mapping", ToString(row.mapping));
  if (row.measured > SimTime()) json.Field("measured_s", row.measured.seconds());
  if (row.out_of_memory) json.Field("out_of_memory", true);
  if (judged.judged()) {
    json.Field("predicted_s", judged.predicted.seconds());
    if (judged.timed()) json.Field("error_percent", 100 * judged.error);
    if (row.out_of_memory) json.Field("predicted_out_of_memory", judged.overflows());
    if (judged.memory_gib > 0) json.Field("predicted_memory_gib", judged.memory_gib);
    if (judged.reserved_gib > 0) json.Field("predicted_reserved_gib", judged.reserved_gib);
    if (row.memory_gib) json.Field("measured_memory_gib", *row.memory_gib);
    if (row.reserved_gib) json.Field("measured_reserved_gib", *row.reserved_gib);
    if (judged.fitted_error) json.Field("fitted_error_percent", 100 * *judged.fitted_error);
  } else {
    json.Field("refused", row.refused);
  }
  json.Field("notes", row.notes);
  json.EndObject();
}

void WriteSummary(const TrainingValidation& result, JsonWriter& json) {
  json.Field("count", uint64_t{result.summary.count});
  json.Field("refused", uint64_t{result.refused});
  if (result.out_of_memory > 0) {
    json.Field("out_of_memory", uint64_t{result.out_of_memory});
    json.Field("out_of_memory_predicted", uint64_t{result.out_of_memory_predicted});
  }
  // Null where no row was judged.
  const auto of_judged = [&](double percent) {
    return result.summary.count > 0 ? percent : std::numeric_limits<double>::quiet_NaN();
  };
  json.Field("mape_percent", of_judged(result.summary.mape_percent));
  json.Field("median_percent", of_judged(result.median_percent));
  json.Field("max_percent", of_judged(result.summary.max_percent));
  if (result.memory_summary.count > 0) {
    json.Field("memory_mape_percent", result.memory_summary.mape_percent);
  }
  if (result.reserved_summary.count > 0) {
    json.Field("reserved_memory_mape_percent", result.reserved_summary.mape_percent);
  }
  if (result.fitted) {
    json.Field("fitted_count", uint64_t{result.fitted_summary.count});
    json.Field("fitted_mape_percent", result.fitted_summary.mape_percent);
  }
  json.Field("calibrated_share", result.calibrated);
  json.Field("extrapolated_share", result.extrapolated);
}

}  // namespace

std::string TrainingValidationJson(const TrainingValidation& result) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("cases");
  json.StartArray();
  for (const JudgedRow& judged : result.rows) WriteRow(judged, json);
  json.EndArray();
  json.Key("summary");
  json.StartObject();
  WriteSummary(result, json);
  json.EndObject();
  json.Field("notes", result.notes);
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
