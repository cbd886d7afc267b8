#pragma once
// An accelerator as its file states it (topologies/accelerators/): what computes, what remembers,
// what its driver does, each with its source. Pure values. A fact that a file does not state is
// zero, and what needs it is refused or left out.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace {

// Arithmetic that peaks are stated for.
enum class RateKind : uint8_t {
  kFp64,
  kFp32,
  kTf32,
  kFp16,
  kBf16,
  kFp8,
  kFp6,
  kFp4,
  kInt8,
  kCount
};
std::string_view Name(RateKind kind);

// kSimt: multiprocessors that run threads; kMatrix: units inside them for small GEMMs;
// kSystolic: arrays of `width` x `depth`.
enum class UnitKind : uint8_t { kSimt, kMatrix, kSystolic, kCount };
std::string_view Name(UnitKind kind);

struct ComputeUnit {
  std::string name;
  UnitKind kind = UnitKind::kSimt;
  int32_t count = 0;
  int32_t width = 0, depth = 0;
  double clock_hz = 0;
  std::array<FlopRate, static_cast<size_t>(RateKind::kCount)> rates{};  // of all units, dense
  // Of large GEMMs for longer than the board's power limit allows its clock.
  std::array<FlopRate, static_cast<size_t>(RateKind::kCount)> sustained{};
  std::string source;

  FlopRate rate(RateKind of) const { return rates[static_cast<size_t>(of)]; }
};

enum class MemoryKind : uint8_t { kCache, kScratchpad, kDevice, kHost, kCount };
std::string_view Name(MemoryKind kind);

struct MemoryLevel {
  std::string name;
  MemoryKind kind = MemoryKind::kDevice;
  Bytes capacity;
  Bytes visible;           // kDevice: what programs may have of it, as its driver reports
  int32_t partitions = 1;  // each serves its own share of the multiprocessors
  Bandwidth bandwidth;     // of one direction where there are two
  SimTime latency;
  double efficiency = 1;  // share of the bandwidth that payload reaches
  Bandwidth staging;      // kHost: into and out of pageable memory
  std::string source;
};

// What runs on one multiprocessor at once.
struct OccupancyLimits {
  int32_t threads = 0;
  int32_t blocks = 0;
  int32_t registers = 0;  // of 32 bits
  Bytes shared_memory;
  int32_t warp = 0;              // threads that run in step
  Bytes reserved_shared_memory;  // that the driver takes of each block
};

// Between a launch call, or the work before, and the begin of work on the device.
struct LaunchLatencies {
  SimTime kernel, memset, copy_pinned, copy_from_pageable, copy_to_pageable;
  SimTime stream_gap;  // between two pieces of work of a busy stream
  SimTime event;       // from work on one stream to work on another that waits for it
};

struct DriverLimits {
  uint32_t launch_queue_depth =
      0;              // launches of a stream outstanding before a launch call blocks; 0: no limit
  Bytes staged_copy;  // a copy from pageable memory up to this size returns when staged
  LaunchLatencies latencies;
};

// Tiles of the library's 3x3 convolutions by Winograd's algorithm: of the fused kernels (images,
// and rows and columns of 2x2 results), and of the batched GEMM of the staged form.
struct WinogradTiles {
  std::vector<std::array<double, 3>> fused;
  std::vector<std::array<double, 2>> gemm;
};

// How multiprocessors run instructions, where that is not as on most devices.
struct InstructionFacts {
  bool fetched_on_demand = false;  // line by line as a kernel runs; else a launch fetches ahead
  // Share of the matrix units' rate that instructions of single warps attain, where the rate takes
  // those of groups of warps.
  double warp_gemms = 1;
  // GEMMs of 8 bits that promote their partial sums to 32 bits as they go take so many times as
  // long.
  double split_accumulation = 1;
  // Matrix units work beside the instructions of the block that started them, so that one tile of
  // fused attention is multiplied while another's exponentials are taken.
  bool asynchronous_matrices = false;
  // From the begin of a kernel to its end, whatever it does: blocks are handed out, what they wrote
  // is made visible. Code, arguments and loads come on top.
  SimTime shortest_kernel = SimTime::FromUs(2);

  // Whether matrix units reach their rate for groups of warps alone (wgmma and later), so that
  // libraries run persistent kernels whose copies go beside the products.
  bool by_warpgroups() const { return warp_gemms < 1 || asynchronous_matrices; }
};

// What a kernel takes longer that ends while a collective beside it has stores to other devices
// under way: its end is a fence that waits for all of the device's (CUDA programming guide, "Memory
// Fence Interference"). Zero: not known, or domains keep the stores apart (compute capability 9.0).
struct FenceWaits {
  SimTime ring;   // collectives that pass data around
  SimTime sends;  // all-to-all, sends and receives
};

// To other accelerators: `links` of `bandwidth` in each direction.
struct DeviceLinks {
  std::string kind;
  int32_t links = 0;
  Bandwidth bandwidth;
  FenceWaits fences;

  Bandwidth total() const {
    return Bandwidth::BytesPerSecond(links * bandwidth.bytes_per_second());
  }
};

struct Physical {
  double die_mm2 = 0, power_w = 0, price_usd = 0;
  // Power and price are of the chip; else of the board, with its memory and links to others.
  bool chip_alone = false;
};

struct Accelerator {
  std::string file;
  std::string name;         // as its file, without the ending
  std::string description;  // for people
  std::string vendor, chip;
  std::string available;             // the month from which it was to be had; empty: not stated
  std::vector<std::string> aliases;  // lower case: names that drivers and people use
  std::vector<ComputeUnit> units;
  std::vector<MemoryLevel> memory;  // nearest to the units first
  OccupancyLimits occupancy;
  DriverLimits driver;
  WinogradTiles winograd;
  InstructionFacts instructions;
  DeviceLinks links;
  Physical physical;

  // The fastest unit's; zero where none states it.
  FlopRate peak(RateKind kind) const;
  // What the fastest unit sustains at the board's power limit; zero where none states it.
  FlopRate sustained(RateKind kind) const;
  // Without units for GEMMs.
  FlopRate simt_peak(RateKind kind) const;
  // The first level of the kind; null where there is none.
  const MemoryLevel* level(MemoryKind kind) const;
  int32_t multiprocessors() const;
  Bytes visible_memory() const;        // of that what programs see; where not stated, all
  Bytes memory_capacity() const;       // of kDevice
  Bandwidth memory_bandwidth() const;  // of kDevice
};

// What is measured on one of them holds for the other.
enum class DeviceMatch : uint8_t {
  kSame,     // all that decides the duration of a kernel is equal (boards that differ in capacity,
             // links to others, price)
  kSibling,  // one chip with as many multiprocessors and caches alike: tiles, waves and caches
             // carry over, peaks do not
  kOther,
};
DeviceMatch Compare(const Accelerator& a, const Accelerator& b);

}  // namespace foretrace
