#include "simulator/planning/sharding/shard_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/collective/collective_file.h"
#include "simulator/cost/embedding/embedding_file.h"
#include "simulator/cost/kernel/device_match.h"
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

// One line for each kind of duration.
std::vector<std::string> RestsOn(const ShardingTask& task, const ShardingModels& models,
                                 const std::string& peaks, bool lookups_calibrated,
                                 bool kernels_calibrated) {
  std::vector<std::string> rests_on;
  rests_on.push_back(
      models.stack != nullptr
          ? fmt::format("lookups: kernels of stack {} on {} (analytic)", models.stack->name, peaks)
      : lookups_calibrated
          ? fmt::format(
                "lookups: calibration {}, fitted to few kernels (its embedding.yaml says which)",
                task.calibration)
          : fmt::format(
                "lookups: caches, bandwidth and latency of {} with typical parameters (analytic)",
                peaks));
  // A capture has dense kernels and CPU overheads of its own.
  const bool captured = !task.capture.empty();
  if (!captured) {
    rests_on.push_back(kernels_calibrated
                           ? fmt::format("dense kernels: calibration {}", task.calibration)
                           : fmt::format("dense kernels: roofline of {} (analytic)", peaks));
  }
  rests_on.push_back(
      models.collectives != nullptr
          ? fmt::format(
                "collectives: calibration {} where it covers them, else platform {} (analytic)",
                task.calibration, models.platform.name)
          : fmt::format("collectives: platform {} (analytic)", models.platform.name));
  if (!captured) rests_on.push_back(fmt::format("CPU overheads: {}", task.cpu.source));
  return rests_on;
}

// What a plan may put on a GPU beside what its GPU has.
std::optional<std::string> MoreThanThereIs(const ShardingTask& task,
                                           const Accelerator& accelerator) {
  // Boards of 80 GB have up to 80 GiB.
  const Bytes most = std::max(accelerator.visible_memory(),
                              Bytes(std::llround(accelerator.memory_capacity().count() * 1.0737)));
  if (most.count() <= 0 || task.memory <= most) return std::nullopt;
  return fmt::format(
      "memory_GB: {:g} is more than {} has ({:g} GB); plans may take it all the same",
      static_cast<double>(task.memory.count()) * 1e-9, accelerator.name,
      static_cast<double>(accelerator.memory_capacity().count()) * 1e-9);
}

}  // namespace

absl::StatusOr<LoadedShardingModels> LoadShardingModels(const ShardingTask& task) {
  LoadedShardingModels loaded;
  ShardingModels& models = loaded.models;
  absl::StatusOr<PlatformSpec> platform = FindPlatform(task.platform, task.gpus);
  if (!platform.ok())
    return InvalidInput("{}: {}", task.file, std::string(platform.status().message()));
  models.platform = *std::move(platform);
  const absl::StatusOr<GpuPeaks> peaks = PeaksOf(models.platform.node.accelerator);
  if (!peaks.ok()) {
    return InvalidInput("{}: platform '{}': {}", task.file, task.platform,
                        std::string(peaks.status().message()));
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
      FORETRACE_ASSIGN_OR_RETURN(
          models.kernels,
          KernelsOn(*peaks, std::make_shared<const KernelModels>(std::move(kernels.models)),
                    fmt::format("{}: calibration {}", task.file, task.calibration), loaded.notes));
      kernels_calibrated = true;
    }
    if (const std::string file = folder + "/collectives.yaml"; std::filesystem::exists(file)) {
      FORETRACE_ASSIGN_OR_RETURN(CollectiveCalibration collectives,
                                 LoadCollectiveCalibration(file));
      models.collectives = std::make_shared<CollectiveCalibration>(std::move(collectives));
    }
    if (const std::string file = folder + "/embedding.yaml"; std::filesystem::exists(file)) {
      FORETRACE_ASSIGN_OR_RETURN(LoadedEmbedding embedding, LoadEmbeddingModels(file));
      FORETRACE_RETURN_IF_ERROR(
          CheckDevice(peaks->accelerator, embedding.device.accelerator,
                      fmt::format("{}: calibration {}", task.file, task.calibration)));
      models.embedding = std::move(embedding.models);
      lookups_calibrated = true;
    }
  }
  if (!task.stack.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string file, Shipped(kLookupStacks, task.stack, task));
    FORETRACE_ASSIGN_OR_RETURN(LookupStack stack, LoadLookupStack(file));
    FORETRACE_RETURN_IF_ERROR(CheckStackDevice(*peaks));
    models.stack = std::make_shared<const LookupStack>(std::move(stack));
  }
  for (std::string& note :
       RestsOn(task, models, peaks->name, lookups_calibrated, kernels_calibrated)) {
    loaded.notes.push_back(std::move(note));
  }
  if (auto note = MoreThanThereIs(task, models.platform.node.accelerator)) {
    loaded.notes.push_back(*std::move(note));
  }
  return loaded;
}

}  // namespace foretrace
