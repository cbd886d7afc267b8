#include "simulator/planning/mappings/training_validation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/release_spread.h"
#include "simulator/mapping/reserved_memory.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/planning/dataflow/dataflow_iteration.h"
#include "simulator/planning/mappings/row_platform.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/planning/mappings/training_models.h"

namespace foretrace {

bool JudgedRow::overflows() const {
  const auto bytes = [](double gib) { return Bytes(std::llround(gib * (int64_t{1} << 30))); };
  return Overflows(bytes(reserved_gib), bytes(device_gib));
}
namespace {

namespace fs = std::filesystem;

// What rows of the same GPUs share.
class Clusters {
 public:
  explicit Clusters(const MappingValidationOptions& options) : o_(options) {}

  struct Cluster {
    ClusterParameters parameters;
    std::string device, chip;
    Bytes memory;
  };

  absl::StatusOr<const Cluster*> Of(TrainingRow& row, std::vector<std::string>& notes) {
    std::string platform = o_.platform;
    if (platform.empty()) {
      // A run that is reported did fit.
      const Bytes needed = row.out_of_memory ? Bytes() : MemoryOf(row.config, row.mapping).total();
      FORETRACE_ASSIGN_OR_RETURN(const RowPlatform found, platforms_.Of(row, needed));
      platform = found.file;
      if (!found.note.empty()) row.notes.push_back(found.note);
    }
    const std::string name = fs::path(platform).stem().string();
    const bool first = named_.emplace(row.gpu, platform).second;
    if (first) notes.push_back(fmt::format("{}: platform {}", row.gpu, name));
    FORETRACE_ASSIGN_OR_RETURN(const Cluster* cluster,
                               Load(platform, name, row.config.dtype, notes));
    if (!row.gpu.empty() && !NamesChipOf(row.gpu, cluster->device)) {
      const std::string other = fmt::format("gpu '{}' is not what --platform {} has, which is {}",
                                            row.gpu, name, cluster->device);
      row.notes.push_back(other);
      if (first) notes.push_back(other);
    }
    return cluster;
  }

 private:
  absl::StatusOr<const Cluster*> Load(const std::string& platform, const std::string& name,
                                      DType dtype, std::vector<std::string>& notes) {
    const auto key = std::pair(platform, dtype);
    if (const auto it = known_.find(key); it != known_.end()) return &it->second;
    Accelerator device;
    int64_t devices = 0;
    std::vector<std::string> found;
    FORETRACE_ASSIGN_OR_RETURN(ClusterParameters cluster,
                               ClusterOf({.platform = platform,
                                          .calibration = o_.calibration,
                                          .kernels = o_.kernels,
                                          .experts = true},
                                         dtype, &device, &devices, found));
    if (std::string note = BesideNote(cluster); !note.empty()) found.push_back(std::move(note));
    for (const std::string& note : found) {
      const std::string own = name + ": " + note;
      if (std::ranges::find(notes, own) == notes.end()) notes.push_back(own);
    }
    return &known_
                .emplace(key, Cluster{std::move(cluster), device.name, device.chip,
                                      device.visible_memory()})
                .first->second;
  }

  const MappingValidationOptions& o_;
  RowPlatforms platforms_;
  std::set<std::pair<std::string, std::string>> named_;  // GPUs and their platforms, noted
  std::map<std::pair<std::string, DType>, Cluster> known_;
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

// Interleaved micro-batches that the stages do not divide take what lies between those numbers
// that they do.
absl::StatusOr<IterationEstimate> EstimateRow(TrainingRow& row, const ClusterParameters& cluster) {
  const ParallelMapping& m = row.mapping;
  const int32_t left = m.microbatches() % m.pipeline;
  if (m.chunks == 1 || left == 0) return EstimateIteration(row.config, m, cluster);
  FORETRACE_ASSIGN_OR_RETURN(const IterationEstimate fewer,
                             EstimateIteration(row.config, WholeGroups(m, false), cluster));
  FORETRACE_ASSIGN_OR_RETURN(IterationEstimate more,
                             EstimateIteration(row.config, WholeGroups(m, true), cluster));
  const double share = static_cast<double>(left) / m.pipeline;
  more.time = fewer.time + SimTime::FromSeconds(share * (more.time - fewer.time).seconds());
  row.notes.push_back(fmt::format("{} micro-batches on {} stages of {} chunks: between {} and {}",
                                  m.microbatches(), m.pipeline, m.chunks, m.microbatches() - left,
                                  m.microbatches() - left + m.pipeline));
  return more;
}

// What a row's mapping cannot be on this platform becomes what it is there, which is noted.
void AdaptToNodes(const ClusterParameters& cluster, TrainingRow& row) {
  const int32_t node = cluster.devices_per_node;
  if (row.node_stated && row.gpus_per_node != node &&
      row.gpus > std::min(row.gpus_per_node, node)) {
    row.notes.push_back(
        fmt::format("nodes of {} devices are taken to be of {}, as the platform has them",
                    row.gpus_per_node, node));
  }
  if ((row.mapping.async_tensor || row.mapping.chunked_tensor) && !RunsInParts(row.mapping, node)) {
    row.mapping.async_tensor = row.mapping.chunked_tensor = false;
    row.notes.emplace_back(
        "exchanges of tensor parallelism between nodes do not go part by part beside GEMMs");
  }
}

void NoteHost(const IterationEstimate& estimate, JudgedRow& judged) {
  if (estimate.loading == estimate.time) {
    judged.row.notes.emplace_back("the host prepares batches no faster, which the step waits for");
  }
  judged.cpu_bound = estimate.CpuBound();
  if (judged.cpu_bound) {
    judged.row.notes.push_back(
        fmt::format("the CPU takes {:.1f} ms to start the step's kernels, by the host that its "
                    "software was measured on, and the step waits for it",
                    estimate.cpu.us() * 1e-3));
  }
}

void JudgeMemory(JudgedRow& judged) {
  TrainingRow& row = judged.row;
  judged.memory_gib = Gib(MemoryOf(row.config, row.mapping).total());
  if (judged.exceeds()) {
    row.notes.push_back(fmt::format(
        "its tensors are predicted to take {:.1f} GiB of the {:.1f} that a device has, in which it "
        "ran",
        judged.memory_gib, judged.device_gib));
  }
  if (!row.out_of_memory && !row.memory_gib && !row.reserved_gib) return;
  const bool interleaves = row.mapping.chunks > 1;
  const auto reserved =
      ReservedMemoryOf(row.config, interleaves ? WholeGroups(row.mapping, true) : row.mapping);
  judged.reserved_gib = reserved.ok() ? Gib(*reserved) : judged.memory_gib;
  if (row.software.prints_reserved && !row.reserved_gib) judged.memory_gib = judged.reserved_gib;
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
  if (row.mapping.fp8 && own_cluster.peak_fp8 <= FlopRate()) {
    row.refused = fmt::format(
        "GEMMs in 8 bits need a device that has them; the platform's for {} states no fp8 rate",
        row.gpu);
    return;
  }
  AdaptToNodes(own_cluster, row);
  judged.device_gib = Gib((*cluster)->memory);
  if (!row.out_of_memory) AssumeRecomputation(row, (*cluster)->memory);
  judged.assumes = !row.notes.empty();
  if (dataflow) return JudgeByDataflow(own_cluster, judged);
  const auto estimate = EstimateRow(row, own_cluster);
  if (!estimate.ok()) {
    row.refused = std::string(estimate.status().message());
    return;
  }
  judged.predicted = estimate->time;
  NoteHost(*estimate, judged);
  JudgeMemory(judged);
  if (row.out_of_memory) return;
  judged.error = estimate->time.seconds() / row.measured.seconds() - 1;
  const CostSources& own = estimate->passes.sources;
  for (size_t i = 0; i < sources.seconds.size(); ++i) sources.seconds[i] += own.seconds[i];
  sources.extrapolated += own.extrapolated;
}

// What rows do not say, and how far releases of software differ.
void NoteAssumptions(TrainingValidation& result) {
  std::set<std::string> assumed;
  std::map<std::string, int> idle;
  std::map<std::string, std::vector<std::string>> unread;  // rows by what they say
  int assumed_gib = 0, exceed = 0, assuming = 0, waiting = 0;
  std::vector<const TrainingRow*> all;
  for (const JudgedRow& judged : result.rows) {
    const TrainingRow& row = judged.row;
    all.push_back(&row);
    if (!row.refused.empty()) continue;
    if (!row.idle.empty()) ++idle[row.idle];
    for (const std::string& what : row.unread) unread[what].push_back(row.name);
    exceed += judged.exceeds() ? 1 : 0;
    assuming += judged.assumes ? 1 : 0;
    waiting += judged.cpu_bound ? 1 : 0;
    assumed_gib += row.assumed_gib ? 1 : 0;
    if (row.family.empty()) {
      assumed.insert(fmt::format("{}: {}", row.stack, kUnknownSoftware));
      continue;
    }
    const std::string since = row.release.empty() ? "" : fmt::format(" since {}", row.release);
    assumed.insert(fmt::format("{}: taken as topologies/stacks/{}.yaml has it{}", row.stack,
                               row.family, since));
  }
  result.notes.insert(result.notes.end(), assumed.begin(), assumed.end());
  for (const auto& [what, rows] : unread) {
    result.notes.push_back(
        fmt::format("{}{}: {}", rows.front(),
                    rows.size() == 1 ? "" : fmt::format(" and {} more", rows.size() - 1), what));
  }
  for (const auto& [what, count] : idle) {
    result.notes.push_back(fmt::format("{} row{} with a word that changes nothing: {}", count,
                                       count == 1 ? "" : "s", what));
  }
  if (exceed > 0) {
    result.notes.push_back(fmt::format(
        "{} row{} ran though the tensors are predicted to take more than a device has (notes of "
        "--json)",
        exceed, exceed == 1 ? "" : "s"));
  }
  if (assuming > 0) {
    result.notes.push_back(fmt::format(
        "{} row{} taken otherwise than stated, or with something assumed (notes of --json)",
        assuming, assuming == 1 ? " is" : "s are"));
  }
  if (waiting > 0) {
    result.notes.push_back(
        fmt::format("{} row{} for the CPU, by the host that its software was measured on (notes of "
                    "--json)",
                    waiting, waiting == 1 ? " waits" : "s wait"));
  }
  if (assumed_gib > 0) {
    result.notes.push_back(fmt::format(
        "memory of {} row{} is stated in GB, which is taken for GiB, as software counts "
        "it; a column memory_GiB, memory_MiB or memory_bytes leaves no doubt",
        assumed_gib, assumed_gib == 1 ? "" : "s"));
  }
  const std::string spread = Describe(ReleaseSpreads(all));
  if (!spread.empty()) result.notes.push_back(spread);
}

}  // namespace

absl::StatusOr<TrainingValidation> ValidateTrainingRows(const MappingValidationOptions& options) {
  if (!options.fit.empty() || options.hold_out_half) {
    return InvalidInput(
        "--fit and --hold-out-half are for tables without software; --fit-stacks for those with");
  }
  const TrainingModels models(options.workloads);
  DeviceDates devices;
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<SoftwareStack> stacks, LoadSoftwareStacks());
  FORETRACE_ASSIGN_OR_RETURN(
      auto rows,
      LoadTrainingRows(
          options.rows,
          [&](const std::string& name, bool own_sizes) { return models.Find(name, own_sizes); },
          stacks, [&](const std::string& name) { return models.Meant(name); },
          {[&](const std::string& name) { return models.Published(name); },
           [&](const std::string& gpu) { return devices.Of(gpu); }, ChipWord}));
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
  NoteAssumptions(result);
  Summarize(result, sources);
  if (options.fit_stacks) FitStacks(result);
  return result;
}

}  // namespace foretrace
