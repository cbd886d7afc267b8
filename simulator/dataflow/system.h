#pragma once
// What a workload is mapped onto: chips of one kind, their off-chip memory, the network between
// them as a composition of dimensions, with price and power.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/dataflow/collective_time.h"

namespace foretrace::dataflow {

// A price or power that no file states; sums that need it are not known either.
inline constexpr double kNotStated = std::numeric_limits<double>::quiet_NaN();

enum class Execution : uint8_t { kKernelByKernel, kDataflow };
std::string_view Name(Execution execution);

struct Chip {
  std::string name;
  int64_t tiles = 0;             // compute units that kernels share
  int64_t width = 0, depth = 0;  // of a tile: lanes and stages
  double clock_ghz = 0;
  Bytes sram;
  Execution execution = Execution::kKernelByKernel;
  int max_partitions = 0;  // of dataflow execution; 0: as many as kernels
  double price_usd = 0, power_w = 0;
  // They are of a board, with its memory and its links to neighbours, the first dimension's.
  bool board_price = false, board_power = false;

  double gflops() const {
    return 2 * static_cast<double>(tiles) * static_cast<double>(width) *
           static_cast<double>(depth) * clock_ghz;
  }
};

struct OffChipMemory {
  std::string name;
  Bandwidth bandwidth;
  Bytes capacity;
  double usd_per_gbps = 0, watt_per_gbps = 0;
};

struct LinkTechnology {
  std::string name;
  Bandwidth bandwidth;
  SimTime latency;
  double usd_per_gbps = 0, watt_per_gbps = 0;
};

enum class Role : uint8_t { kTensor, kPipeline, kData, kAll, kCount };
std::string_view Name(Role role);

struct SystemDimension {
  NetworkDimension network;
  LinkTechnology link;
  Role role = Role::kCount;  // kCount: for the optimiser to choose; kAll: of every chip with every

  void Use(const LinkTechnology& technology);
  bool has_link() const { return link.bandwidth > Bandwidth(); }
};

struct System {
  std::string name, topology;
  Chip chip;
  OffChipMemory memory;
  std::vector<SystemDimension> dimensions;
  double switch_usd_per_gbps = 0, switch_watt_per_gbps = 0;

  int64_t chips() const;
  // Product of the sizes of a role's dimensions.
  int64_t degree(Role role) const;
  std::vector<NetworkDimension> networks() const;
};

// In the whole system; kNotStated where a part has no price or power in its file.
struct Bill {
  double chips = 0, memory = 0, links = 0, switches = 0;
  double total() const { return chips + memory + links + switches; }
};
Bill PriceUsd(const System& system);
Bill PowerWatt(const System& system);

// Of dimension `i`: links, and ports of the switches that they need. Small networks of up to four
// chips need no switch.
double LinkCount(const System& system, size_t i);
double PortCount(const System& system, size_t i);

}  // namespace foretrace::dataflow
