#include "simulator/cost/memcpy/copy_models.h"

#include <fmt/format.h>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/cost/collective/curve_yaml.h"

namespace foretrace {
namespace {

absl::StatusOr<CopyModel> ParseModelOrThrow(const YAML::Node& node) {
  CopyModel model;
  model.direction = node["direction"].as<std::string>();
  model.pinned = node["pinned"].as<int>() != 0;
  model.min_bytes = node["min_bytes"].as<int64_t>();
  model.max_bytes = node["max_bytes"].as<int64_t>();
  model.points = node["points"].as<int64_t>(0);
  if (model.min_bytes < 1 || model.max_bytes < model.min_bytes) {
    return InvalidInput("range {} to {} bytes", model.min_bytes, model.max_bytes);
  }
  FORETRACE_ASSIGN_OR_RETURN(model.curve, ParseCurveOrThrow(node, /*bus_factor=*/1));
  return model;
}

}  // namespace

std::string CopyModel::Name() const {
  return fmt::format("memcpy {} {}", direction, pinned ? "pinned" : "pageable");
}

const CopyModel* CopyModels::Find(std::string_view direction, bool pinned) const {
  for (const CopyModel& model : models_) {
    if (model.direction == direction && model.pinned == pinned) return &model;
  }
  return nullptr;
}

std::optional<Estimate> CopyModels::CopyTime(std::string_view direction, bool pinned,
                                             Bytes bytes) const {
  const CopyModel* model = Find(direction, pinned);
  if (model == nullptr) return std::nullopt;
  Estimate estimate;
  estimate.time = SimTime::FromUs(model->curve.Time(RealBytes(bytes)).us());
  estimate.source = EstimateSource::kCalibrated;
  estimate.extrapolated = !model->InRange(bytes.count());
  return estimate;
}

std::string CopyModelsYaml(const CopyModels& copies) {
  std::string yaml = "models:\n";
  for (const CopyModel& model : copies.models()) {
    yaml += fmt::format(
                "  - direction: {}\n    pinned: {}\n    min_bytes: {}\n    max_bytes: {}\n"
                "    points: {}\n",
                YamlQuoted(model.direction), model.pinned ? 1 : 0, model.min_bytes, model.max_bytes,
                model.points) +
            CurveYaml(model.curve.spec());
  }
  return yaml;
}

absl::StatusOr<LoadedCopies> LoadCopyModels(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  FORETRACE_ASSIGN_OR_RETURN(CalibrationHeader header, ParseHeader(root, path, "memory"));
  std::vector<CopyModel> models;
  for (const YAML::Node& node : root["models"]) {
    const int line = node.Mark().line + 1;
    try {
      auto model = ParseModelOrThrow(node);
      if (!model.ok()) {
        return InvalidInput("{}:{}: {}", path, line, std::string(model.status().message()));
      }
      models.push_back(*std::move(model));
    } catch (const YAML::Exception& error) {
      return InvalidInput("{}:{}: {}", path, line, error.msg);
    }
  }
  if (models.empty()) return InvalidInput("{}: no models", path);
  return LoadedCopies{std::move(header), CopyModels(std::move(models))};
}

}  // namespace foretrace
