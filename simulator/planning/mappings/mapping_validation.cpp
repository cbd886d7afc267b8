#include "simulator/planning/mappings/mapping_validation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/cluster_file.h"
#include "simulator/planning/dataflow/dataflow_iteration.h"
#include "simulator/planning/mappings/measured_mapping_table.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/report/report_json.h"

namespace foretrace {
namespace {

using Rows = std::vector<MeasuredMapping>;

std::vector<ClusterParameter> Fitted(const ClusterParameters& start) {
  using P = ClusterParameter;
  if (start.measured != nullptr) {
    return {P::kGemmSlowdown, P::kMemoryEfficiency, P::kNicShare, P::kLaunchFloor};
  }
  return {P::kMatrixEfficiency, P::kMemoryEfficiency, P::kNodeShare, P::kNicShare, P::kLaunchFloor};
}

absl::StatusOr<ClusterParameters> Fit(const Rows& rows, ClusterParameters start,
                                      const std::string& what, std::vector<std::string>& notes) {
  // A parameter that starts at zero would stay there.
  if (start.launch_floor == SimTime()) start.launch_floor = SimTime::FromUs(1000);
  FORETRACE_ASSIGN_OR_RETURN(const ClusterParameters fitted,
                             FitCluster(rows, start, Fitted(start)));
  std::vector<std::string_view> names;
  for (const ClusterParameter p : Fitted(start)) names.push_back(Name(p));
  notes.push_back(fmt::format("fitted to {}: {}", what, fmt::join(names, ", ")));
  notes.push_back(Describe(fitted));
  return fitted;
}

std::string ModelOf(const MeasuredMapping& row) {
  return fmt::format("h{} l{} s{} {} GPUs batch {}", row.model.hidden, row.model.layers,
                     row.model.sequence, row.mapping.devices(), row.mapping.global_batch);
}

absl::StatusOr<SimTime> IterationOf(const MeasuredMapping& row, const ClusterParameters& cluster,
                                    bool dataflow) {
  if (dataflow) return DataflowIteration(row.model, row.mapping, cluster);
  FORETRACE_ASSIGN_OR_RETURN(const IterationEstimate estimate,
                             EstimateIteration(row.model, row.mapping, cluster));
  return estimate.time;
}

absl::Status Predict(const MappingValidationOptions& options, const Rows& rows,
                     const ClusterParameters& cluster, bool dataflow, MappingValidation& result) {
  for (const MeasuredMapping& row : rows) {
    Tell(options.progress, "rows", static_cast<size_t>(&row - rows.data()), rows.size());
    const auto time = IterationOf(row, cluster, dataflow);
    if (!time.ok()) return InvalidInput("{}: {}", row.name, std::string(time.status().message()));
    const double error = time->seconds() / row.measured.seconds() - 1;
    result.rows.push_back(
        {row.name, ModelOf(row), ToString(row.mapping), row.measured, *time, error});
  }
  return absl::OkStatus();
}

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return ranks;
}

void Rank(MappingValidation& result) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> models;
  std::vector<std::string> order;
  for (const ValidatedMapping& row : result.rows) {
    auto& [measured, predicted] = models[row.model];
    if (measured.empty()) order.push_back(row.model);
    measured.push_back(row.measured.seconds());
    predicted.push_back(row.predicted.seconds());
  }
  for (const std::string& model : order) {
    const auto& [measured, predicted] = models.at(model);
    if (measured.size() < 3) continue;
    const double least = *std::min_element(predicted.begin(), predicted.end());
    double chosen = 0, ties = 0;
    for (size_t i = 0; i < predicted.size(); ++i) {
      if (predicted[i] != least) continue;
      chosen += measured[i];
      ++ties;
    }
    const double best = *std::min_element(measured.begin(), measured.end());
    result.rankings.push_back(
        {model, measured.size(), Spearman(measured, predicted), chosen / ties / best - 1});
  }
}

void SummarizeRows(MappingValidation& result) {
  std::vector<double> errors, absolute;
  for (const ValidatedMapping& row : result.rows) {
    errors.push_back(row.error);
    absolute.push_back(100 * std::abs(row.error));
  }
  result.summary = SummarizeErrors(errors);
  result.median_percent = Quantile(absolute, 0.5);
  Rank(result);
}

absl::StatusOr<Rows> Load(const MappingValidationOptions& o, const std::string& file) {
  const auto recompute = ParseEnum<Recompute>(o.recompute);
  if (!recompute) {
    return InvalidInput("--recompute '{}' is not none, selective or full", o.recompute);
  }
  return LoadMeasuredMappings(file, o.vocabulary, *recompute);
}

}  // namespace

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Ranks(a), y = Ranks(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

absl::StatusOr<MappingValidation> ValidateMappings(const MappingValidationOptions& options) {
  MappingValidationOptions o = options;
  MappingValidation result;
  if (o.platform.empty()) {
    FORETRACE_RETURN_IF_ERROR(Load(o, o.rows).status());  // what is no table at all is told so
    return InvalidInput(
        "--mappings {}: its rows need the platform that was measured: --platform NAME (a header of "
        "models and software, docs/mapping-rows.md, names it in each row)",
        o.rows);
  }
  if (!o.workload.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(o.workload));
    if (!model.transformer) return InvalidInput("{}: not a transformer", o.workload);
    o.vocabulary = model.transformer->vocabulary;
  }
  if (o.fit_stacks) {
    return InvalidInput(
        "--fit-stacks is for tables that name models and software, which {} does not", o.rows);
  }
  if (o.dataflow && (!o.fit.empty() || o.hold_out_half))
    return InvalidInput("--dataflow takes kernels as they were measured: nothing is fitted");
  Accelerator device;
  int64_t devices = 0;
  std::vector<std::string> notes;
  FORETRACE_ASSIGN_OR_RETURN(
      const ClusterParameters start,
      ClusterOf({o.platform, o.calibration, o.kernels}, DType::kFloat16, &device, &devices, notes));
  if (std::string note = BesideNote(start); !note.empty()) notes.push_back(std::move(note));
  FORETRACE_ASSIGN_OR_RETURN(const Rows rows, Load(o, o.rows));
  if (o.hold_out_half) {
    if (!o.fit.empty()) return InvalidInput("give either --fit or --hold-out-half");
    if (rows.size() < 4) return InvalidInput("{}: too few rows to hold out half", o.rows);
    Rows half[2];
    for (size_t i = 0; i < rows.size(); ++i) half[i % 2].push_back(rows[i]);
    for (const int side : {0, 1}) {
      FORETRACE_ASSIGN_OR_RETURN(
          const ClusterParameters fitted,
          Fit(half[1 - side], start, side == 0 ? "every second row" : "the rows between them",
              result.notes));
      FORETRACE_RETURN_IF_ERROR(Predict(o, half[side], fitted, false, result));
    }
    result.notes.push_back("every row is predicted with parameters fitted without it");
  } else if (!o.fit.empty()) {
    Rows all;
    for (const std::string& file : o.fit) {
      FORETRACE_ASSIGN_OR_RETURN(const Rows other, Load(o, file));
      all.insert(all.end(), other.begin(), other.end());
    }
    FORETRACE_ASSIGN_OR_RETURN(
        const ClusterParameters fitted,
        Fit(all, start, fmt::format("{}", fmt::join(o.fit, " and ")), result.notes));
    FORETRACE_RETURN_IF_ERROR(Predict(o, rows, fitted, false, result));
  } else {
    result.notes = notes;
    FORETRACE_RETURN_IF_ERROR(Predict(o, rows, start, o.dataflow, result));
  }
  result.notes.push_back(fmt::format("vocabulary {}; recomputation {} where the table does not say",
                                     o.vocabulary, o.recompute));
  SummarizeRows(result);
  return result;
}

std::string MappingValidationText(const MappingValidation& result, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"row", Align::kLeft, true},
                   {"model", Align::kLeft, true},
                   {"mapping", Align::kLeft},
                   {"measured ms"},
                   {"predicted ms"},
                   {"error %"}});
  for (const ValidatedMapping& row : result.rows) {
    table.AddRow({row.name, row.model, row.mapping, fmt::format("{:.1f}", row.measured.us() * 1e-3),
                  fmt::format("{:.1f}", row.predicted.us() * 1e-3),
                  fmt::format("{:+.2f}", 100 * row.error)});
  }
  const ErrorSummary& s = result.summary;
  std::string text = fmt::format(
      "Verdict: {} rows: mean absolute error {:.2f} %, median {:.2f} %, geometric mean {:.2f} %, "
      "standard deviation {:.2f} %, max {:.2f} %\n\n",
      s.count, s.mape_percent, result.median_percent, s.gmae_percent, s.std_percent, s.max_percent);
  text += table.Format(style);
  if (!result.rankings.empty()) {
    TextTable ranks(
        {{"ranking within a model", Align::kLeft, true}, {"rows"}, {"Spearman"}, {"regret %"}});
    double spearman = 0, regret = 0;
    for (const MappingRanking& r : result.rankings) {
      ranks.AddRow({r.model, fmt::format("{}", r.rows), fmt::format("{:.3f}", r.spearman),
                    fmt::format("{:.2f}", 100 * r.regret)});
      spearman += r.spearman / static_cast<double>(result.rankings.size());
      regret += r.regret / static_cast<double>(result.rankings.size());
    }
    ranks.AddRow(
        {"mean", "", fmt::format("{:.3f}", spearman), fmt::format("{:.2f}", 100 * regret)});
    text += "\n" + ranks.Format(style);
    text +=
        "regret: how much longer than the fastest the mapping predicted fastest takes; ties at "
        "random\n";
  }
  for (const std::string& note : result.notes) text += "Note: " + note + "\n";
  return text;
}

std::string MappingValidationJson(const MappingValidation& result) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("cases");
  json.StartArray();
  for (const ValidatedMapping& row : result.rows) {
    json.StartObject();
    json.Field("name", row.name);
    json.Field("model", row.model);
    json.Field("mapping", row.mapping);
    json.Field("measured_us", row.measured.us());
    json.Field("predicted_us", row.predicted.us());
    json.Field("error_percent", 100 * row.error);
    json.EndObject();
  }
  json.EndArray();
  json.Key("summary");
  json.StartObject();
  json.Field("count", uint64_t{result.summary.count});
  json.Field("gmae_percent", result.summary.gmae_percent);
  json.Field("mape_percent", result.summary.mape_percent);
  json.Field("median_percent", result.median_percent);
  json.Field("std_percent", result.summary.std_percent);
  json.Field("min_percent", result.summary.min_percent);
  json.Field("max_percent", result.summary.max_percent);
  json.EndObject();
  json.Key("rankings");
  json.StartArray();
  for (const MappingRanking& r : result.rankings) {
    json.StartObject();
    json.Field("model", r.model);
    json.Field("rows", uint64_t{r.rows});
    json.Field("spearman", r.spearman);
    json.Field("regret_percent", 100 * r.regret);
    json.EndObject();
  }
  json.EndArray();
  json.Field("notes", result.notes);
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
