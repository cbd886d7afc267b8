#include "simulator/calibrate/collective/collective_fitter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/collective/collective_fit.h"
#include "simulator/calibrate/collective/stand_ins.h"
#include "simulator/cost/collective/collective_file.h"

namespace foretrace {
namespace {

// The rows of one sweep over sizes.
struct Sweep {
  CollectiveModel key;  // without a curve
  std::vector<const BenchmarkRow*> rows;

  std::vector<SizeTime> Points() const {
    std::vector<SizeTime> points;
    for (const BenchmarkRow* row : rows) {
      points.push_back({static_cast<double>(*row->shape.Int("bytes")), row->time_us});
    }
    return points;
  }
};

CollectiveModel KeyOf(const BenchmarkRow& row) {
  CollectiveModel key;
  key.op = ParseCollectiveOp(row.op);
  key.ranks = static_cast<int32_t>(*row.shape.Int("ranks"));
  key.nodes = static_cast<int32_t>(*row.shape.Int("nodes"));
  key.inplace = *row.shape.Int("inplace") != 0;
  key.dtype = row.dtype;
  key.library = row.library;
  key.source = row.source;
  return key;
}

int64_t SizeOf(const BenchmarkRow& row) { return *row.shape.Int("bytes"); }

// In order of first appearance, each by size.
std::vector<Sweep> SweepsOf(std::span<const BenchmarkRow> rows) {
  std::vector<Sweep> sweeps;
  absl::flat_hash_map<std::string, size_t> index;
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kCollective) continue;
    CollectiveModel key = KeyOf(row);
    const auto [it, inserted] = index.try_emplace(key.Name(), sweeps.size());
    if (inserted) sweeps.push_back({std::move(key), {}});
    sweeps[it->second].rows.push_back(&row);
  }
  for (Sweep& sweep : sweeps) {
    std::stable_sort(
        sweep.rows.begin(), sweep.rows.end(),
        [](const BenchmarkRow* a, const BenchmarkRow* b) { return SizeOf(*a) < SizeOf(*b); });
  }
  return sweeps;
}

absl::Status CheckRanks(std::span<const BenchmarkRow> rows) {
  for (const BenchmarkRow& row : rows) {
    if (row.kind == BenchmarkKind::kCollective && *row.shape.Int("ranks") > (1 << 24)) {
      return InvalidInput("line {}: {} ranks; at most 2^24", row.line, *row.shape.Int("ranks"));
    }
  }
  return absl::OkStatus();
}

CollectiveModel WithCurve(const Sweep& sweep, CollectiveCurve curve) {
  CollectiveModel model = sweep.key;
  model.min_bytes = Bytes(SizeOf(*sweep.rows.front()));
  model.max_bytes = Bytes(SizeOf(*sweep.rows.back()));
  model.points = static_cast<int64_t>(sweep.rows.size());
  model.curve = std::move(curve);
  return model;
}

// Position of the size nearest to the geometric mean of the smallest and the largest.
size_t MiddleSize(const Sweep& sweep) {
  const auto log_size = [&](size_t i) {
    return std::log(static_cast<double>(SizeOf(*sweep.rows[i])));
  };
  const double middle = 0.5 * (log_size(0) + log_size(sweep.rows.size() - 1));
  size_t best = 0;
  for (size_t i = 1; i < sweep.rows.size(); ++i) {
    if (std::abs(log_size(i) - middle) < std::abs(log_size(best) - middle)) best = i;
  }
  return best;
}

bool IsHeldOut(std::string_view rule, const Sweep& sweep, size_t index) {
  if (rule == "every-third") return index % 3 == 2;
  if (rule == "powers-of-two") {
    return !std::has_single_bit(static_cast<uint64_t>(SizeOf(*sweep.rows[index])));
  }
  return index != 0 && index != MiddleSize(sweep) && index + 1 != sweep.rows.size();
}

// Numbers of ranks with a smaller and a larger one measured by the same source within a node.
std::set<std::string> InnerRanks(const std::vector<Sweep>& sweeps) {
  using Family = std::tuple<CollectiveOp, bool, std::string, std::string, std::string>;
  const auto family = [](const CollectiveModel& key) {
    return Family(key.op, key.inplace, key.dtype, key.library, key.source);
  };
  std::map<Family, std::pair<int32_t, int32_t>> range;
  for (const Sweep& sweep : sweeps) {
    if (sweep.key.nodes != 1) continue;
    const auto [it, inserted] =
        range.try_emplace(family(sweep.key), sweep.key.ranks, sweep.key.ranks);
    it->second.first = std::min(it->second.first, sweep.key.ranks);
    it->second.second = std::max(it->second.second, sweep.key.ranks);
  }
  std::set<std::string> inner;
  // Every second one, so that what is held out has measured neighbours.
  std::map<Family, std::set<int32_t>> measured;
  for (const Sweep& sweep : sweeps) {
    if (sweep.key.nodes == 1) measured[family(sweep.key)].insert(sweep.key.ranks);
  }
  for (const Sweep& sweep : sweeps) {
    if (sweep.key.nodes != 1) continue;
    const auto& ranks = measured[family(sweep.key)];
    const auto position = std::distance(ranks.begin(), ranks.find(sweep.key.ranks));
    if (position % 2 == 1 && position + 1 < static_cast<std::ptrdiff_t>(ranks.size())) {
      inner.insert(sweep.key.Name());
    }
  }
  return inner;
}

}  // namespace

FittedCollectives::FittedCollectives(CollectiveCalibration calibration,
                                     std::vector<std::string> notes)
    : calibration_(std::move(calibration)), notes_(std::move(notes)) {}

std::string FittedCollectives::ToYaml() const {
  return CollectiveModelsYaml(calibration_.models());
}

std::vector<EvaluatedRow> FittedCollectives::Evaluate(std::span<const BenchmarkRow> rows) const {
  absl::flat_hash_map<std::string, const CollectiveModel*> by_name;
  for (const CollectiveModel& model : calibration_.models()) by_name.emplace(model.Name(), &model);
  std::vector<EvaluatedRow> evaluated;
  for (const Sweep& sweep : SweepsOf(rows)) {
    const CollectiveModel& key = sweep.key;
    const auto own = by_name.find(key.Name());
    const NearestStack nearest(own == by_name.end() ? &calibration_ : nullptr, key);
    const CollectiveEstimator& looked_up = nearest.estimator();
    if (own == by_name.end() && !looked_up.covered()) continue;
    for (const BenchmarkRow* row : sweep.rows) {
      EvaluatedRow result{row, key.Name(), 0, false};
      if (own != by_name.end()) {
        const CollectiveModel& model = *own->second;
        const Bytes size(SizeOf(*row));
        result.predicted_us = TimeOf(calibration_.models(), model, size).us();
        result.extrapolated = size < model.min_bytes || size > model.max_bytes;
      } else {
        const Estimate estimate = looked_up.Time(Bytes(SizeOf(*row)));
        result.predicted_us = estimate.time.us();
        result.extrapolated = estimate.extrapolated;
        result.by = nearest.library();
      }
      evaluated.push_back(std::move(result));
    }
  }
  return evaluated;
}

absl::StatusOr<std::unique_ptr<FittedModels>> CollectiveFitter::Fit(
    std::span<const BenchmarkRow> rows, const FitOptions& options) const {
  FORETRACE_RETURN_IF_ERROR(CheckForm(*this, options.form));
  const CurveForm wanted = options.form.empty() ? CurveForm::kCurve : ParseCurveForm(options.form);
  FORETRACE_RETURN_IF_ERROR(CheckRanks(rows));
  std::vector<CollectiveModel> models;
  std::vector<std::string> notes;
  const std::vector<Sweep> sweeps = SweepsOf(rows);
  for (const Sweep& sweep : sweeps) {
    Tell(options.progress, "sweeps", static_cast<size_t>(&sweep - sweeps.data()), sweeps.size());
    std::set<int64_t> sizes;
    for (const BenchmarkRow* row : sweep.rows) sizes.insert(SizeOf(*row));
    if (sizes.size() < kMinCurvePoints) {
      notes.push_back(fmt::format("{}: {} sizes, needs {}; left out", sweep.key.Name(),
                                  sizes.size(), kMinCurvePoints));
      continue;
    }
    const double factor = BusFactor(sweep.key.op, sweep.key.ranks);
    auto curve = FitCollectiveCurve(sweep.Points(), factor, wanted, options.seed);
    if (!curve.ok() && wanted == CurveForm::kThreeRegion) {
      notes.push_back(fmt::format("{}: {}; the curve is used", sweep.key.Name(),
                                  std::string(curve.status().message())));
      curve = FitCollectiveCurve(sweep.Points(), factor, CurveForm::kCurve, options.seed);
    }
    if (!curve.ok()) {
      return InFile(sweep.key.Name(), curve.status());
    }
    models.push_back(WithCurve(sweep, *std::move(curve)));
  }
  if (models.empty()) return InvalidInput("no collective has three measured sizes");
  CalibrationHeader header;
  header.interconnect = options.interconnect;
  return std::make_unique<FittedCollectives>(
      CollectiveCalibration(std::move(header), std::move(models)), std::move(notes));
}

absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> CollectiveFitter::Load(
    const std::string& path) const {
  FORETRACE_ASSIGN_OR_RETURN(CollectiveCalibration calibration, LoadCollectiveCalibration(path));
  CalibrationHeader header = calibration.header();
  return std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>(
      std::move(header),
      std::make_unique<FittedCollectives>(std::move(calibration), std::vector<std::string>()));
}

absl::StatusOr<std::unique_ptr<FittedModels>> CollectiveFitter::Adapt(
    const FittedModels& prior, std::span<const BenchmarkRow> rows) const {
  const auto* collectives = dynamic_cast<const FittedCollectives*>(&prior);
  FORETRACE_CHECK(collectives != nullptr);
  const CollectiveCalibration& calibration = collectives->calibration();
  std::vector<CollectiveModel> models;
  std::vector<std::string> notes;
  for (const Sweep& sweep : SweepsOf(rows)) {
    // The prior sweep of the same ranks that covers most of the points.
    const CollectiveModel* best = nullptr;
    size_t best_covered = 0;
    for (const CollectiveModel& model : calibration.models()) {
      if (std::tuple(model.op, model.ranks, model.nodes) !=
          std::tuple(sweep.key.op, sweep.key.ranks, sweep.key.nodes)) {
        continue;
      }
      size_t covered = model.inplace == sweep.key.inplace ? 1 : 0;
      for (const BenchmarkRow* row : sweep.rows) {
        const Bytes size(SizeOf(*row));
        covered += size >= model.min_bytes && size <= model.max_bytes ? 2 : 0;
      }
      if (best == nullptr || covered > best_covered) {
        best = &model;
        best_covered = covered;
      }
    }
    if (best == nullptr) {
      notes.push_back(fmt::format("{}: the prior has no such model", sweep.key.Name()));
      continue;
    }
    const bool same_kind = sweep.rows.front()->platform == calibration.header().platform;
    auto curve = AdaptCollectiveCurve(best->curve, sweep.Points(),
                                      same_kind ? PriorDetail::kKept : PriorDetail::kDropped);
    if (!curve.ok()) {
      return InFile(sweep.key.Name(), curve.status());
    }
    CollectiveModel model = WithCurve(sweep, *std::move(curve));
    model.min_bytes = std::min(model.min_bytes, best->min_bytes);
    model.max_bytes = std::max(model.max_bytes, best->max_bytes);
    models.push_back(std::move(model));
  }
  if (models.empty()) return InvalidInput("no row matches a model of the prior calibration");
  return std::make_unique<FittedCollectives>(
      CollectiveCalibration(calibration.header(), std::move(models)), std::move(notes));
}

absl::StatusOr<RowSplit> CollectiveFitter::Split(std::span<const BenchmarkRow> rows,
                                                 std::string_view rule, uint64_t) const {
  FORETRACE_RETURN_IF_ERROR(CheckHoldOutRule(*this, rule));
  RowSplit split;
  const std::vector<Sweep> sweeps = SweepsOf(rows);
  const std::set<std::string> inner =
      rule == "ranks" ? InnerRanks(sweeps) : std::set<std::string>();
  for (const Sweep& sweep : sweeps) {
    const bool inner_ranks = inner.contains(sweep.key.Name());
    for (size_t i = 0; i < sweep.rows.size(); ++i) {
      const bool test = rule == "ranks" ? inner_ranks : IsHeldOut(rule, sweep, i);
      (test ? split.test : split.train).push_back(*sweep.rows[i]);
    }
  }
  return split;
}

}  // namespace foretrace
