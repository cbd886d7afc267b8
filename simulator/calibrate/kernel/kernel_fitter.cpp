#include "simulator/calibrate/kernel/kernel_fitter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/split_mix.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/kernel/benchmark_operator.h"
#include "simulator/calibrate/kernel/kernel_fit.h"
#include "simulator/calibrate/kernel/row_units.h"
#include "simulator/calibrate/kernel/uncalibrated_kernels.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/kernel/kernel_file.h"

namespace foretrace {
namespace {

// Sources whose times contain launch and measurement; the others report kernels alone. One line
// each: NeuSight times whole PyTorch calls (shortest 24 us and more).
constexpr std::array<std::string_view, 1> kSourcesWithOverhead = {"neusight"};

bool HasOverhead(const BenchmarkRow& row) {
  return std::ranges::any_of(kSourcesWithOverhead,
                             [&](std::string_view s) { return row.source.starts_with(s); });
}

int64_t OrderOf(const BenchmarkRow& row) { return row.shape.Int("order").value_or(0); }

struct Group {
  KernelKey key;
  std::vector<KernelSample> samples;
  std::set<std::string> stacks;  // that ran them
  bool has_overhead = false;
};

// Models do not tell stacks apart: what differs between them is then error of all.
std::string NoteOnStacks(const std::string& name, const Group& group) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown(group.stacks.begin(), group.stacks.end());
  const size_t all = shown.size();
  shown.resize(std::min(all, kShown));
  return fmt::format(
      "{}: rows of {} stacks ({}{}) are fitted as one; calibrate them apart to keep them apart",
      name, all, fmt::join(shown, "; "), all > kShown ? "; ..." : "");
}

// Rows that are one kernel each, by key, in order of key name.
std::map<std::string, Group> GroupsOf(std::span<const BenchmarkRow> rows,
                                      std::map<std::string, size_t>& skipped) {
  std::map<std::string, Group> groups;
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kKernel) continue;
    const auto op = OperatorOfRow(row);
    if (!op.ok()) {
      ++skipped[fmt::format("rows of operator {} without a model", row.op)];
      continue;
    }
    const KernelList& kernels = op->kernels;
    if (kernels.size() != 1) {
      ++skipped[fmt::format("rows of {} {} that run several kernels", row.op, Name(row.phase))];
      continue;
    }
    const KernelKey key = KeyOf(kernels[0], op->precision);
    Group& group = groups[Name(key)];
    group.key = key;
    group.samples.push_back({kernels[0], row.time_us, OrderOf(row)});
    group.has_overhead |= HasOverhead(row);
    group.stacks.insert(row.library);
  }
  return groups;
}

absl::StatusOr<GpuPeaks> DeviceOf(std::span<const BenchmarkRow> rows) {
  if (rows.empty()) return InvalidInput("no rows to fit kernel models to");
  return FindGpuPeaksOfLabel(rows[0].platform);
}

absl::StatusOr<std::unique_ptr<FittedModels>> FitGroups(std::span<const BenchmarkRow> rows,
                                                        const FitOptions& fit, bool with_residual,
                                                        const KernelModels* prior) {
  FORETRACE_ASSIGN_OR_RETURN(const GpuPeaks device, DeviceOf(rows));
  FORETRACE_RETURN_IF_ERROR(CheckKernelTimes(device, rows));
  std::map<std::string, size_t> skipped;
  const std::map<std::string, Group> groups = GroupsOf(rows, skipped);
  std::vector<std::string> notes;
  for (const auto& [what, count] : skipped)
    notes.push_back(fmt::format("left out {} {}", count, what));
  std::vector<KernelModel> models;
  KernelFitOptions options;
  options.seed = fit.seed;
  options.with_residual = with_residual;
  options.progress = fit.progress;
  // By name, element-wise kernels come first and find what DRAM gives.
  size_t done = 0;
  for (const auto& [name, group] : groups) {
    Tell(fit.progress, "rows of kernels", done, rows.size());
    done += group.samples.size();
    options.has_overhead = group.has_overhead;
    if (group.stacks.size() > 1) notes.push_back(NoteOnStacks(name, group));
    auto model = FitKernelModel(device, group.key, group.samples, options);
    if (absl::IsUnavailable(model.status())) return model.status();
    if (!model.ok()) {
      notes.push_back(std::string(model.status().message()));
      continue;
    }
    if (model->key.kind == KernelKind::kElementwise) {
      options.stream_efficiency =
          std::max(options.stream_efficiency, model->memory.bandwidth_efficiency);
    }
    models.push_back(*std::move(model));
  }
  if (prior != nullptr) {
    for (KernelModel model : prior->models()) {
      const bool fitted =
          std::ranges::any_of(models, [&](const KernelModel& m) { return m.key == model.key; });
      if (fitted) continue;
      if (Compare(prior->device().accelerator, device.accelerator) == DeviceMatch::kOther) {
        model.residual = TreeEnsemble();
        model.residual_clip = 0;
        model.kriging = ShapeKriging();
        model.measured = MeasuredShapes();
      }
      models.push_back(std::move(model));
    }
  }
  if (models.empty())
    return InvalidInput("no kernel model could be fitted: {}", notes.empty() ? "" : notes.back());
  return std::make_unique<FittedKernels>(KernelModels(device, std::move(models)), std::move(notes));
}

uint64_t PartOfHeads(int64_t heads, int64_t key_heads, int64_t size, uint64_t parts,
                     uint64_t seed) {
  const uint64_t all = static_cast<uint64_t>(heads) << 40 ^ static_cast<uint64_t>(key_heads) << 20 ^
                       static_cast<uint64_t>(size);
  return SplitMix64(seed ^ SplitMix64(all)) % parts;
}

// The models that were fitted, on the device of any row.
class Boards {
 public:
  explicit Boards(const KernelModels& fitted) : fitted_(fitted) {}

  const KernelModels& Of(const std::string& platform) {
    const auto [it, inserted] = carried_.try_emplace(platform);
    if (inserted) {
      const auto device = FindGpuPeaksOfLabel(platform);
      const Accelerator& own = fitted_.device().accelerator;
      if (device.ok() && Compare(device->accelerator, own) != DeviceMatch::kSame) {
        it->second = std::make_unique<KernelModels>(CarriedTo(*device, fitted_));
      }
    }
    return it->second != nullptr ? *it->second : fitted_;
  }

 private:
  const KernelModels& fitted_;
  std::map<std::string, std::unique_ptr<KernelModels>> carried_;
};

}  // namespace

std::string ModelNameOf(const BenchmarkRow& row, const KernelKey& key) {
  if (row.op != "elementwise") return Name(key);
  return fmt::format("{} {}", Name(key), row.shape.Text("op").value_or("?"));
}

FittedKernels::FittedKernels(KernelModels models, std::vector<std::string> notes)
    : models_(std::move(models)), notes_(std::move(notes)) {}

std::string FittedKernels::ToYaml() const { return KernelModelsYaml(models_); }

std::vector<std::pair<std::string, std::string>> FittedKernels::SideFiles() const {
  for (const KernelModel& model : models_.models()) {
    if (!model.residual.empty()) {
      return {{std::string(kKernelResidualFile), KernelResidualBytes(models_)}};
    }
  }
  return {};
}

std::vector<EvaluatedRow> FittedKernels::Evaluate(std::span<const BenchmarkRow> rows) const {
  std::vector<EvaluatedRow> evaluated;
  Boards boards(models_);
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kKernel) continue;
    const KernelModels& models = boards.Of(row.platform);
    const auto op = OperatorOfRow(row);
    if (!op.ok()) continue;
    const KernelList& kernels = op->kernels;
    double kernel_us = 0;
    bool covered = !kernels.empty(), extrapolated = false;
    Measurement measurement;
    KernelKey first;
    for (const KernelWork& work : kernels) {
      const KernelKey key = KeyOf(work, op->precision);
      const KernelModel* model = models.Find(key);
      if (model == nullptr) {
        covered = false;
        break;
      }
      if (kernel_us == 0) {
        first = key;
        measurement = model->measurement;
      }
      kernel_us += model->KernelUs(models.device(), work);
      extrapolated |= !model->InRange(work);
    }
    if (!covered) continue;
    evaluated.push_back({&row, ModelNameOf(row, first),
                         measurement.Observed(kernel_us, OrderOf(row)), extrapolated});
  }
  return evaluated;
}

std::vector<std::string> FittedKernels::NotesOn(const std::string& platform) const {
  const auto device = FindGpuPeaksOfLabel(platform);
  if (!device.ok() || device->name == models_.device().name) return {};
  return {"rows are predicted from another device " + DescribeScale(models_.device(), *device)};
}

absl::StatusOr<std::unique_ptr<FittedModels>> KernelFitter::Fit(std::span<const BenchmarkRow> rows,
                                                                const FitOptions& options) const {
  FORETRACE_RETURN_IF_ERROR(CheckForm(*this, options.form));
  return FitGroups(rows, options, options.form != "roofline", nullptr);
}

absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> KernelFitter::Load(
    const std::string& path) const {
  if (path == kNoCalibration) {
    return std::make_pair(CalibrationHeader(),
                          std::unique_ptr<FittedModels>(std::make_unique<UncalibratedKernels>()));
  }
  FORETRACE_ASSIGN_OR_RETURN(LoadedKernels loaded, LoadKernelModels(path));
  return std::make_pair(std::move(loaded.header),
                        std::unique_ptr<FittedModels>(std::make_unique<FittedKernels>(
                            std::move(loaded.models), std::vector<std::string>())));
}

absl::StatusOr<std::unique_ptr<FittedModels>> KernelFitter::Adapt(
    const FittedModels& prior, std::span<const BenchmarkRow> rows) const {
  const auto* kernels = dynamic_cast<const FittedKernels*>(&prior);
  if (kernels == nullptr) return InvalidInput("the prior calibration is not one of kernels");
  return FitGroups(rows, {}, true, &kernels->models());
}

uint64_t PartOfMatrix(int64_t n, int64_t k, uint64_t parts, uint64_t seed) {
  return SplitMix64(seed ^ SplitMix64(static_cast<uint64_t>(n) << 32 ^ static_cast<uint64_t>(k))) %
         parts;
}

absl::StatusOr<RowSplit> KernelFitter::Split(std::span<const BenchmarkRow> rows,
                                             std::string_view rule, uint64_t seed) const {
  FORETRACE_RETURN_IF_ERROR(CheckHoldOutRule(*this, rule));
  RowSplit split;
  std::map<std::string, size_t> counts, taken;
  const auto model_of = [](const BenchmarkRow& row) {
    return fmt::format("{} {} {}", row.op, row.dtype, row.shape.Text("op").value_or(""));
  };
  for (const BenchmarkRow& row : rows) ++counts[model_of(row)];
  for (size_t i = 0; i < rows.size(); ++i) {
    const BenchmarkRow& row = rows[i];
    bool held_out = false;
    if (rule == "random-fifth") {
      held_out = SplitMix64(seed * 0x100000001 + i) % 5 == 0;
    } else if (rule == "unseen-nk") {
      const auto n = row.shape.Int("n"), k = row.shape.Int("k");
      held_out = n && k && PartOfMatrix(*n, *k, 5, seed) == 0;
    } else if (rule == "unseen-heads") {
      const auto heads = row.shape.Int("heads"), kv_heads = row.shape.Int("kv_heads"),
                 d = row.shape.Int("d");
      held_out = heads && kv_heads && d && PartOfHeads(*heads, *kv_heads, *d, 5, seed) == 0;
    } else {  // all but twenty of a model
      size_t& n = taken[model_of(row)];
      const size_t stride = std::max<size_t>(counts[model_of(row)] / 20, 1);
      held_out = (n++ + seed - 1) % stride != 0;
    }
    (held_out ? split.test : split.train).push_back(row);
  }
  return split;
}

}  // namespace foretrace
