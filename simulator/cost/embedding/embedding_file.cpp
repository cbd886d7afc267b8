#include "simulator/cost/embedding/embedding_file.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "kernel_model.pb.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

constexpr uintmax_t kMaxResidualBytes = 64 << 20;

std::string ModelName(LookupKernels kernels, LookupPass pass) {
  return fmt::format("{} {}", Name(kernels), Name(pass));
}

template <typename Visit>
void ForEachCalibrated(const EmbeddingModels& models, Visit visit) {
  for (int k = 0; k < static_cast<int>(LookupKernels::kCount); ++k) {
    for (int p = 0; p < static_cast<int>(LookupPass::kCount); ++p) {
      const auto kernels = static_cast<LookupKernels>(k);
      const auto pass = static_cast<LookupPass>(p);
      if (models.at(kernels, pass).calibrated()) visit(kernels, pass, models.at(kernels, pass));
    }
  }
}

template <typename E>
std::optional<E> ParseName(const std::string& text) {
  for (int i = 0; i < static_cast<int>(E::kCount); ++i) {
    if (Name(static_cast<E>(i)) == text) return static_cast<E>(i);
  }
  return std::nullopt;
}

// What a value may be: [lower, upper].
std::pair<double, double> Sensible(size_t parameter) {
  if (parameter == 1) return {1e-3, 1};  // an efficiency
  if (parameter == 4) return {1, 1e6};   // a longest over a mean
  if (parameter == 2) return {1, 1e6};   // GB/s
  return {0, 1e6};
}

absl::StatusOr<EmbeddingModel> ParseModelOrThrow(const YAML::Node& node) {
  EmbeddingModel model;
  EmbeddingParameterArray values = {};
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string key(EmbeddingParameterName(i));
    if (!node[key]) return InvalidInput("{} is missing", key);
    values[i] = node[key].as<double>();
    const auto [low, high] = Sensible(i);
    if (!(values[i] >= low && values[i] <= high)) {
      return InvalidInput("{} = {} is not in [{}, {}]", key, values[i], low, high);
    }
    model.informed[i] = node["informed"][key].as<double>(0);
  }
  model.parameters = FromArray(values);
  model.points = node["points"].as<int64_t>();
  if (model.points < 1) return InvalidInput("points = {} is not positive", model.points);
  model.residual_clip = node["residual_clip"].as<double>(0);
  if (!(model.residual_clip >= 0 && model.residual_clip <= 3)) {
    return InvalidInput("residual_clip = {} is not in [0, 3]", model.residual_clip);
  }
  const auto lower = node["lower"].as<std::vector<double>>();
  const auto upper = node["upper"].as<std::vector<double>>();
  if (lower.size() != 3 || upper.size() != 3) {
    return InvalidInput("lower and upper need three numbers each: lookups, bytes of tables, bags");
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!(lower[i] >= 0 && lower[i] <= upper[i])) {
      return InvalidInput("range {} to {} is upside down", lower[i], upper[i]);
    }
    model.lower[i] = lower[i];
    model.upper[i] = upper[i];
  }
  return model;
}

using Residuals = std::map<std::string, TreeEnsemble>;

absl::StatusOr<Residuals> LoadResiduals(const std::filesystem::path& path,
                                        const std::string& device) {
  const auto bytes = ReadBinaryFile(path.string(), kMaxResidualBytes);
  if (!bytes.ok()) {
    return InvalidInput(
        "{}; embedding.yaml says it has residuals there: restore the file or calibrate again",
        std::string(bytes.status().message()));
  }
  proto::KernelResiduals file;
  // Its own lines on standard error name no file.
  const google::protobuf::LogSilencer silence;
  if (!file.ParseFromString(*bytes) || file.version() != kCalibrationVersion ||
      file.platform() != device) {
    return InvalidInput("{}: not the residuals of version {} for '{}'; calibrate again",
                        path.string(), kCalibrationVersion, device);
  }
  Residuals residuals;
  for (const auto& e : file.ensembles()) {
    std::vector<uint8_t> features;
    for (const uint32_t f : e.feature())
      features.push_back(static_cast<uint8_t>(std::min(f, 255u)));
    if (e.depth() > TreeEnsemble::kMaxDepth || e.feature_count() != kEmbeddingFeatures) {
      return InvalidInput("{}: {}: depth {} over {} features; calibrate again", path.string(),
                          e.model(), e.depth(), e.feature_count());
    }
    auto trees = TreeEnsemble::Create(
        static_cast<int>(e.depth()), static_cast<int>(e.feature_count()), std::move(features),
        {e.threshold().begin(), e.threshold().end()}, {e.leaf().begin(), e.leaf().end()});
    if (!trees.ok()) {
      return InvalidInput("{}: {}: {}", path.string(), e.model(),
                          std::string(trees.status().message()));
    }
    residuals.emplace(e.model(), *std::move(trees));
  }
  return residuals;
}

class ModelsReader {
 public:
  explicit ModelsReader(const std::string& path) : path_(path) {}

  absl::StatusOr<LoadedEmbedding> Read() {
    FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path_));
    LoadedEmbedding loaded;
    FORETRACE_ASSIGN_OR_RETURN(loaded.header, ParseHeader(root, path_, "embedding"));
    const YAML::Node models = root["models"];
    if (!models || !models.IsMap() || !models["device"] || !models["entries"]) {
      return InvalidInput("{}: models needs device and entries", path_);
    }
    const auto device = FindGpuPeaks(models["device"].Scalar());
    if (!device.ok()) {
      return InvalidInput("{}: unknown device '{}': {}", path_, models["device"].Scalar(),
                          std::string(device.status().message()));
    }
    loaded.device = *device;
    device_ = models["device"].Scalar();
    for (const YAML::Node& node : models["entries"]) {
      const int line = node.Mark().line + 1;
      try {
        const absl::Status status = AddModel(node, loaded);
        if (!status.ok()) {
          return InvalidInput("{}:{}: {}", path_, line, std::string(status.message()));
        }
      } catch (const YAML::Exception& error) {
        return InvalidInput("{}:{}: {}", path_, line, error.msg);
      }
    }
    bool any = false;
    ForEachCalibrated(loaded.models, [&](auto, auto, const auto&) { any = true; });
    if (!any) return InvalidInput("{}: no models", path_);
    return loaded;
  }

 private:
  absl::Status AddModel(const YAML::Node& node, LoadedEmbedding& loaded) {
    const auto kernels = ParseName<LookupKernels>(node["kernels"].as<std::string>());
    const auto pass = ParseName<LookupPass>(node["pass"].as<std::string>());
    if (!kernels || !pass) {
      return InvalidInput("kernels '{}' or pass '{}' is unknown", node["kernels"].Scalar(),
                          node["pass"].Scalar());
    }
    FORETRACE_ASSIGN_OR_RETURN(EmbeddingModel model, ParseModelOrThrow(node));
    if (const auto trees = node["residual_trees"].as<size_t>(0); trees > 0) {
      if (!residuals_) {
        const auto file = std::filesystem::path(path_).parent_path() / kEmbeddingResidualFile;
        FORETRACE_ASSIGN_OR_RETURN(residuals_, LoadResiduals(file, device_));
      }
      const auto it = residuals_->find(ModelName(*kernels, *pass));
      if (it == residuals_->end() || it->second.tree_count() != trees) {
        return InvalidInput(
            "the residual in {} is missing or of another calibration; calibrate again",
            kEmbeddingResidualFile);
      }
      model.residual = it->second;
    }
    loaded.models.at(*kernels, *pass) = std::move(model);
    return absl::OkStatus();
  }

  const std::string& path_;
  std::string device_;  // as the file names it
  std::optional<Residuals> residuals_;
};

}  // namespace

std::string EmbeddingModelsYaml(const EmbeddingModels& models, const GpuPeaks& device) {
  std::string yaml = fmt::format("models:\n  device: {}\n  entries:\n", device.name);
  ForEachCalibrated(models, [&](LookupKernels kernels, LookupPass pass, const EmbeddingModel& m) {
    yaml += fmt::format(
        "  - kernels: {}\n    pass: {}\n    points: {}\n    lower: [{}]\n    upper: [{}]\n",
        Name(kernels), Name(pass), m.points, fmt::join(m.lower, ", "), fmt::join(m.upper, ", "));
    const EmbeddingParameterArray values = ToArray(m.parameters);
    for (size_t i = 0; i < values.size(); ++i) {
      yaml += fmt::format("    {}: {}\n", EmbeddingParameterName(i), values[i]);
    }
    yaml += "    informed: {";
    for (size_t i = 0; i < values.size(); ++i) {
      yaml += fmt::format("{}{}: {}", i == 0 ? "" : ", ", EmbeddingParameterName(i), m.informed[i]);
    }
    yaml += fmt::format("}}\n    residual_trees: {}\n    residual_clip: {}\n",
                        m.residual.tree_count(), m.residual_clip);
  });
  return yaml;
}

std::string EmbeddingResidualBytes(const EmbeddingModels& models, const GpuPeaks& device) {
  proto::KernelResiduals file;
  file.set_version(kCalibrationVersion);
  file.set_platform(device.name);
  ForEachCalibrated(models, [&](LookupKernels kernels, LookupPass pass, const EmbeddingModel& m) {
    if (m.residual.empty()) return;
    auto* e = file.add_ensembles();
    e->set_model(ModelName(kernels, pass));
    e->set_depth(static_cast<uint32_t>(m.residual.depth()));
    e->set_feature_count(static_cast<uint32_t>(m.residual.feature_count()));
    for (const uint8_t f : m.residual.features()) e->add_feature(f);
    for (const float t : m.residual.thresholds()) e->add_threshold(t);
    for (const float v : m.residual.leaves()) e->add_leaf(v);
  });
  if (file.ensembles_size() == 0) return {};
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  file.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

absl::StatusOr<LoadedEmbedding> LoadEmbeddingModels(const std::string& path) {
  return ModelsReader(path).Read();
}

}  // namespace foretrace
