#include "simulator/cost/kernel/launched_kernels.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/contains.h"
#include "simulator/base/real_sizes.h"
#include "simulator/cost/kernel/chunked_steps.h"
#include "simulator/cost/kernel/convolution_names.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/kernel/element_instructions.h"
#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/named_work.h"
#include "simulator/cost/kernel/recorded_convolution.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/tiled_convolution.h"
#include "simulator/cost/kernel/warpgroup_gemm.h"
#include "simulator/cost/operator/element_work.h"
#include "simulator/trace/name_roles.h"

namespace foretrace {
namespace {

// Of GEMMs and convolutions whose sizes are not known; a convolution by Winograd reduces over
// channels alone. Typical of the recordings with shapes (docs/accuracy.md).
constexpr double kTypicalDepth = 256, kTypicalChannels = 128;
// In training the products of one layer, forward and for either gradient, multiply three sizes, of
// which two are their results' and one their reduction: the more results, the shorter the
// reduction, as their ratio within a layer, less between layers. Over the GEMMs of recordings with
// shapes the power is 0.2 (DLRM-8), 0.4 (control), 0.6 (ResNet-50) and 1 (linear), and their depth
// at the mean 316; of inference the power is 0. Four recordings of training without shapes, of
// which three ask for 1, were in view too.
constexpr double kTrainingDepth = 320, kDepthPower = 0.75, kLeastDepth = 16, kMostDepth = 1 << 20;
constexpr double kResultsPerThread = 32;  // of a kernel for matrices whose name has no block
// Winograd's algorithm in one kernel: 256 threads to a block of 128 x 128, and their transforms.
constexpr double kFusedRegisters = 128;
constexpr double kChannelThreads = 512, kChannelRegisters = 40;  // of cuDNN's batch norms
// Strided kernels and gathers take 40 registers a thread.
constexpr double kStridedRegisters = 40;
// A thread of a Winograd transform reads a tile of 4 x 4 and writes its 6 x 6, or the reverse.
constexpr double kTransformElements = 16 + 36;

// The number of at most two digits behind `key`; 0: there is none.
int64_t NumberAfter(std::string_view name, std::string_view key) {
  const size_t at = name.find(key);
  if (at == name.npos) return 0;
  int64_t number = 0;
  constexpr size_t kDigits = 2;
  for (size_t i = at + key.size(); i < std::min(name.size(), at + key.size() + kDigits); ++i) {
    if (name[i] < '0' || name[i] > '9') break;
    number = 10 * number + (name[i] - '0');
  }
  return number;
}

// Elements of a thread of an element-wise kernel.
int64_t ElementsNamed(const Launch& launch, bool strided) {
  if (strided) {
    const int64_t named = NumberAfter(launch.name, "elementwise_kernel<128, ");
    return named > 0 ? named : Launch::kElementsOfThread;
  }
  if (const int64_t vector = NumberAfter(launch.name, "vectorized_elementwise_kernel<")) {
    return std::max(vector, launch.thread_elements);
  }
  // Since 2.6 a parameter behind the tensors, "std::array<char*, 3ul>, 4, ".
  const size_t at = launch.name.find("rray<char*, ");
  const size_t number = at == launch.name.npos ? at : launch.name.find(">, ", at);
  const int64_t stated =
      number == launch.name.npos ? 0 : NumberAfter(launch.name.substr(number), ">, ");
  return stated > 0 ? stated : Launch::kElementsOfThread;
}

double Threads(const Launch& launch, const GpuPeaks& device, double registers) {
  if (launch.attr != nullptr) return launch.attr->blocks() * launch.attr->threads();
  constexpr double kThreadsPerBlock = 128;
  return launch.waves_milli / 1000.0 * device.sms *
         device.resident_blocks(kThreadsPerBlock, registers) * kThreadsPerBlock;
}

KernelWork Moves(KernelKind kind, DType dtype, double elements, double read, double written) {
  KernelWork work;
  work.kind = kind;
  work.dtype = dtype;
  const double bytes = elements * static_cast<double>(ElementSize(dtype));
  work.read = WholeBytes(bytes * read);
  work.written = WholeBytes(bytes * written);
  return work;
}

KernelKind KindOfGemm(std::string_view name) {
  if (IsAttentionKernel(name)) return KernelKind::kAttention;
  return ContainsAny(name,
                     {"cudnn", "conv", "Conv", "wgrad", "dgrad", "fprop", "winograd", "igemm_"})
             ? KernelKind::kConvolution
             : KernelKind::kGemm;
}

// By block, or by thread where the name has no block; its reduction left open.
BlockedGemm BlocksOf(const GpuPeaks& device, const Launch& launch, Precision precision) {
  BlockedGemm gemm;
  gemm.block = GemmBlockOf(launch.name);
  const NamedTile tile = TraitsOfKernel(launch.name).tile;
  if (!gemm.block.known() && tile.known()) {
    gemm.block = {tile.rows, tile.cols, tile.depth, 0};
  }
  if (!gemm.block.known()) {
    // As if each thread had its results in registers, four warps a block.
    constexpr int64_t kRows = 64, kCols = 64, kDepth = 8;
    gemm.block = {kRows, kCols, kDepth, 0};
    const double registers = ContainsAny(launch.name, {"scudnn_winograd"}) ? kFusedRegisters : 0;
    gemm.blocks = Threads(launch, device, registers) * kResultsPerThread / (kRows * kCols);
  } else {
    gemm.element_bytes = precision == Precision::kHalf ? 2 : 4;
    gemm.blocks = launch.attr != nullptr
                      ? launch.attr->blocks()
                      : launch.waves_milli / 1000.0 * device.sms *
                            ResidentBlocks(device, gemm.block, gemm.element_bytes);
  }
  gemm.load_elements = TraitsOfKernel(launch.name).load_elements;
  return gemm;
}

double ResultsOf(const BlockedGemm& gemm) {
  return gemm.blocks * static_cast<double>(gemm.block.rows) * static_cast<double>(gemm.block.cols);
}

// cuBLAS's kernels for a vector have four to eight results a block (grids of the jobs in
// traces/README.md, "Captured").
SimTime LaunchedThinGemm(const KernelModels& models, const Launch& launch, double depth) {
  constexpr int64_t kResults = 4;
  constexpr int64_t kMostBlocks = int64_t{1} << 31;
  const double blocks = std::min(launch.attr->blocks(), static_cast<double>(kMostBlocks));
  const LinearOp op{1, kResults * static_cast<int64_t>(blocks), static_cast<int64_t>(depth)};
  const KernelWork work = Kernels({op, DType::kFloat32, Direction::kForward}).front();
  return SimTime::FromUs(
      ThinGemmUs(models.device(), StreamEfficiency(models), work, WalksReduction(launch.name)));
}

// `depth` 0: as results and the recording's others make likely.
SimTime LaunchedGemm(const KernelModels& models, const Launch& launch, int64_t near_elements,
                     double typical_results, double depth = 0) {
  const GpuPeaks& device = models.device();
  if (launch.attr != nullptr && IsThinGemm(launch.name)) {
    const double clamped = std::clamp(std::round(depth), kLeastDepth, kMostDepth);
    return LaunchedThinGemm(models, launch, depth > 0 ? clamped : kTypicalDepth);
  }
  const Precision precision = TraitsOfKernel(launch.name).precision;
  BlockedGemm gemm = BlocksOf(device, launch, precision);
  if (GoesThroughTiles(device, launch)) {
    const double tile = Positive(gemm.block.rows) * Positive(gemm.block.cols);
    gemm.blocks = std::max(gemm.blocks, static_cast<double>(near_elements) / tile);
  }
  const double results = ResultsOf(gemm);
  gemm.depth = ContainsAny(launch.name, {"winograd"}) ? kTypicalChannels : kTypicalDepth;
  const bool attention = KindOfGemm(launch.name) == KernelKind::kAttention;
  if (depth > 0) {
    gemm.depth = std::clamp(std::round(depth), kLeastDepth, kMostDepth);
  } else if (typical_results > 0 && results > 0 && !attention) {
    const double typical = gemm.depth / kTypicalDepth * kTrainingDepth;
    const double likely = typical * std::pow(typical_results / results, kDepthPower);
    gemm.depth = std::clamp(std::round(likely), kLeastDepth, kMostDepth);
  }
  gemm.written_bytes = results * static_cast<double>(gemm.element_bytes);
  gemm.read_bytes = std::max(results, 2 * gemm.depth * std::sqrt(results)) *
                    static_cast<double>(gemm.element_bytes);
  return SimTime::FromUs(BlockedGemmUs(device, precision, StreamEfficiency(models), gemm));
}

}  // namespace

DType ElementNamed(std::string_view name) {
  if (ContainsAny(name,
                  {"BFloat16", "c10::Half", "<__nv_bfloat16", "<__half", "<__hip_bfloat16"})) {
    return DType::kFloat16;
  }
  if (ContainsAny(name, {"complex<float>"})) return DType::kComplex64;
  return ContainsAny(name, {"<double", "<long", "OpaqueType<8>"}) ? DType::kInt64 : DType::kFloat32;
}

Launch LaunchOf(const TraceStore& store, const RankTrace& rank, NodeIndex kernel) {
  return {.name = store.name(rank, kernel),
          .waves_milli = rank.waves_milli(kernel),
          .attr = rank.launch(kernel)};
}

bool IsAttentionKernel(std::string_view name) { return NamesAttention(name); }

bool IsMatrixKernel(std::string_view name) {
  return IsAttentionKernel(name) || TraitsOfKernel(name).role == KernelRole::kMatmul;
}

bool IsAroundAttention(std::string_view name) {
  return ContainsAny(name, {"cudnn::fusion::", "dot_do_o", "convert_dq"});
}

KernelKind KindOfKernel(std::string_view name) {
  if (ClassOfKernel(name).peers) return KernelKind::kOther;  // what ranks exchange
  if (IsMatrixKernel(name)) return KindOfGemm(name);
  const KernelKind named = NamedWorkOf(name).kind;
  switch (TraitsOfKernel(name).role) {
    case KernelRole::kElementwise:
    case KernelRole::kConverted:
    case KernelRole::kStrided:
    case KernelRole::kStridedConverted: {
      // Their functors have names of what they are a part of.
      const bool moves = named == KernelKind::kFill || named == KernelKind::kCopy ||
                         named == KernelKind::kConcat || named == KernelKind::kIndex;
      return moves ? named : KernelKind::kElementwise;
    }
    case KernelRole::kGather:
      return KernelKind::kIndex;
    default:
      return named;
  }
}

bool GoesThroughTiles(const GpuPeaks& device, const Launch& launch) {
  return launch.attr != nullptr && launch.attr->blocks() <= device.sms &&
         ContainsAny(launch.name, {"sm90", "nvjet", "sm100"});
}

int64_t TensorsNamed(std::string_view name) { return NumberAfter(name, "rray<char*, "); }

double StreamEfficiency(const KernelModels& models) {
  double efficiency = MemoryParameters().bandwidth_efficiency;
  for (const KernelModel& model : models.models()) {
    if (model.key.kind == KernelKind::kElementwise) {
      efficiency = model.memory.bandwidth_efficiency;
    }
  }
  return efficiency;
}

bool ChosenForChip(const GpuPeaks& device, std::string_view recorded_on) {
  if (recorded_on.empty()) return true;
  const auto recorded = FindGpuPeaks(recorded_on);
  return recorded.ok() && Compare(recorded->accelerator, device.accelerator) != DeviceMatch::kOther;
}

bool ByLaunchedGemm(const KernelModels& models, const Launch& launch, const KernelWork& work,
                    Precision precision, Estimate& estimate) {
  if (!IsGemm(work.kind) || std::min({work.m, work.n, work.k, work.batch}) < 1) return false;
  const GpuPeaks& device = models.device();
  // What was measured knows more than the sizes of blocks, but of the library's own choice.
  const bool measured = estimate.source == EstimateSource::kCalibrated && !estimate.extrapolated;
  const GemmBlock block = GemmBlockOf(launch.name);
  // Kernels of older chips, which later ones still run on small GEMMs: few of what was measured.
  const std::string_view chip = device.accelerator.chip;
  const bool older = block.known() && (chip.starts_with("GH") || chip.starts_with("GB"));
  // Later libraries choose among other kernels than what was measured did.
  const WarpgroupTile tile =
      precision == Precision::kHalf ? WarpgroupTileOf(launch.name) : WarpgroupTile();
  if (measured && !older && !tile.known()) return false;
  double us = 0;
  if (tile.known()) {
    us = WarpgroupGemmUs(device, precision, StreamEfficiency(models), tile, work,
                         launch.waves_milli / 1000.0 * device.sms);
  } else if (block.known()) {
    BlockedGemm gemm = BlockedGemmOf(device, block, work, launch.waves_milli / 1000.0);
    gemm.in_turn = launch.after_clearing && block.in_bands;  // flags, where it is CUTLASS's
    us = BlockedGemmUs(device, precision, StreamEfficiency(models), gemm);
  } else if (IsThinGemm(launch.name)) {
    us = ThinGemmUs(device, StreamEfficiency(models), work, WalksReduction(launch.name));
  } else {
    return false;
  }
  estimate = {SimTime::FromUs(us), EstimateSource::kAnalytic, true};
  return true;
}

std::optional<KernelWork> WorkOfLaunch(const Launch& launch, const GpuPeaks& device) {
  const std::string_view name = launch.name;
  if (launch.waves_milli == 0) return std::nullopt;
  const DType dtype = ElementNamed(name);
  if (const auto chunks = WorkOfChunks(launch, device, dtype)) return chunks;
  // A block gathers a row, 16 bytes a thread (aten/src/ATen/native/cuda/IndexKernelUtils.cu).
  if (launch.attr != nullptr && ContainsAny(name, {"vectorized_gather_kernel<16,"})) {
    constexpr double kLoad = 16, kIndex = 8;
    const double rows = launch.attr->blocks(), bytes = kLoad * launch.attr->threads();
    KernelWork work = Moves(KernelKind::kIndex, DType::kInt8, rows, bytes + kIndex, bytes);
    work.blocks = static_cast<int64_t>(std::min(rows, 1e15));
    return work;
  }
  const KernelRole role = TraitsOfKernel(name).role;
  const bool vectors = role == KernelRole::kElementwise || role == KernelRole::kConverted;
  const bool strided = role == KernelRole::kStrided || role == KernelRole::kStridedConverted ||
                       role == KernelRole::kGather;
  int64_t tensors = TensorsNamed(name);
  if (!vectors && !strided) return std::nullopt;
  if (tensors == 0 && vectors) return std::nullopt;
  if (tensors == 0) tensors = 2;
  const double elements = Threads(launch, device, strided ? kStridedRegisters : 0) *
                          static_cast<double>(ElementsNamed(launch, strided));
  KernelWork work = Moves(tensors == 1 ? KernelKind::kFill : KernelKind::kElementwise, dtype,
                          elements, static_cast<double>(tensors - 1), 1);
  if (strided) {
    constexpr int64_t kDimensions = 2;
    work.instructions =
        ElementInstructions(role, {static_cast<int64_t>(elements), tensors, kDimensions, 1});
  }
  return work;
}

void BoundByLaunch(const Launch& launch, const GpuPeaks& device, KernelWork& work) {
  if (work.kind != KernelKind::kIndex) return;
  const auto launched = WorkOfLaunch(launch, device);
  if (!launched || launched->written <= Bytes()) return;
  const auto elements =
      launched->written.count() / std::max<int64_t>(ElementSize(launched->dtype), 1);
  const Bytes most(SaturatingProduct({elements, ElementSize(work.dtype)}));
  if (most >= work.written) return;
  const double share =
      static_cast<double>(most.count()) / static_cast<double>(work.written.count());
  work.read = WholeBytes(static_cast<double>(work.read.count()) * share);
  work.written = most;
  work.instructions *= share;
}

double ResultsOfGemm(const GpuPeaks& device, const Launch& launch) {
  return ResultsOf(BlocksOf(device, launch, TraitsOfKernel(launch.name).precision));
}

SimTime EstimateGemm(const KernelModels& models, const Launch& launch, double depth) {
  return LaunchedGemm(models, launch, 0, 0, depth);
}

double MeanResults(const GpuPeaks& device, std::span<const Launch> launches) {
  // Of equal launches, of which a recording has many, once.
  absl::flat_hash_map<std::pair<std::string_view, uint32_t>, double> results;
  double logarithms = 0, count = 0;
  for (const Launch& launch : launches) {
    if (launch.waves_milli == 0) continue;
    const auto [it, added] = results.try_emplace({launch.name, launch.waves_milli}, 0);
    if (added && TraitsOfKernel(launch.name).role == KernelRole::kMatmul &&
        KindOfGemm(launch.name) != KernelKind::kAttention) {
      it->second = ResultsOfGemm(device, launch);
    }
    if (!(it->second > 0)) continue;
    logarithms += std::log(it->second);
    ++count;
  }
  return count > 0 ? std::exp(logarithms / count) : 0;
}

std::optional<LaunchEstimate> EstimateLaunch(const KernelModels& models, const Launch& launch,
                                             int64_t near_elements, double typical_results) {
  if (launch.waves_milli == 0) return std::nullopt;
  const GpuPeaks& device = models.device();
  const auto predict = [&](const KernelWork& work) {
    return LaunchEstimate{models.Predict(work, Precision::kFloat32).time, work.kind};
  };
  if (const auto work = WorkOfLaunch(launch, device)) {
    LaunchEstimate estimate = predict(*work);
    // Priced by its threads, as what moves elements one by one is.
    if (NamedWorkOf(launch.name).kind == KernelKind::kIndex) estimate.kind = KernelKind::kIndex;
    return estimate;
  }
  const double waves = launch.waves_milli / 1000.0;
  const KernelRole role = TraitsOfKernel(launch.name).role;
  const ConvolutionKernel convolution = ConvolutionKernelOf(launch.name);
  if (role == KernelRole::kTransform && ContainsAny(launch.name, {"ToNhwc", "ToNchw"})) {
    return LaunchEstimate{
        SimTime::FromUs(LayoutTransformUs(device, waves, convolution.element_bytes,
                                          PresentPixels(launch.attr))),
        KernelKind::kConvolution};
  }
  if (role == KernelRole::kMatmul && convolution.part == ConvolutionPart::kWorkspace) {
    return LaunchEstimate{SimTime::FromUs(WorkspaceUs(device)), KernelKind::kConvolution};
  }
  const double threads = Threads(launch, device, 0);
  if (ContainsAny(launch.name, {"scalePackedTensor"})) {  // by 0: clears
    return predict(Moves(KernelKind::kFill, DType::kFloat32, threads, 0, 1));
  }
  if (role == KernelRole::kTransform && ContainsAny(launch.name, {"winograd"})) {
    LaunchEstimate estimate =
        predict(Moves(KernelKind::kCopy, DType::kFloat32, threads * kTransformElements / 2, 1, 1));
    estimate.kind = KernelKind::kConvolution;
    return estimate;
  }
  const bool adds = convolution.part == ConvolutionPart::kSumOfImages ||
                    convolution.part == ConvolutionPart::kSumOfParts;
  if (role == KernelRole::kMatmul && !adds) {
    return LaunchEstimate{LaunchedGemm(models, launch, near_elements, typical_results),
                          KindOfGemm(launch.name)};
  }
  const NamedWork named = NamedWorkOf(launch.name);
  const bool passes_on = named.as_neighbours && near_elements > 0;
  const double elements =
      passes_on ? static_cast<double>(near_elements) : threads * named.elements_per_thread;
  // Sums have latencies of their own.
  const bool sums = named.kind == KernelKind::kReduction;
  const bool channels = named.kind == KernelKind::kBatchNorm && named.read > named.written;
  KernelWork work = Moves(sums || channels ? named.kind : KernelKind::kElementwise,
                          ElementNamed(launch.name), elements, named.read, named.written);
  if (channels) {  // a block each
    const double resident = device.resident_blocks(kChannelThreads, kChannelRegisters);
    work.rows = std::max<int64_t>(std::llround(waves * device.sms * resident), 1);
  }
  work.instructions = ConvertsChunks(launch.name) ? ConvertedChunkInstructions(elements)
                                                  : PoolInstructions(launch.name, elements);
  LaunchEstimate estimate = predict(work);
  estimate.kind = named.kind;
  return estimate;
}

}  // namespace foretrace
