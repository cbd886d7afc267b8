#include "simulator/cost/collective/collective_file.h"

#include <yaml-cpp/yaml.h>

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/cost/collective/curve_yaml.h"

namespace foretrace {
namespace {

constexpr int64_t kMaxRanks = 1 << 24;

std::string ModelYaml(const CollectiveModel& model) {
  return fmt::format(
             "  - op: {}\n    ranks: {}\n    nodes: {}\n    inplace: {}\n    dtype: {}\n"
             "    library: {}\n    source: {}\n    min_bytes: {}\n    max_bytes: {}\n"
             "    points: {}\n",
             Name(model.op), model.ranks, model.nodes, model.inplace ? 1 : 0,
             YamlQuoted(model.dtype), YamlQuoted(model.library), YamlQuoted(model.source),
             model.min_bytes.count(), model.max_bytes.count(), model.points) +
         CurveYaml(model.curve.spec());
}

absl::Status CheckModel(const CollectiveModel& model) {
  if (model.op == CollectiveOp::kUnknown) return InvalidInput("unknown op");
  if (model.ranks < 2 || model.ranks > kMaxRanks || model.nodes < 1 || model.nodes > model.ranks) {
    return InvalidInput("{} ranks on {} nodes", model.ranks, model.nodes);
  }
  if (model.min_bytes < Bytes(1) || model.max_bytes < model.min_bytes) {
    return InvalidInput("range {} to {} bytes", model.min_bytes.count(), model.max_bytes.count());
  }
  return absl::OkStatus();
}

absl::StatusOr<CollectiveModel> ParseModelOrThrow(const YAML::Node& node) {
  CollectiveModel model;
  model.op = ParseCollectiveOp(node["op"].as<std::string>());
  model.ranks = node["ranks"].as<int32_t>();
  model.nodes = node["nodes"].as<int32_t>();
  model.inplace = node["inplace"].as<int>() != 0;
  model.dtype = node["dtype"].as<std::string>("");
  model.library = node["library"].as<std::string>("");
  model.source = node["source"].as<std::string>("");
  model.min_bytes = Bytes(node["min_bytes"].as<int64_t>());
  model.max_bytes = Bytes(node["max_bytes"].as<int64_t>());
  model.points = node["points"].as<int64_t>(0);
  FORETRACE_RETURN_IF_ERROR(CheckModel(model));
  FORETRACE_ASSIGN_OR_RETURN(model.curve,
                             ParseCurveOrThrow(node, BusFactor(model.op, model.ranks)));
  return model;
}

absl::StatusOr<CollectiveCalibration> FromYaml(const std::string& path, const YAML::Node& root) {
  FORETRACE_ASSIGN_OR_RETURN(CalibrationHeader header, ParseHeader(root, path, "collective"));
  const YAML::Node nodes = root["models"];
  if (!nodes || !nodes.IsSequence() || nodes.size() == 0) {
    return InvalidInput("{}: no models", path);
  }
  std::vector<CollectiveModel> models;
  absl::flat_hash_set<std::string> names;
  for (const YAML::Node& node : nodes) {
    const int line = node.Mark().line + 1;
    try {
      auto model = ParseModelOrThrow(node);
      if (!model.ok()) {
        return InvalidInput("{}:{}: model {}: {}", path, line, models.size(),
                            std::string(model.status().message()));
      }
      if (!names.insert(model->Name()).second) {
        return InvalidInput("{}:{}: the model '{}' is given twice", path, line, model->Name());
      }
      models.push_back(*std::move(model));
    } catch (const YAML::Exception& error) {
      return InvalidInput("{}:{}: model {}: {}", path,
                          error.mark.is_null() ? line : error.mark.line + 1, models.size(),
                          error.msg);
    }
  }
  return CollectiveCalibration(std::move(header), std::move(models));
}

}  // namespace

std::string CollectiveModelsYaml(const std::vector<CollectiveModel>& models) {
  std::string yaml = "models:\n";
  for (const CollectiveModel& model : models) yaml += ModelYaml(model);
  return yaml;
}

absl::StatusOr<CollectiveCalibration> ParseCollectiveCalibration(const std::string& path,
                                                                 const std::string& text) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ParseYaml(text, path));
  return FromYaml(path, root);
}

absl::StatusOr<CollectiveCalibration> LoadCollectiveCalibration(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  return FromYaml(path, root);
}

}  // namespace foretrace
