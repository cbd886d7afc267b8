#include "simulator/calibrate/memcpy/memory_fitter.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/collective/collective_fit.h"
#include "simulator/calibrate/trace_rows.h"

namespace foretrace {
namespace {

using CopyKey = std::pair<std::string, bool>;  // direction, pinned

int64_t SizeOf(const BenchmarkRow& row) { return *row.shape.Int("bytes"); }

std::map<CopyKey, std::vector<const BenchmarkRow*>> CopiesOf(std::span<const BenchmarkRow> rows) {
  std::map<CopyKey, std::vector<const BenchmarkRow*>> copies;
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kMemory || row.op != "memcpy" || SizeOf(row) < 1) continue;
    const CopyKey key(*row.shape.Text("direction"), *row.shape.Int("pinned") != 0);
    copies[key].push_back(&row);
  }
  for (auto& [key, sweep] : copies) {
    std::stable_sort(sweep.begin(), sweep.end(), [](const BenchmarkRow* a, const BenchmarkRow* b) {
      return SizeOf(*a) < SizeOf(*b);
    });
  }
  return copies;
}

// One point a size, the median of its copies.
std::vector<SizeTime> PointsOf(const std::vector<const BenchmarkRow*>& sweep) {
  std::vector<SizeTime> points;
  std::vector<double> times;
  for (size_t i = 0; i < sweep.size(); ++i) {
    times.push_back(sweep[i]->time_us);
    if (i + 1 < sweep.size() && SizeOf(*sweep[i + 1]) == SizeOf(*sweep[i])) continue;
    points.push_back({static_cast<double>(SizeOf(*sweep[i])), Quantile(times, 0.5)});
    times.clear();
  }
  return points;
}

CopyModel ModelOf(const CopyKey& key, const std::vector<const BenchmarkRow*>& sweep,
                  CollectiveCurve curve) {
  return {key.first,
          key.second,
          SizeOf(*sweep.front()),
          SizeOf(*sweep.back()),
          static_cast<int64_t>(sweep.size()),
          std::move(curve)};
}

}  // namespace

std::vector<EvaluatedRow> FittedMemory::Evaluate(std::span<const BenchmarkRow> rows) const {
  std::vector<EvaluatedRow> evaluated;
  for (const auto& [key, sweep] : CopiesOf(rows)) {
    const CopyModel* model = copies_.Find(key.first, key.second);
    if (model == nullptr) continue;
    for (const BenchmarkRow* row : sweep) {
      evaluated.push_back({row, model->Name(),
                           model->curve.Time(RealBytes(Bytes(SizeOf(*row)))).us(),
                           !model->InRange(SizeOf(*row))});
    }
  }
  return evaluated;
}

absl::StatusOr<std::unique_ptr<FittedModels>> MemoryFitter::Fit(std::span<const BenchmarkRow> rows,
                                                                const FitOptions& options) const {
  std::vector<CopyModel> models;
  for (const auto& [key, sweep] : CopiesOf(rows)) {
    const std::vector<SizeTime> points = PointsOf(sweep);
    if (points.size() < kMinCurvePoints) continue;
    auto curve = FitCollectiveCurve(points, 1, CurveForm::kCurve, options.seed);
    if (!curve.ok()) {
      return InFile("memcpy " + key.first, curve.status());
    }
    models.push_back(ModelOf(key, sweep, *std::move(curve)));
  }
  if (models.empty()) {
    return InvalidInput("no memcpy rows of {} sizes or more in one direction", kMinCurvePoints);
  }
  return std::make_unique<FittedMemory>(CopyModels(std::move(models)));
}

absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> MemoryFitter::Load(
    const std::string& path) const {
  FORETRACE_ASSIGN_OR_RETURN(LoadedCopies loaded, LoadCopyModels(path));
  return std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>(
      std::move(loaded.header), std::make_unique<FittedMemory>(std::move(loaded.models)));
}

absl::StatusOr<std::unique_ptr<FittedModels>> MemoryFitter::Adapt(
    const FittedModels& prior, std::span<const BenchmarkRow> rows) const {
  const auto* memory = dynamic_cast<const FittedMemory*>(&prior);
  FORETRACE_CHECK(memory != nullptr);
  std::vector<CopyModel> models;
  for (const auto& [key, sweep] : CopiesOf(rows)) {
    for (const CopyModel& model : memory->copies().models()) {
      if (model.direction != key.first || model.pinned != key.second) continue;
      const std::vector<SizeTime> points = PointsOf(sweep);
      FORETRACE_ASSIGN_OR_RETURN(CollectiveCurve curve,
                                 AdaptCollectiveCurve(model.curve, points, PriorDetail::kKept));
      CopyModel adapted = ModelOf(key, sweep, std::move(curve));
      adapted.min_bytes = std::min(adapted.min_bytes, model.min_bytes);
      adapted.max_bytes = std::max(adapted.max_bytes, model.max_bytes);
      models.push_back(std::move(adapted));
    }
  }
  if (models.empty()) return InvalidInput("no row matches a model of the prior calibration");
  return std::make_unique<FittedMemory>(CopyModels(std::move(models)));
}

absl::StatusOr<RowSplit> MemoryFitter::Split(std::span<const BenchmarkRow> rows,
                                             std::string_view rule, uint64_t) const {
  FORETRACE_RETURN_IF_ERROR(CheckHoldOutRule(*this, rule));
  RowSplit split;
  if (rule == kOddRanks || rule == kOddSteps) {
    for (const BenchmarkRow& row : rows) {
      FORETRACE_ASSIGN_OR_RETURN(const bool odd, IsOddOfTrace(row, rule));
      (odd ? split.test : split.train).push_back(row);
    }
    return split;
  }
  for (const auto& [key, sweep] : CopiesOf(rows)) {
    for (size_t i = 0; i < sweep.size(); ++i) {
      (i % 3 == 2 ? split.test : split.train).push_back(*sweep[i]);
    }
  }
  return split;
}

}  // namespace foretrace
