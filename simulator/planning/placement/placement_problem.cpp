#include "simulator/planning/placement/placement_problem.h"

#include <filesystem>
#include <set>

#include "simulator/backends/graph_view.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"
#include "simulator/planning/mappings/measured_device.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/workload/network_yaml.h"
#include "simulator/workload/published_config.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {

absl::StatusOr<std::vector<Backend>> LoadBackends(const std::vector<std::string>& names) {
  std::vector<Backend> backends;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string file, FindShipped(kBackendFiles, name));
    FORETRACE_ASSIGN_OR_RETURN(Backend backend, LoadBackend(file));
    if (!seen.insert(backend.name).second) {
      return InvalidInput("--backends: '{}' is there twice", backend.name);
    }
    if (backend.device != (backends.empty() ? backend : backends.front()).device) {
      return InvalidInput("--backends: '{}' runs on {}, '{}' on {}; name backends of one device",
                          backends.front().name, backends.front().device, backend.name,
                          backend.device);
    }
    backends.push_back(std::move(backend));
  }
  return backends;
}

absl::StatusOr<OperatorCosts> LoadCosts(const std::vector<std::string>& files) {
  OperatorCosts costs;
  for (const std::string& file : files) FORETRACE_RETURN_IF_ERROR(costs.Read(file));
  return costs;
}

absl::StatusOr<ModelledDevice> FindModelledDevice(const std::string& name,
                                                  const std::string& kernels,
                                                  std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  const Accelerator* found = catalog.Find(name);
  if (found == nullptr) return catalog.Unknown(name);
  ModelledDevice device;
  device.device = *found;
  NodeSpec node;
  node.accelerator = *found;
  std::vector<std::string> files;
  FORETRACE_ASSIGN_OR_RETURN(device.kernels, FindMeasurements(kernels, node, notes, files));
  if (device.kernels == nullptr) {
    return Infeasible(
        "{}: no model of kernels fits it (they are of GPUs whose files state rates); give --costs "
        "or "
        "another device",
        name);
  }
  return device;
}

absl::StatusOr<std::optional<OperatorView>> FindNetwork(const std::string& name,
                                                        int32_t micro_batch,
                                                        std::vector<std::string>& notes) {
  const bool published = NamesPublishedModel(name);
  const bool is_yaml = published || name.ends_with(".yaml") || name.ends_with(".yml");
  std::error_code unreadable;
  const std::string hidden = BehindFolder(name);
  const bool there = std::filesystem::exists(name, unreadable) && hidden.empty();
  if (name == "-" || (there && !is_yaml)) {
    return std::optional<OperatorView>();
  }
  absl::StatusOr<std::string> network = absl::NotFoundError("");
  if (!published && hidden.empty()) network = FindShipped(kNetworkFiles, name);
  absl::StatusOr<std::string> model =
      network.ok() ? FindShipped(kWorkloads, name) : FindWorkload(name, notes);
  if (name.find('/') != std::string::npos && !is_yaml) {
    // A publisher's name, or else a recording that is not there.
    model = FindWorkload(name, notes);
    if (!model.ok() || *model == name) return std::optional<OperatorView>();
    network = absl::NotFoundError("");
  }
  if (!network.ok() && !model.ok()) {
    return InvalidInput("{}; nor is it a model of traces/workloads, or a recording",
                        std::string(network.status().message()));
  }
  // A file is a model where it has a model's keys.
  if (network.ok() && !(is_yaml && model.ok() && LoadModel(*model).ok())) {
    if (micro_batch != 1) {
      return InvalidInput("--micro-batch would change nothing: {} states its sizes", *network);
    }
    FORETRACE_ASSIGN_OR_RETURN(Network read, LoadNetwork(*network));
    const Binding sizes = read.graph.Declared();
    return std::optional(ViewOf(std::move(read.name), read.graph, sizes));
  }
  FORETRACE_ASSIGN_OR_RETURN(const ModelFile file, LoadModel(*model));
  notes.insert(notes.end(), file.notes.begin(), file.notes.end());
  if (!file.transformer) {
    return InvalidInput(
        "{}: place needs operators; give a network file, or a model file with the key "
        "'transformer'",
        *model);
  }
  TransformerConfig config = *file.transformer;
  config.name = file.workload.name;
  FORETRACE_RETURN_IF_ERROR(CheckTrainedAttention(config));
  FORETRACE_ASSIGN_OR_RETURN(OperatorView dag, ViewOfModel(config, micro_batch));
  return std::optional(std::move(dag));
}

}  // namespace foretrace
