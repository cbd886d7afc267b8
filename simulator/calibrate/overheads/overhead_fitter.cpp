#include "simulator/calibrate/overheads/overhead_fitter.h"

#include <cmath>
#include <map>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

using OverheadKey = std::pair<std::string, std::string>;  // name, operator

OverheadKey KeyOf(const BenchmarkRow& row) {
  const auto name = row.shape.Text("name");
  return {std::string(name ? *name : std::string_view(row.op)),
          std::string(row.shape.Text("op").value_or(""))};
}

std::map<OverheadKey, std::vector<const BenchmarkRow*>> GroupsOf(
    std::span<const BenchmarkRow> rows) {
  std::map<OverheadKey, std::vector<const BenchmarkRow*>> groups;
  for (const BenchmarkRow& row : rows) {
    if (row.kind == BenchmarkKind::kOverhead) groups[KeyOf(row)].push_back(&row);
  }
  return groups;
}

}  // namespace

std::string OverheadConstant::Name() const { return op.empty() ? name : name + " " + op; }

std::string FittedOverheads::ToYaml() const {
  std::string yaml = "models:\n";
  for (const OverheadConstant& model : models_) {
    yaml += fmt::format(
        "  - name: {}\n    op: {}\n    median_us: {}\n    spread_us: {}\n    points: {}\n",
        YamlQuoted(model.name), YamlQuoted(model.op), model.median_us, model.spread_us,
        model.points);
  }
  return yaml;
}

const OverheadConstant* FittedOverheads::Find(std::string_view name, std::string_view op) const {
  for (const OverheadConstant& model : models_) {
    if (model.name == name && model.op == op) return &model;
  }
  return nullptr;
}

std::optional<SimTime> FittedOverheads::Overhead(std::string_view name, std::string_view op) const {
  const OverheadConstant* model = Find(name, op);
  if (model == nullptr) model = Find(name, "");
  if (model == nullptr) return std::nullopt;
  return SimTime::FromUs(model->median_us);
}

std::vector<EvaluatedRow> FittedOverheads::Evaluate(std::span<const BenchmarkRow> rows) const {
  std::vector<EvaluatedRow> evaluated;
  for (const auto& [key, group] : GroupsOf(rows)) {
    const OverheadConstant* model = Find(key.first, key.second);
    if (model == nullptr) continue;
    for (const BenchmarkRow* row : group) {
      evaluated.push_back({row, model->Name(), model->median_us, false});
    }
  }
  return evaluated;
}

absl::StatusOr<std::unique_ptr<FittedModels>> OverheadFitter::Fit(
    std::span<const BenchmarkRow> rows, const FitOptions&) const {
  std::vector<OverheadConstant> models;
  for (const auto& [key, group] : GroupsOf(rows)) {
    std::vector<double> times;
    for (const BenchmarkRow* row : group) times.push_back(row->time_us);
    models.push_back({key.first, key.second, Quantile(times, 0.5),
                      0.5 * (Quantile(times, 0.75) - Quantile(times, 0.25)),
                      static_cast<int64_t>(group.size())});
  }
  if (models.empty()) return InvalidInput("no overhead rows");
  return std::make_unique<FittedOverheads>(std::move(models));
}

absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> OverheadFitter::Load(
    const std::string& path) const {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  FORETRACE_ASSIGN_OR_RETURN(CalibrationHeader header, ParseHeader(root, path, kind()));
  std::vector<OverheadConstant> models;
  for (const YAML::Node& node : root["models"]) {
    const int line = node.Mark().line + 1;
    try {
      const OverheadConstant model{node["name"].as<std::string>(), node["op"].as<std::string>(""),
                                   node["median_us"].as<double>(), node["spread_us"].as<double>(0),
                                   node["points"].as<int64_t>(0)};
      if (!(model.median_us >= 0) || !std::isfinite(model.median_us)) {
        return InvalidInput("{}:{}: median_us must be a number of at least 0", path, line);
      }
      models.push_back(model);
    } catch (const YAML::Exception& error) {
      return InvalidInput("{}:{}: {}", path, line, error.msg);
    }
  }
  if (models.empty()) return InvalidInput("{}: no models", path);
  return std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>(
      std::move(header), std::make_unique<FittedOverheads>(std::move(models)));
}

absl::StatusOr<std::unique_ptr<FittedModels>> OverheadFitter::Adapt(
    const FittedModels& prior, std::span<const BenchmarkRow> rows) const {
  const auto* overheads = dynamic_cast<const FittedOverheads*>(&prior);
  FORETRACE_CHECK(overheads != nullptr);
  FORETRACE_ASSIGN_OR_RETURN(const auto fitted, Fit(rows, {}));
  std::vector<OverheadConstant> models = static_cast<const FittedOverheads&>(*fitted).models();
  std::map<OverheadKey, bool> measured;
  for (const OverheadConstant& model : models) measured[{model.name, model.op}] = true;
  for (const OverheadConstant& model : overheads->models()) {
    if (!measured.contains({model.name, model.op})) models.push_back(model);
  }
  return std::make_unique<FittedOverheads>(std::move(models));
}

absl::StatusOr<RowSplit> OverheadFitter::Split(std::span<const BenchmarkRow> rows,
                                               std::string_view rule, uint64_t) const {
  FORETRACE_RETURN_IF_ERROR(CheckHoldOutRule(*this, rule));
  RowSplit split;
  for (const auto& [key, group] : GroupsOf(rows)) {
    for (size_t i = 0; i < group.size(); ++i) {
      (i % 3 == 2 ? split.test : split.train).push_back(*group[i]);
    }
  }
  return split;
}

}  // namespace foretrace
