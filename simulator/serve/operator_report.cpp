// What is said of predicted operators (operator_table.h).

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/base/json_writer.h"
#include "simulator/base/statistics.h"
#include "simulator/serve/operator_table.h"

namespace foretrace::serve {
namespace {

// The unweighted mean over the precisions that have errors.
void MeanOfModels(const std::vector<OperatorErrors>& errors, PrettyJsonWriter& out) {
  size_t count = 0;
  double gmae = 0, mape = 0;
  for (const OperatorErrors& e : errors) {
    if (e.held_out == 0) continue;
    ++count;
    const ErrorSummary summary = SummarizeErrors(e.relative);
    gmae += summary.gmae_percent;
    mape += summary.mape_percent;
  }
  const auto of = static_cast<double>(std::max<size_t>(count, 1));
  out.Key("mean_of_models");
  out.StartObject();
  out.Field("count", static_cast<uint64_t>(count));
  out.Field("gmae_percent", gmae / of);
  out.Field("mape_percent", mape / of);
  out.EndObject();
}

// As calibrate writes those of other tables.
void Model(const OperatorErrors& e, PrettyJsonWriter& out) {
  out.StartObject();
  out.Field("name", e.name);
  out.Field("rows", static_cast<uint64_t>(e.rows));
  out.Field("held_out", static_cast<uint64_t>(e.held_out));
  out.Field("count", static_cast<uint64_t>(e.held_out));
  const ErrorSummary summary = SummarizeErrors(e.relative);
  for (const auto& [key, value] :
       {std::pair("gmae_percent", summary.gmae_percent),
        std::pair("mape_percent", summary.mape_percent),
        std::pair("median_percent", e.median_percent), std::pair("p90_percent", e.p90_percent),
        std::pair("std_percent", summary.std_percent),
        std::pair("max_percent", summary.max_percent)}) {
    out.Key(key);
    e.held_out > 0 ? out.Double(value) : out.Null();
  }
  out.Field("extrapolated_count", static_cast<uint64_t>(e.beyond));
  out.EndObject();
}

}  // namespace

OperatorErrors SummarizeOperator(std::string name, size_t rows, std::vector<double> relative) {
  OperatorErrors e;
  e.name = std::move(name);
  e.rows = rows;
  e.held_out = relative.size();
  std::vector<double> percent;
  for (const double error : relative) percent.push_back(100 * std::abs(error));
  if (!percent.empty()) {
    e.median_percent = Quantile(percent, 0.5);
    e.p90_percent = Quantile(std::move(percent), 0.9);
  }
  e.relative = std::move(relative);
  return e;
}

OperatorErrors AllOperators(const std::vector<OperatorErrors>& errors) {
  size_t rows = 0, fitted = 0, beyond = 0;
  std::vector<double> relative;
  for (const OperatorErrors& e : errors) {
    rows += e.rows;
    fitted += e.fitted;
    beyond += e.beyond;
    relative.insert(relative.end(), e.relative.begin(), e.relative.end());
  }
  OperatorErrors all = SummarizeOperator("all", rows, std::move(relative));
  all.fitted = fitted;
  all.beyond = beyond;
  return all;
}

std::vector<std::string> OperatorNotes(const std::vector<OperatorErrors>& errors) {
  std::vector<std::string> notes;
  for (const OperatorErrors& e : errors) {
    if (e.fitted > 0) {
      notes.push_back(
          fmt::format("{}: {} of {} rows fitted, not held out", e.name, e.fitted, e.rows));
    }
    if (e.beyond > 0) {
      notes.push_back(fmt::format(
          "{}: {} of {} rows lie between no measured ones: by a model of the table's rows, from "
          "sizes, bytes and FLOP alone",
          e.name, e.beyond, e.rows));
    }
    if (e.uncovered() == 0) continue;
    notes.push_back(fmt::format("{}: {} of {} rows are not predicted: {}", e.name, e.uncovered(),
                                e.rows,
                                e.by_kernels ? "no model of kernels is of theirs"
                                             : "no measured shapes lie on both sides of theirs"));
  }
  return notes;
}

std::string OperatorText(const std::string& file, const std::vector<OperatorErrors>& errors,
                         const OperatorHeading& heading) {
  const auto worst = std::ranges::max_element(
      errors, {}, [](const OperatorErrors& e) { return e.median_percent; });
  std::string text;
  if (worst != errors.end()) {
    text = fmt::format("Verdict: median error of {} shapes {:.2f} %{}\n",
                       heading.tested ? "tested" : "held-out", worst->median_percent,
                       errors.size() > 1 ? ", which is " + worst->name + ", the furthest off" : "");
  }
  text += fmt::format(
      "{}: {}\n\n"
      "{:<20} {:>9} {:>9} {:>9} {:>9}\n",
      file, heading.how, "error %", "rows", heading.tested ? "predicted" : "held out", "median",
      "P90");
  for (const OperatorErrors& e : errors) {
    if (e.held_out == 0) {
      text += fmt::format("{:<20} {:>9} {:>9} {:>9} {:>9}\n", e.name, e.rows, 0, "-", "-");
      continue;
    }
    text += fmt::format("{:<20} {:>9} {:>9} {:>9.2f} {:>9.2f}\n", e.name, e.rows, e.held_out,
                        e.median_percent, e.p90_percent);
  }
  return text;
}

std::string OperatorJson(const std::string& file, const std::vector<OperatorErrors>& errors,
                         const std::vector<std::string>& notes) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("table", file);
  out.Field("in_sample", false);
  out.Key("models");
  out.StartArray();
  std::vector<OperatorErrors> models = errors;
  models.push_back(AllOperators(errors));
  for (const OperatorErrors& e : models) Model(e, out);
  out.EndArray();
  MeanOfModels(errors, out);
  const OperatorErrors& all = models.back();
  out.Field("uncovered_count", static_cast<uint64_t>(all.uncovered()));
  std::vector<std::string> said = OperatorNotes(errors);
  said.insert(said.end(), notes.begin(), notes.end());
  out.Field("notes", said);
  out.Field("written", std::vector<std::string>());
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace::serve
