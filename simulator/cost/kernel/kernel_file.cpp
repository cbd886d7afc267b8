#include "simulator/cost/kernel/kernel_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "kernel_model.pb.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

constexpr uintmax_t kMaxResidualBytes = 64 << 20;
constexpr float kResidualUnits = 1e4f;  // log residuals of measured shapes are in 1/10,000

// A number of a model under its key in the file.
struct Field {
  const char* key;
  double* value;
  double lower, upper;
};

// The numbers that a model of this form has, in file order, with the range that makes sense.
std::vector<Field> FieldsOf(KernelModel& m) {
  std::vector<Field> fields = {{"floor_us", &m.measurement.floor_us, 0, 1e6},
                               {"overhead_us", &m.measurement.overhead_us, 0, 1e6},
                               {"residual_clip", &m.residual_clip, 0, 3}};
  if (m.measurement.drift_us + m.measurement.drift_growth_us > 0) {  // both are fitted, or none
    fields.push_back({"drift_us", &m.measurement.drift_us, 0, 1e6});
    fields.push_back({"drift_growth_us", &m.measurement.drift_growth_us, 0, 1e6});
  }
  if (m.form == KernelForm::kGemm) {
    fields.push_back({"base_us", &m.gemm.base_us, 0, 1e6});
    fields.push_back({"compute_efficiency", &m.gemm.compute_efficiency, 1e-3, 5});
    fields.push_back({"tile_intensity", &m.gemm.tile_intensity, 0, 1e4});
    fields.push_back({"bandwidth_efficiency", &m.gemm.bandwidth_efficiency, 1e-3, 5});
    if (m.gemm.reduction_step_us > 0) {
      fields.push_back({"reduction_step_us", &m.gemm.reduction_step_us, 0, 1e3});
    }
    if (m.gemm.choice_spread > 0) {  // all four are fitted, or none
      fields.push_back({"overlap_power", &m.gemm.overlap_power, 1, 100});
      fields.push_back({"partial_wave", &m.gemm.partial_wave, 0, 1});
      fields.push_back({"wave_us", &m.gemm.wave_us, 0, 1e6});
      fields.push_back({"choice_spread", &m.gemm.choice_spread, 1e-3, 10});
    }
    if (m.gemm.narrowest_tile > 0) {
      fields.push_back({"narrowest_tile", &m.gemm.narrowest_tile, 1, 32});
    }
    if (m.kriging_share > 0) fields.push_back({"kriging_share", &m.kriging_share, 0, 1});
    if (m.key.kind == KernelKind::kAttention) {
      fields.push_back({"block_us", &m.gemm.block_us, 0, 1e6});
    }
    if (m.key.kind == KernelKind::kConvolution) {
      fields.push_back({"fused_efficiency", &m.gemm.fused_efficiency, 0, 5});
      fields.push_back({"staged_efficiency", &m.gemm.staged_efficiency, 0, 5});
      fields.push_back({"block_us", &m.gemm.block_us, 0, 1e6});
      fields.push_back({"algorithm_spread", &m.gemm.algorithm_spread, 0, 10});
    }
  } else {
    fields.push_back({"base_us", &m.memory.base_us, 0, 1e6});
    fields.push_back({"bandwidth_efficiency", &m.memory.bandwidth_efficiency, 1e-3, 5});
    fields.push_back({"l2_share", &m.memory.l2_share, 1e-3, 100});
    fields.push_back({"row_us", &m.memory.row_us, 0, 1e6});
    fields.push_back({"step_us", &m.memory.step_us, 0, 1e6});
    fields.push_back({"fill_rows", &m.memory.fill_rows, 0, 1e6});
  }
  return fields;
}

std::string ListText(const std::array<int64_t, 4>& values) {
  return fmt::format("[{}, {}, {}, {}]", values[0], values[1], values[2], values[3]);
}

// yaml-cpp throws on conversions; nullopt instead.
template <typename T>
std::optional<T> Get(const YAML::Node& node, const char* key) {
  try {
    if (!node.IsMap() || !node[key]) return std::nullopt;
    return node[key].as<T>();
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
}

absl::StatusOr<KernelKey> ParseKey(const YAML::Node& node) {
  const auto kind = Get<std::string>(node, "kernel"),
             precision = Get<std::string>(node, "precision"), pass = Get<std::string>(node, "pass");
  const auto variant = Get<int>(node, "variant");
  if (!kind || !precision || !pass || !variant) {
    return InvalidInput("a model needs kernel, precision, pass and variant");
  }
  KernelKey key;
  key.kind = ParseKernelKind(*kind);
  if (Name(key.kind) != *kind) return InvalidInput("unknown kernel '{}'", *kind);
  bool known = false;
  for (int i = 0; i < static_cast<int>(Precision::kCount); ++i) {
    if (Name(static_cast<Precision>(i)) != *precision) continue;
    key.precision = static_cast<Precision>(i);
    known = true;
  }
  if (!known) return InvalidInput("unknown precision '{}'", *precision);
  if (*pass != "forward" && *pass != "backward") return InvalidInput("unknown pass '{}'", *pass);
  key.pass = *pass == "forward" ? Direction::kForward : Direction::kBackward;
  if (*variant < 0 || *variant > 3) return InvalidInput("variant {} is not in 0..3", *variant);
  key.variant = static_cast<uint8_t>(*variant);
  return key;
}

absl::StatusOr<KernelModel> ParseModel(const YAML::Node& node) {
  KernelModel model;
  FORETRACE_ASSIGN_OR_RETURN(model.key, ParseKey(node));
  const auto form = Get<std::string>(node, "form");
  if (form != "gemm" && form != "memory") {
    return InvalidInput("{}: form is not gemm or memory", Name(model.key));
  }
  model.form = *form == "gemm" ? KernelForm::kGemm : KernelForm::kMemory;
  // Numbers that only some models have.
  for (const auto& [key, value] : {std::pair{"choice_spread", &model.gemm.choice_spread},
                                   {"kriging_share", &model.kriging_share},
                                   {"reduction_step_us", &model.gemm.reduction_step_us},
                                   {"narrowest_tile", &model.gemm.narrowest_tile}}) {
    if (!node[key]) continue;
    *value = Get<double>(node, key).value_or(-1);
    if (!(*value > 0)) return InvalidInput("{}: {} is not a positive number", Name(model.key), key);
  }
  if (node["drift_us"]) model.measurement.drift_us = 1;  // so that its fields are read below
  for (const Field& field : FieldsOf(model)) {
    const auto value = Get<double>(node, field.key);
    if (!value)
      return InvalidInput("{}: {} is missing or not a number", Name(model.key), field.key);
    if (!(*value >= field.lower && *value <= field.upper)) {
      return InvalidInput("{}: {} = {} is not in [{}, {}]", Name(model.key), field.key, *value,
                          field.lower, field.upper);
    }
    *field.value = *value;
  }
  const auto lower = Get<std::vector<int64_t>>(node, "lower"),
             upper = Get<std::vector<int64_t>>(node, "upper");
  if (!lower || !upper || lower->size() != 4 || upper->size() != 4) {
    return InvalidInput("{}: lower and upper need four integers each", Name(model.key));
  }
  std::copy(lower->begin(), lower->end(), model.lower.begin());
  std::copy(upper->begin(), upper->end(), model.upper.begin());
  model.points = Get<int64_t>(node, "points").value_or(0);
  return model;
}

// What the residual file holds of a model.
struct Residual {
  TreeEnsemble trees;
  ShapeKriging kriging;
  MeasuredShapes measured;
};
using Residuals = std::map<std::string, Residual>;

absl::StatusOr<TreeEnsemble> TreesOf(const proto::TreeEnsemble& e) {
  std::vector<uint8_t> features;
  for (uint32_t f : e.feature()) features.push_back(static_cast<uint8_t>(std::min(f, 255u)));
  if (e.depth() > TreeEnsemble::kMaxDepth || e.feature_count() > kMaxKernelFeatures) {
    return InvalidInput("depth {} over {} features is too large", e.depth(), e.feature_count());
  }
  return TreeEnsemble::Create(static_cast<int>(e.depth()), static_cast<int>(e.feature_count()),
                              std::move(features), {e.threshold().begin(), e.threshold().end()},
                              {e.leaf().begin(), e.leaf().end()});
}

absl::StatusOr<MeasuredShapes> ShapesOf(const proto::MeasuredShapes& file) {
  std::vector<MeasuredShape> shapes;
  for (const auto& matrix : file.matrices()) {
    if (matrix.m_size() != matrix.log_residual_size()) {
      return InvalidInput("a matrix with {} sizes and {} residuals", matrix.m_size(),
                          matrix.log_residual_size());
    }
    for (int i = 0; i < matrix.m_size(); ++i) {
      shapes.push_back({matrix.m(i), matrix.n(), matrix.k(), matrix.batch(),
                        static_cast<float>(matrix.log_residual(i)) / kResidualUnits});
    }
  }
  return MeasuredShapes::Create(std::move(shapes));
}

absl::StatusOr<ShapeKriging> KrigingOf(const proto::ShapeKriging& file) {
  if (file.covariance() != kShapeCovarianceVersion) {
    return InvalidInput(
        "interpolates shapes by version {} of their covariance, where this foretrace has {}; "
        "calibrate kernels again",
        file.covariance(), kShapeCovarianceVersion);
  }
  std::vector<KrigingSlice> slices;
  for (const auto& in : file.slices()) {
    if (in.n_size() != in.k_size() || in.n_size() != in.weight_size()) {
      return InvalidInput("a slice with {} n, {} k and {} weights", in.n_size(), in.k_size(),
                          in.weight_size());
    }
    KrigingSlice& slice = slices.emplace_back();
    slice.m = in.m();
    for (int i = 0; i < in.n_size(); ++i) slice.points.push_back({in.n(i), in.k(i), in.weight(i)});
  }
  return ShapeKriging::Create({file.multiprocessors(), file.l2_mbytes()}, std::move(slices));
}

void AddKriging(const ShapeKriging& kriging, const std::string& model,
                proto::KernelResiduals& file) {
  if (kriging.empty()) return;
  auto* out = file.add_kriging();
  out->set_model(model);
  out->set_multiprocessors(kriging.device().multiprocessors);
  out->set_l2_mbytes(kriging.device().l2_mbytes);
  out->set_covariance(kShapeCovarianceVersion);
  for (const KrigingSlice& slice : kriging.slices()) {
    auto* to = out->add_slices();
    to->set_m(slice.m);
    for (const KrigingPoint& point : slice.points) {
      to->add_n(point.n);
      to->add_k(point.k);
      to->add_weight(point.weight);
    }
  }
}

void AddShapes(const MeasuredShapes& shapes, const std::string& model,
               proto::KernelResiduals& file) {
  if (shapes.empty()) return;
  auto* out = file.add_measured();
  out->set_model(model);
  proto::MeasuredMatrix* matrix = nullptr;
  for (const MeasuredShape& s : shapes.shapes()) {
    if (matrix == nullptr || matrix->n() != s.n || matrix->k() != s.k ||
        matrix->batch() != s.batch) {
      matrix = out->add_matrices();
      matrix->set_n(s.n);
      matrix->set_k(s.k);
      matrix->set_batch(s.batch);
    }
    matrix->add_m(s.m);
    matrix->add_log_residual(static_cast<int32_t>(std::lround(s.log_residual * kResidualUnits)));
  }
}

absl::StatusOr<Residuals> LoadResiduals(const std::filesystem::path& path,
                                        const std::string& platform) {
  const auto bytes = ReadBinaryFile(path.string(), kMaxResidualBytes);
  if (!bytes.ok()) {
    return InvalidInput(
        "{}; kernels.yaml says it has residuals there: restore the file or calibrate again",
        std::string(bytes.status().message()));
  }
  proto::KernelResiduals file;
  // Its own lines on standard error name no file.
  const google::protobuf::LogSilencer silence;
  if (!file.ParseFromString(*bytes)) {
    return InvalidInput("{}: not a kernel residual file, or cut short", path.string());
  }
  if (file.version() != kCalibrationVersion || file.platform() != platform) {
    return InvalidInput(
        "{}: version {} for '{}', but version {} for '{}' is needed; calibrate again",
        path.string(), file.version(), file.platform(), kCalibrationVersion, platform);
  }
  Residuals residuals;
  const auto wrong = [&](const std::string& model, const absl::Status& status) {
    return InvalidInput("{}: {}: {}", path.string(), model, std::string(status.message()));
  };
  for (const auto& e : file.ensembles()) {
    auto trees = TreesOf(e);
    if (!trees.ok()) return wrong(e.model(), trees.status());
    residuals[e.model()].trees = *std::move(trees);
  }
  for (const auto& k : file.kriging()) {
    auto kriging = KrigingOf(k);
    if (!kriging.ok()) return wrong(k.model(), kriging.status());
    residuals[k.model()].kriging = *std::move(kriging);
  }
  for (const auto& m : file.measured()) {
    auto shapes = ShapesOf(m);
    if (!shapes.ok()) return wrong(m.model(), shapes.status());
    residuals[m.model()].measured = *std::move(shapes);
  }
  return residuals;
}

}  // namespace

std::string KernelModelsYaml(const KernelModels& models) {
  std::string yaml = fmt::format("models:\n  device: {}\n  entries:\n", models.device().name);
  for (KernelModel model : models.models()) {
    yaml += fmt::format(
        "  - kernel: {}\n    precision: {}\n    pass: {}\n    variant: {}\n"
        "    form: {}\n    points: {}\n    lower: {}\n    upper: {}\n"
        "    residual_trees: {}\n    measured_shapes: {}\n{}",
        Name(model.key.kind), Name(model.key.precision),
        model.key.pass == Direction::kForward ? "forward" : "backward", model.key.variant,
        Name(model.form), model.points, ListText(model.lower), ListText(model.upper),
        model.residual.tree_count(), model.measured.shapes().size(),
        model.kriging.empty()
            ? ""
            : fmt::format("    kriging_slices: {}\n", model.kriging.slices().size()));
    for (const Field& field : FieldsOf(model)) {
      yaml += fmt::format("    {}: {}\n", field.key, *field.value);
    }
  }
  return yaml;
}

std::string KernelResidualBytes(const KernelModels& models) {
  proto::KernelResiduals file;
  file.set_version(kCalibrationVersion);
  file.set_platform(models.device().name);
  for (const KernelModel& model : models.models()) {
    if (model.residual.empty()) continue;
    auto* e = file.add_ensembles();
    e->set_model(Name(model.key));
    e->set_depth(static_cast<uint32_t>(model.residual.depth()));
    e->set_feature_count(static_cast<uint32_t>(model.residual.feature_count()));
    for (uint8_t f : model.residual.features()) e->add_feature(f);
    for (float t : model.residual.thresholds()) e->add_threshold(t);
    for (float v : model.residual.leaves()) e->add_leaf(v);
    AddKriging(model.kriging, Name(model.key), file);
    AddShapes(model.measured, Name(model.key), file);
  }
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  file.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

absl::StatusOr<LoadedKernels> LoadKernelModels(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  FORETRACE_ASSIGN_OR_RETURN(CalibrationHeader header, ParseHeader(root, path, "kernel"));
  const YAML::Node models = root["models"];
  const auto device_name = Get<std::string>(models, "device");
  if (!device_name) return InvalidInput("{}: models.device is missing", path);
  const auto device = FindGpuPeaks(*device_name);
  if (!device.ok()) {
    return InvalidInput("{}: unknown device '{}': {}", path, *device_name,
                        std::string(device.status().message()));
  }
  const YAML::Node entries = models["entries"];
  if (!entries || !entries.IsSequence()) return InvalidInput("{}: models.entries is missing", path);
  std::vector<KernelModel> list;
  std::optional<Residuals> residuals;
  for (const YAML::Node& node : entries) {
    auto model = ParseModel(node);
    if (!model.ok()) {
      return InvalidInput("{}: line {}: {}", path, node.Mark().line + 1,
                          std::string(model.status().message()));
    }
    const size_t trees = static_cast<size_t>(Get<int64_t>(node, "residual_trees").value_or(0));
    if (trees > 0) {
      if (!residuals) {
        const auto file = std::filesystem::path(path).parent_path() / kKernelResidualFile;
        FORETRACE_ASSIGN_OR_RETURN(residuals, LoadResiduals(file, *device_name));
      }
      const auto it = residuals->find(Name(model->key));
      const size_t shapes = static_cast<size_t>(Get<int64_t>(node, "measured_shapes").value_or(0));
      const size_t slices = static_cast<size_t>(Get<int64_t>(node, "kriging_slices").value_or(0));
      if (it != residuals->end()) model->kriging = it->second.kriging;  // a feature of the trees
      if (it == residuals->end() || it->second.trees.tree_count() != trees ||
          it->second.measured.shapes().size() != shapes ||
          it->second.kriging.slices().size() != slices ||
          it->second.trees.feature_count() != model->feature_count()) {
        return InvalidInput(
            "{}: the residual of {} in {} is missing or of another calibration; "
            "calibrate again",
            path, Name(model->key), kKernelResidualFile);
      }
      model->residual = it->second.trees;
      model->measured = it->second.measured;
    }
    list.push_back(*std::move(model));
  }
  return LoadedKernels{std::move(header), KernelModels(*device, std::move(list))};
}

}  // namespace foretrace
