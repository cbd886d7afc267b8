#include "simulator/planning/mappings/training_validation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/release_spread.h"
#include "simulator/mapping/reserved_memory.h"
#include "simulator/planning/dataflow/dataflow_iteration.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

std::set<std::string> Words(const std::string& text) {
  std::set<std::string> words(std::initializer_list<std::string>{""});
  std::string word;
  for (const char c : LowerCase(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else {
      words.insert(std::exchange(word, ""));
    }
  }
  return words;
}

// The first word that is not a vendor's or a system's: "h100" of "DGX H100".
std::string ChipOf(const std::string& gpu) {
  std::string name = LowerCase(gpu);
  for (const std::string_view before : {"nvidia", "dgx", "hgx"}) {
    const size_t rest = name.find_first_not_of(" -_", before.size());
    if (name.starts_with(before) && rest != std::string::npos) name.erase(0, rest);
  }
  return name.substr(0, name.find_first_of(" -_"));
}

// The shipped platform of several nodes whose device shares most words with the row's GPU, among
// those that share the first; nodes of as many devices before others, then those that say that the
// row's source ran on them, and last those that say so of other sources alone.
absl::StatusOr<std::string> PlatformOf(const std::string& gpu, int32_t gpus_per_node,
                                       const std::string& source) {
  std::string best;
  int most = std::numeric_limits<int>::min();
  const std::set<std::string> wanted = Words(gpu);
  const std::string chip = ChipOf(gpu);
  for (const ShippedFile& shipped : ListShipped(kPlatforms)) {
    const std::string& file = shipped.path;
    const auto spec = LoadPlatform(file);
    if (!spec.ok() || spec->node.accelerator.peak(RateKind::kFp16) == FlopRate() ||
        std::max(spec->nodes, spec->max_nodes) < 2) {
      continue;
    }
    const std::set<std::string> words = Words(spec->node.accelerator.name);
    if (!words.contains(chip)) continue;
    int score = 1;
    for (const std::string& word : wanted) score += words.contains(word) ? 2 : 0;
    if (spec->node.devices == gpus_per_node) score += 100;
    const auto& tables = spec->tables;
    const bool ran = std::find(tables.begin(), tables.end(), source) != tables.end();
    if (!tables.empty()) score += ran ? 50 : -50;
    if (score <= most) continue;
    most = score;
    best = file;
  }
  if (best.empty()) {
    return InvalidInput("no platform in topologies/ has the device '{}'; give --platform", gpu);
  }
  return best;
}

// What rows of the same GPUs share.
class Clusters {
 public:
  explicit Clusters(const MappingValidationOptions& options) : o_(options) {}

  struct Cluster {
    ClusterParameters parameters;
    std::string chip;
    Bytes memory;
  };

  absl::StatusOr<const Cluster*> Of(const TrainingRow& row, std::vector<std::string>& notes) {
    const auto key = std::tuple(row.gpu, row.gpus_per_node, row.source, row.config.dtype);
    if (const auto it = known_.find(key); it != known_.end()) return &it->second;
    std::string platform = o_.platform;
    if (platform.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(platform, PlatformOf(row.gpu, row.gpus_per_node, row.source));
    }
    Accelerator device;
    int64_t devices = 0;
    std::vector<std::string> found;
    FORETRACE_ASSIGN_OR_RETURN(ClusterParameters cluster,
                               ClusterOf({.platform = platform,
                                          .calibration = o_.calibration,
                                          .kernels = o_.kernels,
                                          .experts = true},
                                         row.config.dtype, &device, &devices, found));
    notes.push_back(fmt::format("{}: platform {}", row.gpu, fs::path(platform).stem().string()));
    for (const std::string& note : found) notes.push_back(row.gpu + ": " + note);
    return &known_.emplace(key, Cluster{std::move(cluster), device.chip, device.memory_capacity()})
                .first->second;
  }

 private:
  const MappingValidationOptions& o_;
  std::map<std::tuple<std::string, int32_t, std::string, DType>, Cluster> known_;
};

void Summarize(TrainingValidation& result, const CostSources& sources) {
  std::vector<double> errors, absolute, memory, reserved;
  for (const JudgedRow& judged : result.rows) {
    if (!judged.judged()) ++result.refused;
    if (judged.judged() && judged.row.out_of_memory) {
      ++result.out_of_memory;
      result.out_of_memory_predicted += judged.overflows() ? 1 : 0;
    }
    if (!judged.timed()) continue;
    if (judged.row.memory_gib) {
      memory.push_back(judged.memory_gib / *judged.row.memory_gib - 1);
    }
    if (judged.row.reserved_gib) {
      reserved.push_back(judged.reserved_gib / *judged.row.reserved_gib - 1);
    }
    errors.push_back(judged.error);
    absolute.push_back(100 * std::abs(judged.error));
  }
  result.summary = SummarizeErrors(errors);
  result.memory_summary = SummarizeErrors(memory);
  result.reserved_summary = SummarizeErrors(reserved);
  if (!absolute.empty()) result.median_percent = Quantile(absolute, 0.5);
  result.calibrated = sources.share(EstimateSource::kCalibrated);
  result.extrapolated = sources.extrapolated_share();
}

// A stack's slowdown on one model is the median ratio of measured to predicted over its rows of
// the other models.
void FitStacks(TrainingValidation& result) {
  result.fitted = true;
  std::vector<double> errors;
  for (JudgedRow& judged : result.rows) {
    if (!judged.timed()) continue;
    std::vector<double> ratios;
    for (const JudgedRow& other : result.rows) {
      const bool same_stack = other.row.family == judged.row.family;
      if (!other.timed() || !same_stack || other.row.model == judged.row.model) continue;
      ratios.push_back(1 / (1 + other.error));
    }
    if (ratios.empty()) continue;
    judged.fitted_error = (1 + judged.error) * Quantile(ratios, 0.5) - 1;
    errors.push_back(*judged.fitted_error);
  }
  result.fitted_summary = SummarizeErrors(errors);
  result.notes.emplace_back(
      "fitted: each prediction times the median of measured over predicted of its stack's rows of "
      "other models; rows of stacks with one model are left out");
}

void JudgeByDataflow(const ClusterParameters& cluster, JudgedRow& judged) {
  TrainingRow& row = judged.row;
  if (row.out_of_memory) {
    row.refused = "it ran out of memory, and the dataflow model judges times alone";
    return;
  }
  const auto time = DataflowIteration(row.config, row.mapping, cluster);
  if (!time.ok()) {
    row.refused = std::string(time.status().message());
    return;
  }
  judged.predicted = *time;
  judged.error = time->seconds() / row.measured.seconds() - 1;
}

void Judge(Clusters& clusters, bool dataflow, JudgedRow& judged, std::vector<std::string>& notes,
           CostSources& sources) {
  TrainingRow& row = judged.row;
  const auto cluster = clusters.Of(row, notes);
  if (!cluster.ok()) {
    row.refused = std::string(cluster.status().message());
    return;
  }
  ClusterParameters own_cluster = (*cluster)->parameters;
  ApplySoftware(row, (*cluster)->chip, own_cluster);
  judged.device_gib = static_cast<double>((*cluster)->memory.count()) / (int64_t{1} << 30);
  if (!row.out_of_memory) AssumeRecomputation(row, (*cluster)->memory);
  if (dataflow) return JudgeByDataflow(own_cluster, judged);
  const auto estimate = EstimateIteration(row.config, row.mapping, own_cluster);
  if (!estimate.ok()) {
    row.refused = std::string(estimate.status().message());
    return;
  }
  judged.predicted = estimate->time;
  if (estimate->loading == estimate->time) {
    row.notes.emplace_back("the host prepares batches no faster, which the step waits for");
  }
  judged.memory_gib =
      static_cast<double>(MemoryOf(row.config, row.mapping).total().count()) / (int64_t{1} << 30);
  if (row.out_of_memory || row.memory_gib || row.reserved_gib) {
    const auto reserved = ReservedMemoryOf(row.config, row.mapping);
    judged.reserved_gib = reserved.ok() && !row.software.expandable_segments
                              ? static_cast<double>(reserved->count()) / (int64_t{1} << 30)
                              : judged.memory_gib;
  }
  if (row.out_of_memory) return;
  judged.error = estimate->time.seconds() / row.measured.seconds() - 1;
  const CostSources& own = estimate->passes.sources;
  for (size_t i = 0; i < sources.seconds.size(); ++i) sources.seconds[i] += own.seconds[i];
  sources.extrapolated += own.extrapolated;
}

}  // namespace

absl::StatusOr<TrainingValidation> ValidateTrainingRows(const MappingValidationOptions& options) {
  if (!options.fit.empty() || options.hold_out_half) {
    return InvalidInput(
        "--fit and --hold-out-half are for tables without software; --fit-stacks for those with");
  }
  const TrainingModels models(options.workloads);
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<SoftwareStack> stacks, LoadSoftwareStacks());
  FORETRACE_ASSIGN_OR_RETURN(auto rows, LoadTrainingRows(
                                            options.rows,
                                            [&](const std::string& name, bool own_sizes) {
                                              return models.Find(name, own_sizes);
                                            },
                                            stacks));
  Clusters clusters(options);
  TrainingValidation result;
  CostSources sources;
  for (TrainingRow& row : rows) {
    Tell(options.progress, "rows", result.rows.size(), rows.size());
    JudgedRow judged{std::move(row), SimTime(), 0, std::nullopt, 0, 0};
    if (judged.row.refused.empty())
      Judge(clusters, options.dataflow, judged, result.notes, sources);
    result.rows.push_back(std::move(judged));
  }
  std::set<std::string> assumed;
  std::map<std::string, int> idle;
  std::vector<const TrainingRow*> all;
  for (const JudgedRow& judged : result.rows) {
    const TrainingRow& row = judged.row;
    all.push_back(&row);
    if (!row.refused.empty()) continue;
    if (!row.idle.empty()) ++idle[row.idle];
    if (row.family.empty()) {
      assumed.insert(fmt::format("{}: {}", row.stack, kUnknownSoftware));
      continue;
    }
    const std::string since = row.release.empty() ? "" : fmt::format(" since {}", row.release);
    assumed.insert(fmt::format("{}: taken as topologies/stacks/{}.yaml has it{}", row.stack,
                               row.family, since));
  }
  result.notes.insert(result.notes.end(), assumed.begin(), assumed.end());
  for (const auto& [what, count] : idle) {
    result.notes.push_back(fmt::format("{} row{} with a word that changes nothing: {}", count,
                                       count == 1 ? "" : "s", what));
  }
  const std::string spread = Describe(ReleaseSpreads(all));
  if (!spread.empty()) result.notes.push_back(spread);
  Summarize(result, sources);
  if (options.fit_stacks) FitStacks(result);
  return result;
}

}  // namespace foretrace
