#include "simulator/planning/calibration/calibration_report.h"

#include <algorithm>

#include "simulator/base/csv.h"
#include "simulator/base/json_writer.h"

namespace foretrace {
namespace {

// The unweighted mean over models, so that long sweeps do not drown short ones.
struct MeanErrors {
  double gmae_percent = 0;
  double mape_percent = 0;
};
MeanErrors MeanOfModels(const CalibrateReport& report) {
  MeanErrors mean;
  const size_t count = report.models.size() - 1;  // without "all"
  for (size_t i = 0; i < count; ++i) {
    mean.gmae_percent += report.models[i].errors.gmae_percent / static_cast<double>(count);
    mean.mape_percent += report.models[i].errors.mape_percent / static_cast<double>(count);
  }
  return mean;
}

// What each row was predicted to take; `residual_percent`: predicted over measured, less 1.
void Rows(PrettyJsonWriter& json, const CalibrateReport& report) {
  json.Key("rows");
  json.StartArray();
  for (const CalibrateRow& row : report.rows) {
    json.StartObject();
    json.Field("platform", row.platform);
    json.Field("model", row.model);
    json.Field("shape", row.shape);
    json.Field("measured_us", row.measured_us);
    json.Field("predicted_us", row.predicted_us);
    json.Field("residual_percent", 100 * (row.predicted_us / row.measured_us - 1));
    json.Field("extrapolated", row.extrapolated);
    json.EndObject();
  }
  json.EndArray();
}

// All rows together, and the model that is furthest off.
std::string Verdict(const CalibrateReport& report) {
  const ErrorSummary& all = report.models.back().errors;
  if (all.count == 0)
    return "Verdict: no rows were held out: nothing says how far the fit is off\n";
  std::string text = fmt::format("Verdict: GMAE {:.2f} % on {} {} rows", all.gmae_percent,
                                 all.count, report.in_sample ? "fitted" : "held-out");
  const auto worst = std::max_element(
      report.models.begin(), report.models.end() - 1,
      [](const auto& a, const auto& b) { return a.errors.gmae_percent < b.errors.gmae_percent; });
  if (report.models.size() > 2) {
    text += fmt::format("; the furthest off is {} with {:.2f} %", worst->name,
                        worst->errors.gmae_percent);
  }
  return text + "\n";
}

}  // namespace

std::string CalibrationJson(const CalibrateReport& report, bool rows) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter json(buffer);
  json.SetIndent(' ', 2);
  json.StartObject();
  json.Field("in_sample", report.in_sample);
  json.Key("models");
  json.StartArray();
  for (const ModelErrors& model : report.models) {
    json.StartObject();
    json.Field("name", model.name);
    json.Field("count", model.errors.count);
    json.Field("gmae_percent", model.errors.gmae_percent);
    json.Field("mape_percent", model.errors.mape_percent);
    json.Field("median_percent", model.median_percent);
    json.Field("p90_percent", model.p90_percent);
    json.Field("std_percent", model.errors.std_percent);
    json.Field("max_percent", model.errors.max_percent);
    json.Field("extrapolated_count", model.extrapolated_count);
    json.EndObject();
  }
  json.EndArray();
  const MeanErrors mean = MeanOfModels(report);
  json.Key("mean_of_models");
  json.StartObject();
  json.Field("count", report.models.size() - 1);
  json.Field("gmae_percent", mean.gmae_percent);
  json.Field("mape_percent", mean.mape_percent);
  json.EndObject();
  json.Field("uncovered_count", report.uncovered_count);
  json.Field("notes", report.notes);
  json.Field("written", report.written);
  if (rows) Rows(json, report);
  json.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string CalibrationText(const CalibrateReport& report, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{report.in_sample ? "errors on the fitted rows" : "errors on held-out rows",
                    Align::kLeft, true},
                   {"rows"},
                   {"GMAE %"},
                   {"MAPE %"},
                   {"std %"},
                   {"max %"},
                   {"extrapolated"}});
  for (const ModelErrors& model : report.models) {
    const ErrorSummary& e = model.errors;
    table.AddRow({model.name, fmt::format("{}", e.count), fmt::format("{:.2f}", e.gmae_percent),
                  fmt::format("{:.2f}", e.mape_percent), fmt::format("{:.2f}", e.std_percent),
                  fmt::format("{:.1f}", e.max_percent),
                  fmt::format("{}", model.extrapolated_count)});
  }
  std::string text = Verdict(report);
  if (!report.rows.empty()) {
    const MeanErrors mean = MeanOfModels(report);
    text += table.Format(style);
    text += fmt::format("mean over {} models: GMAE {:.2f} %, MAPE {:.2f} %\n",
                        report.models.size() - 1, mean.gmae_percent, mean.mape_percent);
  }
  if (report.uncovered_count > 0) {
    text += fmt::format("{} rows are covered by no model\n", report.uncovered_count);
  }
  for (const std::string& note : report.notes) text += fmt::format("Note: {}\n", note);
  for (const std::string& path : report.written) text += fmt::format("wrote {}\n", path);
  return text;
}

std::string CalibrationRows(const CalibrateReport& report) {
  std::string text = "platform,model,shape,measured_us,predicted_us,extrapolated\n";
  for (const CalibrateRow& row : report.rows) {
    text += CsvLineOf(row.platform, row.model, row.shape, row.measured_us, row.predicted_us,
                      row.extrapolated ? 1 : 0);
  }
  return text;
}

}  // namespace foretrace
