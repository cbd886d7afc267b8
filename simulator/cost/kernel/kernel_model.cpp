#include "simulator/cost/kernel/kernel_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/cost/kernel/analytic_convolution.h"
#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/analytic_memory.h"
#include "simulator/cost/kernel/analytic_rows.h"
#include "simulator/cost/kernel/convolution_roofline.h"
#include "simulator/cost/kernel/depthwise_convolution.h"
#include "simulator/cost/kernel/kernel_memo.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

constexpr size_t kVariants = 4;
constexpr uint8_t kImplicitOnly = 1, kWeightGradient = 2;  // bits of a convolution's variant
constexpr uint8_t kOneQuery = 1, kDeepHeads = 2;           // attention's variants
// Up to which elements of a head the gradients' kernels keep their widest tiles, as much of a block
// stays in registers and shared memory (FlashAttention-3, hopper/flash_bwd_launch_template.h).
constexpr int64_t kShallowHead = 128;
constexpr size_t kKeys = static_cast<size_t>(KernelKind::kCount) *
                         static_cast<size_t>(Precision::kCount) *
                         static_cast<size_t>(Direction::kCount) * kVariants;

size_t Packed(const KernelKey& key) {
  return ((static_cast<size_t>(key.kind) * static_cast<size_t>(Precision::kCount) +
           static_cast<size_t>(key.precision)) *
              static_cast<size_t>(Direction::kCount) +
          static_cast<size_t>(key.pass)) *
             kVariants +
         key.variant;
}

bool IsGemmLike(KernelKind kind) {
  return IsGemm(kind) || kind == KernelKind::kConvolution || kind == KernelKind::kAttention;
}

// How much a model says of kernels of another key on the device: more is better, negative is
// nothing.
int Likeness(const KernelKey& model, const KernelKey& key, const GpuPeaks& device) {
  const int differing = model.variant ^ key.variant;
  if (model.kind == key.kind) {
    // Other algorithms say nothing; the gradient of a convolution's weights runs like the rest,
    // and heads of one depth like those of another.
    const int algorithm = key.kind == KernelKind::kConvolution ? differing & kImplicitOnly
                          : key.kind == KernelKind::kAttention ? differing & kOneQuery
                                                               : differing;
    if (algorithm != 0) return -1;
  } else if (!IsGemmLike(key.kind) || !IsGemm(model.kind)) {
    return -1;
  }
  // Kernels on tensor cores resemble each other, whatever they compute, more than those without.
  const bool alike =
      device.has_tensor_cores(model.precision) == device.has_tensor_cores(key.precision);
  return (alike ? 16 : 0) + (model.kind == key.kind ? 8 : 0) +
         (model.kind == KernelKind::kGemm ? 4 : 0) + (differing == 0 ? 2 : 0) +
         (model.pass == key.pass ? 1 : 0);
}

// Rows that the device holds at once take one row's time, of which a benchmark shows little beside
// its own launches (NeuSight's A100: 35 us around norms of 6): the chain of a row's loads and sums
// is the better estimate where it is less.
double RowsUs(const KernelModel& model, const GpuPeaks& device, const KernelWork& work) {
  const double us = model.KernelUs(device, work);
  if (model.measurement.overhead_us <= 0 || GeometryOf(device, work).waves > 1) return us;
  return std::min(us, AnalyticRowsUs(model.memory, device, work));
}

// Whether its kernels load, compute and store, so that how they start is all that small ones do.
bool Streams(KernelKind kind) {
  switch (kind) {
    case KernelKind::kBatchNorm:
    case KernelKind::kElementwise:
    case KernelKind::kDropout:
    case KernelKind::kCopy:
    case KernelKind::kTranspose:
    case KernelKind::kIndex:
    case KernelKind::kPooling:
    case KernelKind::kOptimizer:
    case KernelKind::kOther:
      return true;
    default:
      return false;
  }
}

// How well an element-wise kernel's arithmetic hides behind its loads (SmoothSum's power): threads
// that load eight elements have enough to do until the next ones arrive. Captured jobs' silu and
// gelu (H100, traces/README.md), within 3 % where they move 0.2 to 3 GB.
double OverlapOf(const KernelWork& work) {
  constexpr int64_t kWide = 8;
  return work.load_elements >= kWide ? 4 : 2;
}

// Of a result.
double FlopOfElement(const KernelWork& work) {
  const double size = static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  return work.flop.count() * size / static_cast<double>(std::max<int64_t>(work.written.count(), 1));
}

double OperandBytes(Precision precision) {
  if (precision == Precision::kFloat8 || precision == Precision::kInt8) return 1;
  return precision == Precision::kHalf ? 2 : 4;
}

}  // namespace

std::string_view Name(KernelForm form) {
  static constexpr std::array<std::string_view, 2> kNames = {"gemm", "memory"};
  return EnumName(kNames, form);
}

KernelKey KeyOf(const KernelWork& work, Precision precision) {
  // Memory-bound kernels do the same whatever they compute in: bytes carry the type.
  KernelKey key{work.kind, IsGemmLike(work.kind) ? precision : Precision::kFloat32, work.pass, 0};
  if (work.kind == KernelKind::kSoftmax) key.variant = KeepsRowsInRegisters(work) ? 0 : 1;
  if (work.kind == KernelKind::kElementwise) {
    // Reads for each write: one operand, or two and more.
    key.variant = 2 * work.read.count() > 3 * work.written.count() ? 1 : 0;
  }
  if (work.kind == KernelKind::kConvolution) {
    key.variant = static_cast<uint8_t>((IsWinograd(work) ? 0 : kImplicitOnly) |
                                       (work.weight_gradient ? kWeightGradient : 0));
  }
  // One query of each sequence: kernels split the keys, which others do not.
  if (work.kind == KernelKind::kAttention) {
    const bool deep = work.pass == Direction::kBackward && work.k > kShallowHead;
    key.variant = work.m <= 1 ? kOneQuery : deep ? kDeepHeads : 0;
  }
  // Element-wise and data-moving kernels are the same code in either direction.
  if (!IsGemmLike(work.kind) && !IsRowWise(work) && work.kind != KernelKind::kBatchNorm) {
    key.pass = Direction::kForward;
  }
  // Backward GEMMs are GEMMs.
  if (IsGemm(work.kind)) {
    key.pass = Direction::kForward;
  }
  return key;
}

std::string Name(const KernelKey& key) {
  std::string_view variant;
  if (key.kind == KernelKind::kSoftmax) variant = key.variant == 1 ? "/block" : "/warp";
  if (key.kind == KernelKind::kElementwise) variant = key.variant == 1 ? "/binary" : "/unary";
  if (key.kind == KernelKind::kAttention) {
    static constexpr std::array<std::string_view, kVariants> kAttention = {"", "/decode", "/deep",
                                                                           ""};
    variant = kAttention[key.variant % kVariants];
  }
  if (key.kind == KernelKind::kConvolution) {
    static constexpr std::array<std::string_view, kVariants> kConvolutions = {
        "/winograd", "/implicit", "/weight_winograd", "/weight_implicit"};
    variant = kConvolutions[key.variant % kVariants];
  }
  const std::string_view pass = key.pass == Direction::kForward ? "forward" : "backward";
  if (!IsGemmLike(key.kind)) return fmt::format("{}{} {}", Name(key.kind), variant, pass);
  return fmt::format("{}{} {} {}", Name(key.kind), variant, Name(key.precision), pass);
}

std::array<int64_t, 4> RangeOf(KernelForm form, const KernelWork& work) {
  if (form == KernelForm::kGemm) return {work.m, work.n, work.k, work.batch};
  return {work.total_bytes(), work.rows, work.cols, 0};
}

KernelPoint KernelModel::Point(const GpuPeaks& device, const KernelWork& work) const {
  return form == KernelForm::kGemm ? GemmPoint(gemm, device, key.precision, work)
                                   : MemoryPoint(memory, device, work);
}

int KernelModel::feature_count() const {
  if (form != KernelForm::kGemm) return kMemoryFeatureCount;
  return GemmFeatureCount(key.kind) + (kriging.empty() ? 0 : kInterpolatedFeatureCount);
}

void KernelModel::AddKriged(const GpuPeaks& device, const KernelWork& work, double log_residual,
                            double share, KernelPoint& point) {
  point.kernel_us *= std::exp(share * log_residual);
  AddInterpolatedFeatures(device, work, log_residual, point);
}

double KernelModel::LearntUs(const KernelPoint& point) const {
  if (residual.empty()) return point.kernel_us;
  const double r = residual.Evaluate(
      std::span<const float>(point.features.data(), static_cast<size_t>(residual.feature_count())));
  return point.kernel_us * std::exp(std::clamp(r, -residual_clip, residual_clip));
}

double KernelModel::InterpolatedUs(const GpuPeaks& device, KernelPoint point,
                                   const KernelWork& work) const {
  if (!kriging.empty()) {
    const double log_residual = kriging.LogResidual(work.m, work.n, work.k);
    AddKriged(device, work, log_residual, kriging_share, point);
  }
  return LearntUs(point);
}

double KernelModel::KernelUs(const GpuPeaks& device, const KernelWork& work) const {
  if (of_other_kernels) return AnalyticGemmUs(device, key.precision, work);
  const GpuPeaks& known = measured_on != nullptr ? *measured_on : device;
  const KernelPoint point = Point(known, work);
  double us = InterpolatedUs(known, point, work);
  if (measured_on != nullptr) us *= Point(*carried_to, work).kernel_us / point.kernel_us;
  if (measured.empty()) return us;
  const auto at = MeasuredAs(work);
  if (!at) return us;
  // One query of each sequence streams its keys, so that what was measured between its neighbours
  // says what it takes; GEMMs of tiles jump from one shape to the next.
  const bool streams = work.kind == KernelKind::kAttention && work.m == 1;
  return us * std::exp(streams ? measured.LogResidualBetween(at->m, at->n, at->k, at->batch)
                               : measured.LogResidual(at->m, at->n, at->k, at->batch));
}

std::optional<MeasuredShape> MeasuredAs(const KernelWork& work) {
  if (std::min({work.m, work.n, work.k, work.batch}) < 1) return std::nullopt;
  if (IsGemm(work.kind)) return MeasuredShape{work.m, work.n, work.k, work.batch, 0};
  const bool attention = work.kind == KernelKind::kAttention && work.pass == Direction::kForward;
  if (!attention || (work.m != 1 && work.m != work.n)) return std::nullopt;
  const double heads = KeyHeads(work);
  return MeasuredShape{std::llround(heads), std::llround(static_cast<double>(work.batch) / heads),
                       work.k, work.n, 0};
}

bool KernelModel::InRange(const KernelWork& work) const {
  const auto at = RangeOf(form, work);
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < lower[i] || at[i] > upper[i]) return false;
  }
  return true;
}

KernelModels::KernelModels(KernelModels&&) noexcept = default;
KernelModels& KernelModels::operator=(KernelModels&&) noexcept = default;
KernelModels::~KernelModels() = default;

KernelModels::KernelModels(GpuPeaks device, std::vector<KernelModel> models)
    : device_(std::move(device)),
      models_(std::move(models)),
      index_(kKeys, -1),
      memo_(std::make_unique<Memo>()) {
  for (size_t i = 0; i < models_.size(); ++i) {
    index_[Packed(models_[i].key)] = static_cast<int16_t>(i);
  }
  // A class without a model of its own streams like the platform's element-wise kernels.
  generic_memory_.memory.base_us = device_.accelerator.instructions.shortest_kernel.us();
  for (const KernelModel& model : models_) {
    if (model.key.kind != KernelKind::kElementwise) continue;
    generic_memory_.memory = model.memory;
    generic_memory_.memory.l2_share = MemoryParameters().l2_share;  // of which those say nothing
  }
}

const KernelModel* KernelModels::Find(const KernelKey& key) const {
  int16_t at = index_[Packed(key)];
  if (at < 0 && key.kind == KernelKind::kAttention && key.variant == kDeepHeads) {
    KernelKey shallow = key;
    shallow.variant = 0;
    at = index_[Packed(shallow)];
  }
  return at < 0 ? nullptr : &models_[static_cast<size_t>(at)];
}

const KernelModel* KernelModels::Relative(const KernelKey& key) const {
  const KernelModel* relative = nullptr;
  int best = -1;
  for (const KernelModel& model : models_) {
    const int likeness = Likeness(model.key, key, device_);
    if (likeness <= best) continue;
    best = likeness;
    relative = &model;
  }
  return relative;
}

Estimate KernelModels::Predict(const KernelWork& work, Precision precision) const {
  const Memo::Key key = Memo::KeyOf(work, precision);
  if (const std::optional<Estimate> known = memo_->Find(key)) return *known;
  const Estimate estimate = PredictAfresh(work, precision);
  memo_->Insert(key, estimate);
  return estimate;
}

Estimate KernelModels::PredictAfresh(const KernelWork& work, Precision precision) const {
  Estimate estimate = PredictVectors(work, precision);
  double us = estimate.time.us();
  if (work.kind == KernelKind::kElementwise && work.trips > 0) {
    const double base_us = generic_memory_.memory.base_us;
    us = std::max(us, base_us + PastCacheUs(device_, work));
    us = base_us + WithCachedInputUs(device_, work, us - base_us);
  }
  if (work.instructions > 0) {
    // Loads and the arithmetic on indices hide behind each other in part; what transposes reach of
    // the bandwidth was measured with that arithmetic within.
    const double index_us = InstructionUs(device_, work.instructions);
    us = work.kind == KernelKind::kTranspose ? SmoothMax(us, index_us) : SmoothSum(us, index_us, 2);
    estimate.extrapolated = true;
  }
  if (work.scattered > 0) {
    us = std::max(us, generic_memory_.memory.base_us + ScatteredUs(device_, work.scattered));
    estimate.extrapolated = true;
  }
  // What no table covers starts as in a job.
  const bool cold = estimate.source == EstimateSource::kAnalytic && Streams(work.kind);
  const int64_t trips = work.trips > 0 ? work.trips : cold ? 1 : 0;
  if (trips > 0) {
    double waits_us = ColdStartUs(device_, trips);
    if (work.kind == KernelKind::kElementwise) {
      if (work.trips > 0) us = SmoothSum(us, ArithmeticUs(device_, work.flop), OverlapOf(work));
      if (cold && work.trips == 0) waits_us += ChainUs(device_, FlopOfElement(work));
    }
    const double base_us = generic_memory_.memory.base_us;
    const double moved_us = std::max(us - base_us, 0.0);
    us = base_us +
         (work.trips_are_steps ? SmoothSum(moved_us, waits_us, 2) : SmoothMax(moved_us, waits_us));
  }
  if (work.blocks > 0) {
    // An element-wise kernel's last block loads when all have been handed out.
    const double last_us = work.kind == KernelKind::kElementwise ? ColdStartUs(device_, 1) : 0;
    us = std::max(us, generic_memory_.memory.base_us + DispatchUs(device_, work.blocks) + last_us);
  }
  estimate.time = SimTime::FromUs(us);
  return estimate;
}

Estimate KernelModels::PredictVectors(const KernelWork& work, Precision precision) const {
  const bool gemm_like = IsGemmLike(work.kind);
  const KernelKey key = KeyOf(work, precision);
  if (const KernelModel* model = Find(key)) {
    const double us =
        IsRowWise(work) ? RowsUs(*model, device_, work) : model->KernelUs(device_, work);
    return {SimTime::FromUs(us), EstimateSource::kCalibrated, !model->InRange(work)};
  }
  const KernelModel* relative = Relative(key);
  // Kernels of other units say nothing of a GEMM's, and GEMMs nothing of what is around a
  // convolution on tensor cores, or of one without.
  const bool tensor = device_.has_tensor_cores(key.precision);
  const bool other_units =
      relative == nullptr || device_.has_tensor_cores(relative->key.precision) != tensor;
  if (key.kind == KernelKind::kConvolution &&
      (relative == nullptr || IsDepthwise(work) ||
       (tensor && relative->key.kind != KernelKind::kConvolution))) {
    const double us = AnalyticConvolutionUs(device_, key.precision, work);
    return {SimTime::FromUs(us), EstimateSource::kAnalytic, true};
  }
  if (IsGemm(key.kind) && other_units) {
    const double us = AnalyticGemmUs(device_, key.precision, work);
    return {SimTime::FromUs(us), EstimateSource::kAnalytic, true};
  }
  KernelModel model = generic_memory_;
  model.form = gemm_like ? KernelForm::kGemm : KernelForm::kMemory;
  if (relative != nullptr) {
    model.gemm = relative->gemm;
    model.memory = relative->memory;
    model.measurement = relative->measurement;
    model.key = relative->key;
  }
  if (key.kind == KernelKind::kAttention && other_units) {
    model.gemm = AnalyticGemm(device_, key.precision);
    model.key = key;
  }
  // Operands reach faster units over the same paths: what a tile must reuse grows with the peak and
  // with the size of an operand.
  model.gemm.tile_intensity *= device_.peak_tflops(key.precision) * OperandBytes(key.precision) /
                               device_.peak_tflops(model.key.precision) /
                               OperandBytes(model.key.precision);
  model.key = key;
  const double us = gemm_like             ? model.KernelUs(device_, work)
                    : !IsRowWise(work)    ? AnalyticMemoryUs(model.memory, device_, work)
                    : relative == nullptr ? AnalyticRowsUs(model.memory, device_, work)
                                          : RowsUs(model, device_, work);
  return {SimTime::FromUs(us), EstimateSource::kAnalytic, true};
}

}  // namespace foretrace
