#include "simulator/mapping/mapping_file.h"

#include <array>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

absl::StatusOr<MappingFile> ReadStages(const YamlReader& root) {
  StageMapping mapping;
  mapping.mini_batch = root.Integer("mini_batch", 1, 1 << 24);
  mapping.sequential = root.Bool("sequential", false);
  for (const YamlReader& item : root.Child("stages").Items()) {
    constexpr std::array<std::string_view, 6> kKeys = {"operators",   "devices", "tensor",
                                                       "micro_batch", "k",       "recompute"};
    item.ExpectKeys(kKeys);
    StagePlacement stage;
    stage.devices = item.Integer("devices", 1, 1 << 16, 1);
    stage.tensor = item.Integer("tensor", 1, 1 << 16, 1);
    stage.config.micro_batch = item.Integer("micro_batch", 1, 1 << 24);
    stage.config.k = item.Integer("k", 1, 1 << 16, 1);
    for (const YamlReader& name : item.Child("operators").Items()) {
      stage.operators.push_back(name.AsString());
    }
    if (item.Has("recompute")) {
      for (const YamlReader& name : item.Child("recompute").Items()) {
        stage.recomputed.push_back(name.AsString());
      }
    }
    mapping.stages.push_back(std::move(stage));
  }
  if (mapping.stages.empty()) root.Fail("stages", "there must be a stage");
  FORETRACE_RETURN_IF_ERROR(root.status());
  return mapping;
}

absl::StatusOr<MappingFile> Read(const YamlReader& root, const std::string& file) {
  constexpr std::array<std::string_view, 4> kKeys = {"parallel", "stages", "mini_batch",
                                                     "sequential"};
  root.ExpectKeys(kKeys);
  FORETRACE_RETURN_IF_ERROR(root.status());
  if (root.Has("parallel") == root.Has("stages")) {
    return InvalidInput("{}: a mapping has either 'parallel' or 'stages'", file);
  }
  if (root.Has("stages")) return ReadStages(root);
  const std::string words = root.String("parallel");
  FORETRACE_RETURN_IF_ERROR(root.status());
  FORETRACE_ASSIGN_OR_RETURN(const ParallelMapping mapping, ParseMapping(words, 0, file));
  return mapping;
}

std::string Quoted(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{}\"{}\"", i > 0 ? ", " : "", names[i]);
  }
  return text;
}

}  // namespace

absl::StatusOr<MappingFile> LoadMapping(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ReadYamlFile(file));
  return Read(root, file);
}

absl::StatusOr<MappingFile> ParseMappingFile(const std::string& text, const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ParseYamlText(text, file));
  return Read(root, file);
}

std::string MappingYaml(const MappingFile& mapping) {
  if (const auto* parallel = std::get_if<ParallelMapping>(&mapping)) {
    return fmt::format("parallel: {} gb{}\n", ToString(*parallel), parallel->global_batch);
  }
  const auto& graph = std::get<StageMapping>(mapping);
  std::string text =
      fmt::format("mini_batch: {}\nsequential: {}\nstages:\n", graph.mini_batch, graph.sequential);
  for (const StagePlacement& stage : graph.stages) {
    text += fmt::format("  - operators: [{}]\n    devices: {}\n    micro_batch: {}\n    k: {}\n",
                        Quoted(stage.operators), stage.devices, stage.config.micro_batch,
                        stage.config.k);
    if (stage.tensor > 1) text += fmt::format("    tensor: {}\n", stage.tensor);
    if (!stage.recomputed.empty()) {
      text += fmt::format("    recompute: [{}]\n", Quoted(stage.recomputed));
    }
  }
  return text;
}

}  // namespace foretrace
