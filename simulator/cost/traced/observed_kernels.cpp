#include "simulator/cost/traced/observed_kernels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/chunked_steps.h"
#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/concat_kernels.h"
#include "simulator/cost/kernel/element_instructions.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/scan_steps.h"
#include "simulator/cost/operator/element_work.h"
#include "simulator/cost/traced/observed_losses.h"
#include "simulator/cost/traced/observed_norms.h"

namespace foretrace {
namespace {

// Sorts are helpers of the lookups whose indices they sort; what moves elements in the call of a
// GEMM spreads its addend over the result first.
bool IsHelper(KernelRole role, const OperatorCall& call) {
  if (role == KernelRole::kSort) return std::holds_alternative<EmbeddingOp>(call.shape);
  const bool gemm = std::holds_alternative<LinearOp>(call.shape) ||
                    std::holds_alternative<BatchedMatmulOp>(call.shape);
  const bool moves = role == KernelRole::kElementwise || role == KernelRole::kConverted ||
                     role == KernelRole::kStrided || role == KernelRole::kStridedConverted;
  if (gemm && moves) return true;
  return role == KernelRole::kTransform || role == KernelRole::kSplitReduce;
}

// Trips of a thread beyond its first element. Its elements are taken in turn: what it stores may be
// where it loads next, as far as the compiler knows, or each branches by its type. A block of 128
// threads takes 128 elements first.
int64_t TurnsOf(const KernelTraits& traits, const ElementAccess& access) {
  constexpr int64_t kThreads = 128;
  const int64_t filled = (std::max<int64_t>(access.elements, 1) - 1) / kThreads + 1;
  return std::max<int64_t>(std::min(traits.elements_in_turn, filled) - 1, 0);
}

// Dependent loads of a thread of that kernel: of what a model of its class does not know anyway.
int64_t TripsOf(const GpuPeaks& device, KernelKind kind, const KernelTraits& traits,
                const ElementAccess& access) {
  // A thread that looks types up takes the code of its case, then of the conversion.
  constexpr int64_t kConversion = 2;
  // One that walks dimensions divides its index by each but the last, where the one before has left
  // it; divisors and strides are arguments (c10's OffsetCalculator).
  constexpr int64_t kMostDimensions = 4;
  const bool strides =
      traits.role == KernelRole::kStrided || traits.role == KernelRole::kStridedConverted;
  const bool converts =
      traits.role == KernelRole::kConverted || traits.role == KernelRole::kStridedConverted;
  const int64_t code = converts && !LaunchesFetchCode(device) ? kConversion : 0;
  switch (kind) {
    case KernelKind::kElementwise:
    case KernelKind::kCopy:
    case KernelKind::kTranspose:
    case KernelKind::kOptimizer:
    case KernelKind::kOther:
      return (strides ? std::clamp<int64_t>(access.dimensions - 1, 1, kMostDimensions) : 1) + code +
             TurnsOf(traits, access);
    case KernelKind::kIndex: {
      // A thread has four elements, and takes them in turn: each index, then what it points to.
      constexpr int64_t kElements = 4;
      const auto chain = std::max<int64_t>(access.indices, 1) + 1;
      return traits.role == KernelRole::kGather ? kElements * chain : chain;
    }
    default:
      return 0;
  }
}

// Tensors of more than 2^31 bytes are gone through in parts, by a launch each
// (aten/src/ATen/TensorIterator.cpp, with_32bit_indexing).
bool InParts(const RankTrace& rank, std::span<const NodeIndex> kernels) {
  return std::ranges::all_of(kernels, [&](NodeIndex node) {
    return rank.kind(node) == NodeKind::kKernel && rank.name(node) == rank.name(kernels.front());
  });
}

// Kernels whose launches say how their threads find what they move.
void AsLaunched(const GpuPeaks& device, std::string_view name, KernelWork& work,
                const ElementAccess& access) {
  // A block gathers one row, by an index that is read once for it however wide it was expanded
  // (aten/src/ATen/native/cuda/IndexKernelUtils.cu, vectorized_gather_kernel).
  if (name.find("vectorized_gather_kernel<") != name.npos && access.rows > 0) {
    constexpr int64_t kIndex = 8;
    work.read =
        Bytes(SaturatingProduct({access.rows, work.written.count() / access.rows + kIndex}));
    work.blocks = access.rows;
  }
  // Adding along an index: as many blocks of 128 threads as 8 for each multiprocessor go over the
  // elements (aten/src/ATen/native/cuda/Indexing.cu, indexFuncLargeIndex), each of which reads an
  // index, then a value, then adds it where it belongs.
  if (name.find("indexFuncLargeIndex<") != name.npos) {
    constexpr int64_t kThreads = 128, kBlocks = 8, kTrips = 3;
    const int64_t threads = kThreads * kBlocks * std::max<int64_t>(std::lround(device.sms), 1);
    work.trips = kTrips * ((std::max<int64_t>(access.elements, 1) - 1) / threads + 1);
  }
  if (ConvertsChunks(name)) {
    work.instructions = ConvertedChunkInstructions(static_cast<double>(work.written.count()) /
                                                   static_cast<double>(sizeof(float)));
  }
}

// Kernels that take eight elements of 16 bits at a time (PyTorch 2.7 and later) compute as much
// with this share of the instructions; set by gelu of bert-base-b64-bf16 (H100, traces/README.md,
// "Captured"), which streams where TimeSformer's, by four, computes.
void AsVectorsOfEight(std::string_view name, KernelWork& work) {
  constexpr double kShare = 0.75;
  constexpr int64_t kElements = 8;
  if (name.find("vectorized_elementwise_kernel<8,") == name.npos) return;
  work.flop = Flop(work.flop.count() * kShare);
  work.load_elements = kElements;
}

// Blocks of 128 threads with a vector each, of 8 bytes where four elements of 16 bits are one, may
// take longer to be handed out than their bytes.
void AddBlocks(const Launch& launch, const ElementAccess& access, KernelWork& work) {
  constexpr std::string_view kVectors = "vectorized_elementwise_kernel<";
  constexpr int64_t kThreads = 128, kFour = 4, kEight = 8;
  constexpr double kMost = 1e15;  // grids of files may be of any size
  const size_t at = launch.name.find(kVectors);
  if (at == launch.name.npos || work.kind != KernelKind::kElementwise) return;
  const bool eight = launch.name.substr(at + kVectors.size()).starts_with('8');
  const int64_t of_block = kThreads * (eight ? kEight : kFour);
  work.blocks = launch.attr != nullptr
                    ? static_cast<int64_t>(std::min(launch.attr->blocks(), kMost))
                    : (std::max<int64_t>(access.elements, 1) - 1) / of_block + 1;
}

// Kernels of reductions that PyTorch's compiler generates have a block for a row, or a few; those
// of point-wise work have tiles where tensors lie differently (torch/_inductor/codegen/triton.py).
// Rows of a tensor that lies the other way are stored element by element, neighbours of which
// belong to other blocks, or to the block's next rows. Sectors that the cache cannot hold until
// their other elements come are read and written back for each.
void AddStoresAcrossRows(const GpuPeaks& device, const Launch& launch, const ElementAccess& access,
                         KernelWork& work) {
  constexpr int64_t kSector = 32;
  const int64_t scattered = access.scattered.value_or(0);
  if (TraitsOfKernel(launch.name).role != KernelRole::kReduction || scattered <= 0 ||
      !launch.name.starts_with("triton_") || access.rows <= 0 || launch.attr == nullptr) {
    return;
  }
  const double waves = std::max(launch.waves_milli / 1000.0, 1.0);
  const double held = launch.attr->blocks() / waves * static_cast<double>(scattered * kSector) *
                      static_cast<double>(access.largest / access.rows);
  work.scattered = SaturatingProduct({access.largest, scattered});
  if (held < device.l2_mbytes * 1e6) return;
  constexpr int64_t kMost = int64_t{1} << 61;
  const Bytes sectors(std::min(SaturatingProduct({work.scattered, kSector}), kMost));
  work.read += sectors;
  work.written += sectors;
}

// PyTorch's sums of gradients over the rows of a layer norm (aten/src/ATen/native/cuda/
// layer_norm_kernel.cu, GammaBetaBackwardCUDAKernel, since 2.7 ...KernelTemplate): 32 threads share
// the rows of a column, each eight at a step, before which one of them takes the rows' means and
// deviations to shared memory, one after the other: trips to L2, eight of which take about as long
// as three to DRAM; the template takes two where the cache still holds the tensors. Where the
// template takes other blocks, for few rows, its name says so.
void AddStepsOfWeights(const GpuPeaks& device, std::string_view name, KernelWork& work) {
  constexpr int64_t kRowsOfStep = 32 * 8, kTrips = 3, kCachedTrips = 2;
  const bool older = name.find("GammaBetaBackwardCUDAKernel<") != name.npos;
  const bool steps = older || (name.find("GammaBetaBackwardCUDAKernelTemplate<") != name.npos &&
                               name.find(", 32u, 32u, 256u, ") != name.npos);
  if (!steps) return;
  const bool cached = !older && static_cast<double>(work.read.count()) < device.l2_mbytes * 1e6;
  work.kind = KernelKind::kOther;  // its own steps are all that it waits for
  work.trips_are_steps = !older && !cached;
  work.trips = 1 + (cached ? kCachedTrips : kTrips) *
                       ((std::max<int64_t>(work.cols, 1) - 1) / kRowsOfStep + 1);
}

// A type of so many bytes; kUnknown: there is none.
DType OfSize(int64_t bytes) {
  switch (bytes) {
    case 1:
      return DType::kInt8;
    case 2:
      return DType::kFloat16;
    case 4:
      return DType::kFloat32;
    case 8:
      return DType::kInt64;
    case 16:
      return DType::kComplex128;
    default:
      return DType::kUnknown;
  }
}

// Shapes do not say whether a copy is contiguous, whether attention is masked, nor of what type the
// tensors of a list are; the kernel that was chosen does.
void Specify(std::string_view name, const KernelTraits& traits, OperatorCall& call) {
  auto* copy = std::get_if<CopyOp>(&call.shape);
  const bool strided =
      traits.role == KernelRole::kStrided || traits.role == KernelRole::kStridedConverted;
  if (copy != nullptr && strided) copy->strided = true;
  if (std::holds_alternative<ConcatOp>(call.shape)) {
    const DType listed = strided ? ElementNamed(name) : OfSize(traits.element_bytes);
    if (listed != DType::kUnknown) call.dtype = listed;
  }
  // "FusedAdamMathFunctor<c10::BFloat16, 4, ..." (aten/src/ATen/native/cuda/ForeachFunctors.cuh).
  const bool listed = std::holds_alternative<OptimizerOp>(call.shape) ||
                      std::holds_alternative<ElementwiseOp>(call.shape);
  if (listed && ContainsAny(name, {"multi_tensor_apply_kernel<"}) &&
      ContainsAny(name, {"Functor<c10::BFloat16", "Functor<c10::Half"})) {
    call.dtype = DType::kFloat16;
  }
  auto* attention = std::get_if<AttentionOp>(&call.shape);
  if (attention != nullptr && traits.flash_attention_2) attention->causal = traits.causal;
}

// Where PyTorch's kernel keeps rows (aten/src/ATen/native/cuda/SoftMax.cu).
RowPlace PlaceOfRows(std::string_view name) {
  if (ContainsAny(name, {"softmax_warp_"})) return RowPlace::kWarp;
  if (ContainsAny(name, {"cunn_SoftMaxForwardReg<"})) return RowPlace::kBlock;
  if (ContainsAny(name, {"cunn_SoftMaxForward"})) return RowPlace::kMemory;
  return RowPlace::kByColumns;
}

// Elements that a thread of a sum along rows has under way: those of a vector of 16 bytes where
// the kernel is made for it ("..., float, 4, 8>": since 2.7), else four.
int64_t LoadsOfSum(std::string_view name, DType dtype) {
  constexpr int64_t kVector = 16, kElsewhere = 4;
  const bool vectors = ContainsAny(name, {", 4, 8>"});
  return vectors ? kVector / std::max<int64_t>(ElementSize(dtype), 1) : kElsewhere;
}

// Loads of 16 bytes; residuals are read and written beside the input.
void AsEngineNorm(int64_t residuals, KernelWork& work) {
  constexpr int64_t kWidestLoad = 16;
  work.load_elements = kWidestLoad / std::max<int64_t>(ElementSize(work.dtype), 1);
  work.read = Bytes(SaturatingProduct({work.read.count(), 1 + residuals}));
  work.written = Bytes(SaturatingProduct({work.written.count(), 1 + residuals}));
}

// What the names of a call's kernels say together.
struct Seen {
  bool tf32 = false, half = false, float8 = false, by_warps = false, statistics = false;
  int64_t load_elements = 0;
  KernelTraits last;  // of the last kernel

  Precision precision(Precision of_call) const {
    return float8 ? Precision::kFloat8 : half ? Precision::kHalf : of_call;
  }
};

Seen ReadNames(const TraceStore& store, const RankTrace& rank, std::span<const NodeIndex> kernels,
               ObservedKernels& observed) {
  Seen seen;
  for (const NodeIndex node : kernels) {
    const KernelTraits traits = TraitsOfKernel(store.name(rank, node));
    const bool kernel = rank.kind(node) == NodeKind::kKernel;
    seen.tf32 |= traits.precision == Precision::kTensorFloat32;
    seen.half |= traits.precision == Precision::kHalf;
    seen.float8 |= traits.precision == Precision::kFloat8;
    seen.by_warps |= traits.flash_attention_2 || traits.by_warps;
    seen.load_elements = std::max(seen.load_elements, traits.load_elements);
    if (kernel) seen.last = traits;
    const bool around = std::holds_alternative<AttentionOp>(observed.call.shape) &&
                        IsAroundAttention(store.name(rank, node));
    if (rank.kind(node) != NodeKind::kMemset && !around && !IsHelper(traits.role, observed.call)) {
      observed.mains.push_back(node);
    }
    Specify(store.name(rank, node), traits, observed.call);
    seen.statistics |= kernel && TakesStatistics(store.name(rank, node));
  }
  return seen;
}

// A concatenation by copies: each launch's share by its blocks, alike where these are not known.
bool SplitIntoCopies(const TraceStore& store, const RankTrace& rank, const KernelWork& whole,
                     int64_t elements, ObservedKernels& observed) {
  const std::vector<NodeIndex>& mains = observed.mains;
  if (!std::holds_alternative<ConcatOp>(observed.call.shape) || mains.size() < 2) return false;
  std::vector<double> blocks;
  for (const NodeIndex node : mains) {
    const KernelRole role = TraitsOfKernel(store.name(rank, node)).role;
    if (rank.kind(node) != NodeKind::kKernel || role != KernelRole::kStrided) return false;
    const Launch launch = LaunchOf(store, rank, node);
    blocks.push_back(launch.attr != nullptr ? launch.attr->blocks() : 1);
  }
  const double all = std::accumulate(blocks.begin(), blocks.end(), 0.0);
  observed.list.clear();
  for (const double own : blocks) {
    observed.list.push_back(CopyOfConcat(
        whole, std::llround(static_cast<double>(elements) * own / std::max(all, 1.0))));
  }
  return true;
}

bool MultipliesIntegers(const OperatorCall& call) {
  const bool product = std::holds_alternative<LinearOp>(call.shape) ||
                       std::holds_alternative<BatchedMatmulOp>(call.shape) ||
                       std::holds_alternative<Conv2dOp>(call.shape);
  return product && (call.dtype == DType::kInt8 || call.dtype == DType::kUInt8);
}

// The only kernel of an operator, of which its call has launched `kernels`.
void Refine(const GpuPeaks& device, const TraceStore& store, const RankTrace& rank,
            const TracedOperator& traced, const Seen& seen, std::span<const NodeIndex> kernels,
            const ObservedKernels& observed, KernelWork& work) {
  const NodeIndex first = kernels.front();
  const std::string_view name = store.name(rank, first);
  const bool forward = observed.call.pass == Direction::kForward;
  // Given the statistics, one pass over the input is enough.
  if (work.kind == KernelKind::kBatchNorm && forward && !seen.statistics) work.read = work.written;
  if (work.kind == KernelKind::kBatchNorm) AsSingleRead(device, name, work);
  if (traced.engine_norm) AsEngineNorm(traced.residuals, work);
  // vectorized_layer_norm_kernel<type, accumulator, rms_norm>.
  constexpr std::string_view kNorm = "vectorized_layer_norm_kernel<";
  work.mean_square = ContainsAny(name, {kNorm}) && ContainsAny(name, {"float, true>("});
  work.load_elements = std::max(work.load_elements, seen.load_elements);
  work.by_warps = seen.by_warps;
  if (work.kind == KernelKind::kSoftmax) work.row_place = PlaceOfRows(name);
  if (work.kind == KernelKind::kReduction) work.load_elements = LoadsOfSum(name, work.dtype);
  if (const auto* concat = std::get_if<ConcatOp>(&observed.call.shape)) {
    work.parts = ContainsAny(name, {"CatArrayBatchedCopy_"}) ? 0 : concat->parts;
  }
  if (const auto* pool = std::get_if<PoolOp>(&observed.call.shape)) {
    work.instructions = PoolInstructions(name, static_cast<double>(pool->input_elements));
  }
  if (rank.kind(first) == NodeKind::kKernel) {
    work.trips = TripsOf(device, work.kind, seen.last, traced.access);
    AsLaunched(device, name, work, traced.access);
    AsVectorsOfEight(name, work);
    AddStepsOfChosen(name, work);
    AddOnlineSoftmax(name, traced.access, work);
    const Launch launch = LaunchOf(store, rank, first);
    if (seen.last.role == KernelRole::kConcat)
      AsConcatByElements(device, launch, traced.access, work);
    AddBlocks(launch, traced.access, work);
    if (const int64_t trips = TripsOfScan(launch, traced.access)) {
      work.trips = trips;
      work.trips_are_steps = true;
    }
    AddStoresAcrossRows(device, launch, traced.access, work);
    if (const double share = BandwidthShareOfChunks(launch, device); share < 1) {
      work.kind = KernelKind::kOptimizer;
      work.bandwidth_share = share;
    }
  } else if (rank.kind(first) == NodeKind::kMemcpy) {
    work.trips = 1;  // within the device a kernel copies too
  }
}

}  // namespace

ObservedKernels Observe(const GpuPeaks& device, const TraceStore& store, const RankTrace& rank,
                        const TracedOperator& traced, std::span<const NodeIndex> kernels) {
  ObservedKernels observed;
  observed.call = traced.op;
  const Seen seen = ReadNames(store, rank, kernels, observed);
  observed.precision = seen.precision(MultipliesIntegers(observed.call)
                                          ? device.integer_precision()
                                          : PrecisionOf(observed.call.dtype, seen.tf32));
  observed.list = Kernels(observed.call);
  // A gradient without the product before it: a fused kernel's.
  if (std::holds_alternative<SoftmaxOp>(observed.call.shape) && observed.mains.size() == 1 &&
      observed.list.size() == 2) {
    observed.list.erase(observed.list.begin());
  }
  // Other gradients of a norm's weights than PyTorch's take no such steps.
  if (traced.op.pass == Direction::kBackward && observed.list.size() == 2 &&
      std::holds_alternative<LayerNormOp>(observed.call.shape)) {
    KernelWork& weights = observed.list[1];
    weights.kind = KernelKind::kReduction;
    weights.trips = 0;
    if (observed.mains.size() == 2) {
      AddStepsOfWeights(device, store.name(rank, observed.mains[1]), weights);
    }
  }
  if (traced.every_kernel && !observed.mains.empty()) {
    observed.list.resize(observed.mains.size(), KernelWork(observed.list[0]));
  }
  if (observed.list.size() != 1) return observed;
  KernelWork& work = observed.list[0];
  const NodeIndex together = ChannelsLast(store, rank, observed.mains);
  if (work.kind == KernelKind::kBatchNorm && together.valid()) {
    observed.list = ChannelsLastNorm(work, observed.call.pass == Direction::kForward,
                                     rank.waves_milli(together) / 1000.0);
    return observed;
  }
  if (SplitIntoCopies(store, rank, KernelWork(work), traced.access.elements, observed)) {
    return observed;
  }
  work.scattered = SaturatingProduct({traced.access.elements, traced.access.scattered.value_or(0)});
  // Launches say more than sizes do.
  work.blocks = 0;
  work.instructions =
      InParts(rank, kernels) ? ElementInstructions(seen.last.role, traced.access) : 0;
  Refine(device, store, rank, traced, seen, kernels, observed, work);
  return observed;
}

}  // namespace foretrace
