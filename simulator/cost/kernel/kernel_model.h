#pragma once
// Calibrated timing models of kernels: a roofline, times a clipped learnt residual where there is
// one, within a known range.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernel_features.h"
#include "simulator/cost/kernel/measured_shapes.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/shape_kriging.h"
#include "simulator/cost/kernel/tree_ensemble.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

enum class KernelForm : uint8_t { kGemm, kMemory, kCount };
std::string_view Name(KernelForm form);

// What a model is for. Element-wise kernels differ by how much they read against what they write;
// softmax by its algorithm, which changes at 1,024 columns; convolutions by whether Winograd's
// algorithms are open to them, and backward by which gradient they compute.
struct KernelKey {
  KernelKind kind = KernelKind::kOther;
  Precision precision = Precision::kFloat32;
  Direction pass = Direction::kForward;
  uint8_t variant = 0;
  bool operator==(const KernelKey&) const = default;
};
KernelKey KeyOf(const KernelWork& work, Precision precision);
// "gemm float32 forward", "softmax/block forward", "conv2d/weight_winograd float32 backward".
std::string Name(const KernelKey& key);

struct KernelModel {
  KernelKey key;
  KernelForm form = KernelForm::kMemory;
  GemmParameters gemm;       // form kGemm
  MemoryParameters memory;   // form kMemory
  Measurement measurement;   // of the rows it was fitted to
  TreeEnsemble residual;     // of log time, after kriging; empty: none
  double residual_clip = 0;  // largest absolute value that the residual may take
  ShapeKriging kriging;      // form kGemm; of log time, between shapes that were measured
  double kriging_share = 0;  // of what kriging says, in the estimate; trees look at all of it
  MeasuredShapes measured;   // form kGemm; what all that leaves, by MeasuredAs
  // Calibrated ranges: of m, n, k and batch for kGemm; of bytes, rows and cols for kMemory.
  std::array<int64_t, 4> lower = {}, upper = {};
  int64_t points = 0;

  // The device of the measurements, where another board of its chip is asked for, and that board at
  // the rates that are compared (RatesBeside); null: the device itself.
  std::shared_ptr<const GpuPeaks> measured_on, carried_to;
  // What was measured is of GEMMs of other kernels than the device's (SameGemmKernels), so that its
  // file alone says how long these take.
  bool of_other_kernels = false;

  int feature_count() const;  // of the residual
  // Roofline and features, without the residual.
  KernelPoint Point(const GpuPeaks& device, const KernelWork& work) const;
  // Multiplies the roofline by that share of what kriging says, and shows that to the trees with
  // what else they look at between shapes. Only with kriging.
  static void AddKriged(const GpuPeaks& device, const KernelWork& work, double log_residual,
                        double share, KernelPoint& point);
  // What the point has so far with the trees' residual.
  double LearntUs(const KernelPoint& point) const;
  // Roofline, kriging and trees, before what was measured of the shape itself.
  double InterpolatedUs(const GpuPeaks& device, KernelPoint point, const KernelWork& work) const;
  // Time of the kernel alone in microseconds. On another board what it took on the one measured, as
  // the rooflines of both relate.
  double KernelUs(const GpuPeaks& device, const KernelWork& work) const;
  bool InRange(const KernelWork& work) const;
};
// Under which shape a measurement of that work is kept, without its residual. GEMMs under their
// own; attention over one query of each sequence or over as many as keys under its heads of keys as
// rows, since sequences and heads are the same to a kernel, of the heads of queries to each, the
// size of a head and the keys. nullopt: none.
std::optional<MeasuredShape> MeasuredAs(const KernelWork& work);
// The quantities that lower and upper bound.
std::array<int64_t, 4> RangeOf(KernelForm form, const KernelWork& work);

// All models of one platform. Immutable and thread-safe. A run asks for few shapes many times over,
// so answers are remembered; that is not visible but in the time taken.
class KernelModels {
 public:
  KernelModels(GpuPeaks device, std::vector<KernelModel> models);
  KernelModels(KernelModels&&) noexcept;
  KernelModels& operator=(KernelModels&&) noexcept;
  ~KernelModels();

  const GpuPeaks& device() const { return device_; }
  std::span<const KernelModel> models() const { return models_; }
  // nullptr when the class, precision or pass was not calibrated.
  const KernelModel* Find(const KernelKey& key) const;
  // Calibrated where there is a model. Otherwise analytic: the nearest calibrated relative (another
  // pass, precision or class of GEMMs, then the class's form at the platform's typical
  // efficiency) on the device's peaks. Deterministic; never fails for a class that computes.
  Estimate Predict(const KernelWork& work, Precision precision) const;

 private:
  class Memo;

  // What resembles it most among the calibrated models, plain GEMMs for any GEMM-like kernel;
  // nullptr: nothing does.
  const KernelModel* Relative(const KernelKey& key) const;
  Estimate PredictAfresh(const KernelWork& work, Precision precision) const;
  // As if elements were moved in vectors.
  Estimate PredictVectors(const KernelWork& work, Precision precision) const;

  GpuPeaks device_;
  std::vector<KernelModel> models_;
  std::vector<int16_t> index_;  // by packed key; -1: none
  KernelModel generic_memory_;
  std::unique_ptr<Memo> memo_;
};

}  // namespace foretrace
