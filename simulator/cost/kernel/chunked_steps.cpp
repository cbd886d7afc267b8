#include "simulator/cost/kernel/chunked_steps.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// aten/src/ATen/native/cuda/MultiTensorApply.cuh and apex: a chunk of a tensor is one block's, of
// each list alike; a launch has at most 320.
constexpr double kChunk = 65536, kChunkThreads = 512, kMostChunks = 320;
// Registers of a thread: of a whole step, of one of its operations (PyTorch's foreach functors).
constexpr double kStepRegisters = 46, kOperationRegisters = 32;

// Blocks go through chunks of their own, 256 KiB apart, and DRAM opens rows for each of them and
// each list: of what streaming kernels keep up. Only where launches follow each other, all but the
// last whole: a single one leaves what it has written in the cache, which makes up for it. Set with
// the scalings and norms of gradients of llama3-8b-l4-s8192-b1-none and the steps by foreach of
// gpt2-small-b8-bf16 (H100, traces/README.md, "Captured"), which attain 0.80 to 0.89 of DRAM's peak
// where copies attain 0.9. GDDR6, whose pages are twice as large (JEDEC: 2 KiB, of HBM's pseudo
// channels 1 KiB), shows none of it (linear, RTX 2080 Ti).
constexpr double kChunkShare = 0.94;
// Steps of a thread over its chunk, four elements each, and trips to memory for each step of a
// fused optimizer: loads, then square roots and divisions of all its threads, which take as long as
// two. The last three chunks of llama3-70b-l1-s4096-b2-none take 35 us alone.
constexpr double kStepsOfChunk = kChunk / (4 * kChunkThreads), kTripsOfStep = 3;

// The number behind `key`, of one digit; 0: there is none.
int64_t DigitAfter(std::string_view name, std::string_view key) {
  const size_t at = name.find(key);
  if (at == name.npos || at + key.size() >= name.size()) return 0;
  const char c = name[at + key.size()];
  return c >= '0' && c <= '9' ? c - '0' : 0;
}

// Lists that an operation of a step reads: the third number of PyTorch's foreach functors,
// "BinaryOpListAlphaFunctor<float, 3, 2, 2>" (aten/src/ATen/native/cuda/ForeachFunctors.cuh: depth,
// arguments, where the result goes); it writes one. Products that are added up are squares of
// gradients (torch/optim/adam.py and others, _foreach_addcmul_), whose two factors are one list.
// 0: another functor.
int64_t ListsRead(std::string_view name) {
  constexpr std::string_view kFunctor = "Functor<";
  const size_t at = name.find(kFunctor);
  if (at == name.npos) return 0;
  std::string_view rest = name.substr(at + kFunctor.size());
  int64_t number = 0;
  for (int place = 0; place < 3; ++place) {  // depth, arguments, result
    const size_t comma = rest.find(", ");
    if (comma == rest.npos || comma + 2 >= rest.size()) return 0;
    rest.remove_prefix(comma + 2);
    if (rest[0] < '0' || rest[0] > '9') return 0;
    if (place == 1) number = rest[0] - '0';
  }
  const bool squares = ContainsAny(name, {"PointwiseOp"}) && ContainsAny(name, {"multiplies<"});
  return squares ? std::max<int64_t>(number - 1, 1) : number;
}

// aten/src/ATen/native/cuda/ForeachReduceOp.cu: results are one a chunk.
bool IsNorm(std::string_view name) { return ContainsAny(name, {"LpNormFunctor", "LpMaxFunctor"}); }

constexpr std::string_view kMetadata = "TensorListMetadata<";
constexpr double kFloat = 4;  // bytes of an element of a step's lists

// How a launch's chunks are spread.
struct Chunks {
  double blocks = 0;
  double resident = 0;  // that the device holds at once
};

Chunks ChunksOf(const Launch& launch, const GpuPeaks& device) {
  const bool operation = ListsRead(launch.name) > 0 || IsNorm(launch.name);
  const double registers = operation ? kOperationRegisters : kStepRegisters;
  const double held = device.resident_blocks(kChunkThreads, registers);
  if (launch.attr != nullptr) {
    const double blocks = launch.attr->blocks();
    const double waves = launch.waves_milli / 1000.0;
    return {blocks, std::max(std::round(blocks / waves), 1.0)};
  }
  // More registers than supposed make fewer blocks of as many waves, up to half.
  const double supposed = launch.waves_milli / 1000.0 * device.sms * held;
  const double blocks = supposed <= 2 * kMostChunks ? std::min(supposed, kMostChunks) : supposed;
  return {blocks, device.sms * held};
}

bool HasSmallPages(const GpuPeaks& device) {
  return std::ranges::any_of(device.accelerator.memory, [](const MemoryLevel& level) {
    return level.kind == MemoryKind::kDevice && level.name.starts_with("hbm");
  });
}

// What the last blocks of a launch, with a part of the device idle, take longer than their share of
// the bytes would. Of 320 chunks fused Adam's registers let an H100 hold 264 at once.
double TailUs(const GpuPeaks& device, const Chunks& chunks, double chunk_us) {
  if (chunks.blocks <= chunks.resident) return 0;
  const double last = std::fmod(chunks.blocks, chunks.resident);
  const double trip_us = ColdStartUs(device, 1) - ColdStartUs(device, 0);
  const double alone_us = last > 0 ? kStepsOfChunk * kTripsOfStep * trip_us : 0;
  return SmoothSum(last * chunk_us, alone_us, 2) - last * chunk_us;
}

}  // namespace

std::optional<KernelWork> WorkOfChunks(const Launch& launch, const GpuPeaks& device, DType dtype) {
  const std::string_view name = launch.name;
  if (launch.waves_milli == 0 || !ContainsAny(name, {"multi_tensor_apply_kernel"})) {
    return std::nullopt;
  }
  const double elements = ChunksOf(launch, device).blocks * kChunk;
  const auto operands = static_cast<double>(ListsRead(name));
  const auto lists = static_cast<double>(std::max<int64_t>(DigitAfter(name, kMetadata), 1));
  double read = lists, written = std::max(lists - 1, 1.0);  // gradients are read alone
  if (IsNorm(name)) {
    written = 0;
  } else if (operands > 0) {
    read = operands;
    written = 1;
  }
  KernelWork work;
  work.kind = KernelKind::kOptimizer;
  work.dtype = dtype;
  const double bytes = elements * static_cast<double>(ElementSize(dtype));
  constexpr double kMost = 1e18;
  work.read = Bytes(static_cast<int64_t>(std::min(bytes * read, kMost)));
  work.written = Bytes(static_cast<int64_t>(std::min(bytes * written, kMost)));
  work.bandwidth_share = BandwidthShareOfChunks(launch, device);
  return work;
}

double BandwidthShareOfChunks(const Launch& launch, const GpuPeaks& device) {
  if (launch.waves_milli == 0 || !ContainsAny(launch.name, {"multi_tensor_apply_kernel"})) return 1;
  const Chunks chunks = ChunksOf(launch, device);
  if (chunks.blocks < kMostChunks || !HasSmallPages(device)) return 1;
  if (ListsRead(launch.name) > 0 || IsNorm(launch.name)) return kChunkShare;
  const auto lists = static_cast<double>(std::max<int64_t>(DigitAfter(launch.name, kMetadata), 1));
  const double chunk_us =
      kChunk * kFloat * (2 * lists - 1) / (device.dram_gbps * 1e3 * kChunkShare);
  const double all_us = chunks.blocks * chunk_us;
  return kChunkShare * all_us / (all_us + TailUs(device, chunks, chunk_us));
}

}  // namespace foretrace
