#include "simulator/cli/shard_models.h"

#include <fmt/format.h>

#include <filesystem>

#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/collective/collective_file.h"
#include "simulator/cost/embedding/embedding_file.h"
#include "simulator/cost/kernel/kernel_file.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {

namespace {

absl::StatusOr<std::string> Shipped(const ShippedKind& kind, const std::string& name,
                                    const ShardingTask& task) {
  absl::StatusOr<std::string> path = FindShipped(kind, name);
  if (path.ok()) return path;
  return InvalidInput("{}: {}", task.file, std::string(path.status().message()));
}

}  // namespace

absl::StatusOr<LoadedShardingModels> LoadShardingModels(const ShardingTask& task) {
  LoadedShardingModels loaded;
  ShardingModels& models = loaded.models;
  FORETRACE_ASSIGN_OR_RETURN(const std::string platform_file,
                             Shipped(kPlatforms, task.platform, task));
  FORETRACE_ASSIGN_OR_RETURN(models.platform, LoadPlatform(platform_file));
  const std::string& device = models.platform.node.device.name;
  const std::optional<GpuPeaks> peaks = FindGpuPeaks(device);
  if (!peaks) {
    return InvalidInput(
        "{}: platform '{}' has devices '{}', whose caches and multiprocessors are not "
        "known; choose a platform with V100, GV100, A100 or H100 GPUs",
        task.file, task.platform, device);
  }
  models.kernels = std::make_shared<KernelModels>(*peaks, std::vector<KernelModel>());
  bool kernels_calibrated = false, lookups_calibrated = false;
  if (!task.calibration.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string folder,
                               Shipped(kCalibrations, task.calibration, task));
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) {
      return InvalidInput("{}: calibration '{}' is no folder and no name in calibration/",
                          task.file, task.calibration);
    }
    if (const std::string file = folder + "/kernels.yaml"; std::filesystem::exists(file)) {
      FORETRACE_ASSIGN_OR_RETURN(LoadedKernels kernels, LoadKernelModels(file));
      models.kernels = std::make_shared<KernelModels>(std::move(kernels.models));
      kernels_calibrated = true;
    }
    if (const std::string file = folder + "/collectives.yaml"; std::filesystem::exists(file)) {
      FORETRACE_ASSIGN_OR_RETURN(CollectiveCalibration collectives,
                                 LoadCollectiveCalibration(file));
      models.collectives = std::make_shared<CollectiveCalibration>(std::move(collectives));
    }
    if (const std::string file = folder + "/embedding.yaml"; std::filesystem::exists(file)) {
      FORETRACE_ASSIGN_OR_RETURN(LoadedEmbedding embedding, LoadEmbeddingModels(file));
      models.embedding = std::move(embedding.models);
      lookups_calibrated = true;
    }
  }
  loaded.notes = {
      lookups_calibrated
          ? fmt::format(
                "lookups: calibration {}, fitted to few kernels (its embedding.yaml says which)",
                task.calibration)
          : fmt::format(
                "lookups: caches, bandwidth and latency of {} with typical parameters (analytic)",
                peaks->name),
      kernels_calibrated ? fmt::format("dense kernels: calibration {}", task.calibration)
                         : fmt::format("dense kernels: roofline of {} (analytic)", peaks->name),
      models.collectives != nullptr
          ? fmt::format(
                "collectives: calibration {} where it covers them, else platform {} (analytic)",
                task.calibration, models.platform.name)
          : fmt::format("collectives: platform {} (analytic)", models.platform.name),
      fmt::format("CPU overheads: {}", task.cpu.source),
  };
  return loaded;
}

}  // namespace foretrace
