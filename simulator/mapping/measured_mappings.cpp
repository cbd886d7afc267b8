#include "simulator/mapping/measured_mappings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "simulator/base/csv.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/optimise/local_search.h"

namespace foretrace {

namespace {

// In the order of the columns below.
enum Column {
  kGpus,
  kBatch,
  kMicro,
  kHidden,
  kHeads,
  kLayers,
  kSequence,
  kTensor,
  kData,
  kPipeline,
  kTime,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {"# GPUs",
                                                           "global batch",
                                                           "micro batch",
                                                           "hidden size",
                                                           "attention heads",
                                                           "# layers",
                                                           "sequence length",
                                                           "tensor parallelism",
                                                           "data parallelism",
                                                           "pipeline parallelism",
                                                           "iteration time (ms)"};

double& ValueOf(ClusterParameter which, ClusterParameters& p, double& scratch) {
  switch (which) {
    case ClusterParameter::kMatrixEfficiency:
      return p.matrix_efficiency;
    case ClusterParameter::kMatrixHalfSize:
      return p.matrix_half_size;
    case ClusterParameter::kMemoryEfficiency:
      return p.memory_efficiency;
    case ClusterParameter::kProductSlowdown:
      return p.product_slowdown;
    case ClusterParameter::kNodeShare:
      return p.node_share;
    case ClusterParameter::kNicShare:
      return p.nic_share;
    default:
      return scratch;
  }
}

double Get(ClusterParameter which, ClusterParameters p) {
  double scratch = 0;
  switch (which) {
    case ClusterParameter::kLaunchFloor:
      return p.launch_floor.seconds();
    default:
      return ValueOf(which, p, scratch);
  }
}

void Set(ClusterParameter which, double value, ClusterParameters& p) {
  double scratch = 0;
  switch (which) {
    // What links attain in training lies around what the platform's data say: beyond it by as much
    // as an efficiency of 0.7 in them leaves, below it by as much.
    case ClusterParameter::kNodeShare:
    case ClusterParameter::kNicShare:
      ValueOf(which, p, scratch) = std::clamp(value, 1 / 1.4, 1.4);
      return;
    case ClusterParameter::kLaunchFloor:
      p.launch_floor = SimTime::FromSeconds(std::min(value, 0.1));
      return;
    case ClusterParameter::kMatrixHalfSize:
      p.matrix_half_size = std::min(value, 1e4);
      return;
    case ClusterParameter::kProductSlowdown:
      p.product_slowdown = std::clamp(value, 0.8, 1.5);
      return;
    default:
      ValueOf(which, p, scratch) = std::clamp(value, 0.3, 0.95);
  }
}

}  // namespace

std::string_view Name(ClusterParameter parameter) {
  static constexpr std::array<std::string_view, 7> kParameterNames = {
      "matrix_efficiency", "matrix_half_size", "memory_efficiency", "node_share",
      "nic_share",         "launch_floor",     "product_slowdown"};
  return EnumName(kParameterNames, parameter);
}

absl::StatusOr<std::vector<MeasuredMapping>> LoadMeasuredMappings(const std::string& path,
                                                                  int64_t vocabulary,
                                                                  Recompute recompute) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(path, kMaxTableBytes));
  const size_t begin = content.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return InvalidInput("{}: the file is empty", path);
  if (content[begin] == '{') return internal::LoadCalculonTable(path, content, vocabulary);
  const std::vector<std::string_view> lines = SplitLines(content);
  const std::vector<std::string> header = SplitCsvLine(lines[0]);
  std::array<size_t, kColumns> position{};
  for (size_t c = 0; c < kColumns; ++c) {
    const auto it = std::find(header.begin(), header.end(), kNames[c]);
    if (it == header.end()) return InvalidInput("{}:1: column '{}' is missing", path, kNames[c]);
    position[c] = static_cast<size_t>(it - header.begin());
  }
  std::vector<MeasuredMapping> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t number = i + 1;
    if (lines[i].find_first_not_of(" \r") == std::string_view::npos) continue;
    const std::vector<std::string> fields = SplitCsvLine(lines[i]);
    std::array<double, kColumns> value{};
    for (size_t c = 0; c < kColumns; ++c) {
      const std::string_view f =
          position[c] < fields.size() ? std::string_view(fields[position[c]]) : "";
      const auto [end, error] = std::from_chars(f.data(), f.data() + f.size(), value[c]);
      const bool whole = c == kTime || value[c] == std::floor(value[c]);
      if (error != std::errc() || end != f.data() + f.size() || !(value[c] > 0) || value[c] > 1e9 ||
          !whole) {
        return InvalidInput("{}:{}: '{}' must be a positive number, not '{}'", path, number,
                            kNames[c], f);
      }
    }
    MeasuredMapping row;
    row.name = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), number);
    row.model.hidden = static_cast<int64_t>(value[kHidden]);
    row.model.heads = static_cast<int64_t>(value[kHeads]);
    row.model.layers = static_cast<int64_t>(value[kLayers]);
    row.model.sequence = static_cast<int64_t>(value[kSequence]);
    row.model.vocabulary = vocabulary;
    row.mapping.tensor = static_cast<int32_t>(value[kTensor]);
    row.mapping.data = static_cast<int32_t>(value[kData]);
    row.mapping.pipeline = static_cast<int32_t>(value[kPipeline]);
    row.mapping.micro_batch = static_cast<int32_t>(value[kMicro]);
    row.mapping.global_batch = static_cast<int32_t>(value[kBatch]);
    row.mapping.recompute = recompute;
    row.measured = SimTime::FromUs(value[kTime] * 1e3);
    const absl::Status ok =
        CheckMapping(row.model, row.mapping, static_cast<int64_t>(value[kGpus]));
    if (!ok.ok()) return InvalidInput("{}:{}: {}", path, number, std::string(ok.message()));
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return InvalidInput("{}: no rows", path);
  return rows;
}

absl::StatusOr<ClusterParameters> FitCluster(const std::vector<MeasuredMapping>& rows,
                                             const ClusterParameters& start,
                                             const std::vector<ClusterParameter>& free) {
  if (rows.empty()) return InvalidInput("nothing to fit to");
  absl::Status status;
  const auto cost = [&](const ClusterParameters& p) {
    double sum = 0;
    for (const MeasuredMapping& row : rows) {
      const auto estimate = EstimateIteration(row.model, row.mapping, p);
      if (!estimate.ok()) {
        status = estimate.status();
        return 0.0;
      }
      sum += std::abs(estimate->time.seconds() / row.measured.seconds() - 1);
    }
    return sum / static_cast<double>(rows.size());
  };
  const auto move = [&](ClusterParameters p, size_t i, double by) {
    Set(free[i], Get(free[i], p) * (by > 0 ? 1 + by : 1 / (1 - by)), p);
    return p;
  };
  const ClusterParameters best =
      DescendByCoordinate(start, free.size(), {.first = 0.2, .least = 1e-6}, move, cost);
  FORETRACE_RETURN_IF_ERROR(status);
  return best;
}

}  // namespace foretrace
