#include "simulator/cost/kernel/recorded_convolution.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/simt_convolution.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/tiled_convolution.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Winograd's tiles of 4 x 4 results: 36 products for an input tile of 6 x 6.
constexpr double kWinogradProducts = 36, kWinogradSide = 4, kFilterPositions = 9;
// Tiles of 32 x 32 have so many frequencies, of real numbers.
constexpr double kFrequencies = 32 * 17;
// A wave of blocks that transform 16 such tiles each (resnet50-b16-fp32, H100, traces/README.md).
constexpr double kFourierCycles = 13000;
// Between two images whose gradients of a filter a thread adds up.
constexpr double kSumCycles = 110;
// Loads that wait for each other: of the parts of a reduction, and of one thread that prepares how
// the tiles of the next kernel are cut up (resnet50-b64-tf32).
constexpr int64_t kPartTrips = 12;
constexpr int64_t kScaleThreads = 256;

double Elements(std::initializer_list<int64_t> sizes) {
  return static_cast<double>(SaturatingProduct(sizes));
}

// Nothing beyond eleven days: shapes come from traces and may be anything.
std::optional<SimTime> TimeOf(double us) {
  constexpr double kMostUs = 1e12;
  return us <= kMostUs ? std::optional(SimTime::FromUs(us)) : std::nullopt;
}

// Of the rate of GEMMs in 16 bits by Ampere's kernels on later chips: threads look up a pixel for
// each of their loads, and in gradients of filters for each step. By tiles of 256 x 64 of
// resnet50-b256-bf16 (0.9), TimeSformer, OWLv2, ViT and Wan2.1 (0.8) and the former's gradient by
// 64 x 128 (H100, traces/README.md).
double ReachedByWarps(const GpuPeaks& device, const ConvolutionKernel& kernel,
                      const KernelWork& work) {
  constexpr double kOfPixels = 0.85, kOfSteps = 0.5;
  const bool later = device.accelerator.instructions.warp_gemms < 1;
  if (!later || !kernel.by_warps || kernel.multiplies || kernel.precision != Precision::kHalf) {
    return 1;
  }
  return work.weight_gradient ? kOfSteps : kOfPixels;
}

}  // namespace

double WorkspaceUs(const GpuPeaks& device) {
  constexpr int64_t kTrips = 6;
  return ColdStartUs(device, kTrips);
}

RecordedConvolution::RecordedConvolution(const GpuPeaks& device, double bandwidth_efficiency,
                                         const Conv2dOp& op, const KernelList& works,
                                         std::span<const std::string_view> names)
    : device_(device),
      bytes_per_us_(device.dram_gbps * 1e3 * bandwidth_efficiency),
      op_(op),
      works_(works),
      groups_(Positive(op.groups)),
      images_(Positive(op.n)),
      channels_(Positive(op.c) / groups_),
      filters_(Positive(op.k) / groups_),
      positions_(Positive(op.r) * Positive(op.s)),
      pixels_(Positive(op.oh) * Positive(op.ow)),
      image_elements_(Elements({op.n, op.c, op.h, op.w})),
      result_elements_(Elements({op.n, op.k, op.oh, op.ow})) {
  for (const std::string_view name : names) {
    const ConvolutionKernel kernel = ConvolutionKernelOf(name);
    sums_images_ |= kernel.part == ConvolutionPart::kSumOfImages;
    into_layout_ += kernel.into_layout ? 1 : 0;
  }
}

double RecordedConvolution::MemoryUs(double bytes) const { return bytes / bytes_per_us_; }

// A call has the gradient of the input first, then that of the filters.
const KernelWork* RecordedConvolution::WorkOf(const ConvolutionKernel& kernel) {
  const KernelWork* input = nullptr;
  const KernelWork* filters = nullptr;
  for (const KernelWork& work : works_) (work.weight_gradient ? filters : input) = &work;
  bool of_filters = kernel.pass == ConvolutionPass::kWeightGradient || filters_gradient_;
  if (kernel.pass == ConvolutionPass::kAny && input_gradient_ && !winograd_ &&
      kernel.part != ConvolutionPart::kFourierGemm) {
    of_filters = true;
  }
  if (input == nullptr || filters == nullptr) return input == nullptr ? filters : input;
  input_gradient_ |= !of_filters;
  return of_filters ? filters : input;
}

double RecordedConvolution::EngineUs(const ConvolutionKernel& kernel,
                                     const KernelWork& work) const {
  const EngineShape shape{images_ * groups_, channels_, filters_, positions_, pixels_};
  const double memory_us = MemoryUs(static_cast<double>(work.total_bytes()));
  switch (kernel.pass) {
    case ConvolutionPass::kInputGradient:
      return InputGradientEngineUs(device_, kernel.block, shape) + memory_us;
    case ConvolutionPass::kWeightGradient:
      return WeightGradientEngineUs(device_, kernel.block, shape);
    default:
      return ForwardEngineUs(device_, kernel.block, shape) + memory_us;
  }
}

// By blocks on multiprocessors: the convolution itself, or products of what was transformed, which
// the last cache holds for the most part.
double RecordedConvolution::BlocksUs(const ConvolutionKernel& kernel,
                                     const KernelWork& work) const {
  const bool forward = work.pass == Direction::kForward;
  SimtGemms gemms{kernel.block, groups_, Positive(work.m), Positive(work.n), Positive(work.k)};
  gemms.channels_last = kernel.channels_last;
  const double of = forward ? channels_ : filters_, to = forward ? filters_ : channels_;
  if (kernel.part == ConvolutionPart::kFourierGemm) {
    gemms.complex = true;
    gemms.batch = kFrequencies * groups_;
    gemms.m = images_;
    gemms.n = to;
    gemms.k = of;
    return SimtGemmsUs(device_, gemms);
  }
  if (!winograd_) {
    return SimtGemmsUs(device_, gemms) + MemoryUs(static_cast<double>(work.total_bytes()));
  }
  const double tiles = images_ * std::ceil(Positive(op_.oh) / kWinogradSide) *
                       std::ceil(Positive(op_.ow) / kWinogradSide);
  gemms.batch = kWinogradProducts * groups_;
  gemms.m = work.weight_gradient ? filters_ : tiles;
  gemms.n = work.weight_gradient ? channels_ : to;
  gemms.k = work.weight_gradient ? tiles : of;
  return SimtGemmsUs(device_, gemms);
}

// Whole loads of 16 bytes.
double RecordedConvolution::PaddedChannels(double element_bytes) const {
  constexpr double kLoad = 16;
  return std::ceil(Positive(op_.c) * element_bytes / kLoad) * kLoad / element_bytes;
}

double RecordedConvolution::TileUs(const ConvolutionKernel& kernel, const KernelWork& work) const {
  TiledGemm gemm;
  gemm.tile = {kernel.block.rows, kernel.block.cols, kernel.block.depth};
  gemm.batch = groups_;
  gemm.m = Positive(work.m);
  gemm.n = Positive(work.n);
  gemm.k = Positive(work.k);
  gemm.positions = work.weight_gradient ? 1 : positions_;
  gemm.reached = ReachedByWarps(device_, kernel, work);
  if (work.weight_gradient && padded_) {
    gemm.n *= PaddedChannels(Positive(ElementSize(work.dtype))) / Positive(op_.c);
  }
  gemm.bytes = static_cast<double>(work.total_bytes());
  gemm.by_warps = kernel.by_warps;
  gemm.scattered = kernel.scattered;
  gemm.narrow = kernel.narrow;
  gemm.shared = work.weight_gradient || kernel.cut_up;
  gemm.transposed = work.weight_gradient && !kernel.multiplies;
  const double size = Positive(ElementSize(work.dtype));
  // With columns innermost each image has products of its own.
  const bool each_image = kernel.multiplies && size > 2 && positions_ <= 1;
  if (each_image && !work.weight_gradient) {
    gemm.batch *= images_;
    gemm.m = pixels_;
  } else if (each_image && sums_images_) {
    gemm.batch *= images_;
    gemm.k = pixels_;
    gemm.bytes += (images_ - 1) * static_cast<double>(work.written.count());
  }
  // A single position at a stride passes over the rest of the image, where channels lie together.
  const double image = Positive(op_.h) * Positive(op_.w);
  const bool over_image = work.pass == Direction::kForward || work.weight_gradient;
  if (positions_ <= 1 && pixels_ < image && over_image && !each_image) {
    gemm.bytes -= image_elements_ * size * (1 - pixels_ / image);
  }
  return TiledGemmUs(device_, kernel.precision, gemm);
}

double RecordedConvolution::MainUs(const ConvolutionKernel& kernel, const KernelWork& work) const {
  switch (kernel.part) {
    case ConvolutionPart::kEngine:
      return EngineUs(kernel, work);
    case ConvolutionPart::kTile:
      return TileUs(kernel, work);
    default:
      return BlocksUs(kernel, work);
  }
}

// Where the launch is not recorded: of operands in the mean of those that are transformed.
double RecordedConvolution::TransformedElements(const ConvolutionKernel& kernel) const {
  const double filters = Elements({op_.k, op_.c, op_.r, op_.s}) / groups_;
  const bool forward = works_.empty() || works_[0].pass == Direction::kForward;
  if (!kernel.into_layout) return forward ? result_elements_ : image_elements_;
  return (image_elements_ + filters + (forward ? 0 : result_elements_)) / std::max(into_layout_, 1);
}

double RecordedConvolution::AroundUs(const ConvolutionKernel& kernel, const Launch& launch) const {
  const double waves = launch.waves_milli / 1000.0;
  const double filter = Positive(op_.k) * Positive(op_.c) / groups_;
  const auto size = Positive(kernel.element_bytes);
  constexpr double kExpands = kWinogradProducts / (kWinogradSide * kWinogradSide);
  const double start_us = ColdStartUs(device_, 2);
  const double cycles_per_us = VectorRatesOf(device_).cycles_per_us;
  using enum ConvolutionPart;
  switch (kernel.part) {
    case kLayout:
      return waves > 0 ? LayoutTransformUs(device_, waves, kernel.element_bytes,
                                           PresentPixels(launch.attr))
                       : start_us + MemoryUs(2 * TransformedElements(kernel) * size);
    case kScale: {
      const double blocks = waves * device_.sms * device_.resident_blocks(kScaleThreads);
      return start_us + std::max(DispatchUs(device_, std::llround(blocks)),
                                 MemoryUs(2 * blocks * kScaleThreads * size));
    }
    case kPad: {  // of the images first, then of the filters or their gradient
      const double positions = padded_ ? Positive(op_.k) * positions_
                                       : Positive(op_.n) * Positive(op_.h) * Positive(op_.w);
      return PaddedImagesUs(device_, positions * PaddedChannels(size));
    }
    case kWinogradData:
      return start_us + MemoryUs(image_elements_ * (1 + kExpands) * size);
    case kWinogradDelta:
    case kWinogradResult:
      return start_us + MemoryUs(result_elements_ * (1 + kExpands) * size);
    case kWinogradFilter:
      return start_us + MemoryUs(filter * (kFilterPositions + kWinogradProducts) * size);
    case kFourierTransform:
      return start_us + std::ceil(std::max(waves, 1.0)) * kFourierCycles / cycles_per_us;
    case kSumOfImages: {
      const double bytes = Positive(op_.n) * filter * Positive(op_.r) * Positive(op_.s) * size;
      return ColdStartUs(device_, 1) +
             std::max(MemoryUs(bytes), Positive(op_.n) * kSumCycles / cycles_per_us);
    }
    case kSumOfParts:
      return ColdStartUs(device_, kPartTrips);
    default:
      return WorkspaceUs(device_);
  }
}

std::optional<SimTime> RecordedConvolution::Next(const Launch& launch) {
  const ConvolutionKernel kernel = ConvolutionKernelOf(launch.name);
  if (kernel.part == ConvolutionPart::kUnknown) return std::nullopt;
  if (!kernel.main()) {
    winograd_ |= kernel.part == ConvolutionPart::kWinogradData;
    filters_gradient_ |= kernel.winograd;
    const double us = AroundUs(kernel, launch);
    padded_ |= kernel.part == ConvolutionPart::kPad;
    return TimeOf(us);
  }
  const KernelWork* work = WorkOf(kernel);
  if (work == nullptr) return std::nullopt;
  const double us = MainUs(kernel, *work);
  winograd_ = filters_gradient_ = false;
  return TimeOf(us);
}

}  // namespace foretrace
