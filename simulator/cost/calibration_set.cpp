#include "simulator/cost/calibration_set.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/collective/collective_file.h"
#include "simulator/cost/embedding/embedding_file.h"
#include "simulator/cost/kernel/kernel_file.h"

namespace foretrace {
namespace {

absl::Status NotePlatform(const CalibrationHeader& header, const std::string& path,
                          CalibrationSet& set) {
  if (!header.stack.empty()) {
    set.stacks.emplace_back(std::filesystem::path(path).stem().string(), header.stack);
  }
  if (set.platform.empty()) set.platform = header.platform;
  if (set.platform == header.platform) return absl::OkStatus();
  const std::string_view other = set.kernels != nullptr       ? "kernels.yaml"
                                 : set.collectives != nullptr ? "collectives.yaml"
                                 : set.copies != nullptr      ? "memory.yaml"
                                                              : "embedding.yaml";
  return InvalidInput(
      "{}: is of platform {}, but {} beside it of {}; keep one platform to a folder", path,
      header.platform, other, set.platform);
}

}  // namespace

absl::StatusOr<CalibrationSet> LoadCalibrationSet(const std::string& folder) {
  CalibrationSet set;
  set.folder = folder;
  const auto path_of = [&folder](const char* name) {
    return (std::filesystem::path(folder) / name).string();
  };
  const auto there = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  };
  if (const std::string path = path_of("kernels.yaml"); there(path)) {
    FORETRACE_ASSIGN_OR_RETURN(LoadedKernels loaded, LoadKernelModels(path));
    FORETRACE_RETURN_IF_ERROR(NotePlatform(loaded.header, path, set));
    set.kernels = std::make_shared<const KernelModels>(std::move(loaded.models));
  }
  if (const std::string path = path_of("collectives.yaml"); there(path)) {
    FORETRACE_ASSIGN_OR_RETURN(CollectiveCalibration loaded, LoadCollectiveCalibration(path));
    FORETRACE_RETURN_IF_ERROR(NotePlatform(loaded.header(), path, set));
    set.collectives = std::make_shared<const CollectiveCalibration>(std::move(loaded));
  }
  if (const std::string path = path_of("memory.yaml"); there(path)) {
    FORETRACE_ASSIGN_OR_RETURN(LoadedCopies loaded, LoadCopyModels(path));
    FORETRACE_RETURN_IF_ERROR(NotePlatform(loaded.header, path, set));
    set.copies = std::make_shared<const CopyModels>(std::move(loaded.models));
  }
  if (const std::string path = path_of("embedding.yaml"); there(path)) {
    FORETRACE_ASSIGN_OR_RETURN(LoadedEmbedding loaded, LoadEmbeddingModels(path));
    FORETRACE_RETURN_IF_ERROR(NotePlatform(loaded.header, path, set));
    set.embedding = std::make_shared<const EmbeddingModels>(std::move(loaded.models));
  }
  if (const std::string path = path_of("power.yaml"); there(path)) {
    FORETRACE_ASSIGN_OR_RETURN(LoadedPower loaded, LoadPowerModel(path));
    FORETRACE_RETURN_IF_ERROR(NotePlatform(loaded.header, path, set));
    set.power = std::make_shared<const PowerModel>(std::move(loaded.model));
  }
  if (set.power == nullptr && set.kernels == nullptr && set.collectives == nullptr &&
      set.copies == nullptr && set.embedding == nullptr) {
    return InvalidInput(
        "{}: no kernels.yaml, collectives.yaml, memory.yaml, embedding.yaml or power.yaml there; "
        "give a folder made by `foretrace calibrate`, or the name of one in "
        "calibration/",
        folder);
  }
  return set;
}

std::string StackNote(const CalibrationSet& set) {
  if (set.stacks.empty()) return "";
  return fmt::format("calibration {}: {}", std::filesystem::path(set.folder).filename().string(),
                     absl::StrJoin(set.stacks, "; ", [](std::string* out, const auto& family) {
                       *out += fmt::format("{} measured with {}", family.first,
                                           absl::StrJoin(family.second, ", "));
                     }));
}

}  // namespace foretrace
