#include "simulator/importers/kineto/occupancy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "simulator/importers/json/text.h"

namespace foretrace::kineto {
namespace {

double Real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0.0;
}

// Of "[4,2,1]"; nullopt: no list of sizes.
std::optional<std::array<uint32_t, 3>> Sizes(std::string_view text) {
  const auto sizes = json::ParseIntegerList(text);
  if (!sizes || sizes->empty() || sizes->size() > 3) return std::nullopt;
  std::array<uint32_t, 3> result = {1, 1, 1};
  for (size_t i = 0; i < sizes->size(); ++i) {
    const int64_t size = (*sizes)[i];
    if (size < 1 || size > UINT32_MAX) return std::nullopt;
    result[i] = static_cast<uint32_t>(size);
  }
  return result;
}

// The grid of these calls is in threads (hip_ext.h: globalWorkSizeX).
bool CountsThreads(std::string_view call) {
  return call.starts_with("hipExtModuleLaunch") || call.starts_with("hipHccModuleLaunch");
}

std::optional<LaunchAttr> AttrOf(const Event& event) {
  auto grid = Sizes(event.Text(Field::kGrid));
  const auto block = Sizes(event.Text(Field::kBlock));
  if (!grid || !block) return std::nullopt;
  if (CountsThreads(event.Text(Field::kName))) {
    for (size_t i = 0; i < grid->size(); ++i) {
      (*grid)[i] = static_cast<uint32_t>((uint64_t{(*grid)[i]} + (*block)[i] - 1) / (*block)[i]);
    }
  }
  return LaunchAttr{*grid, *block};
}

}  // namespace

KernelLaunch KernelLaunchOf(const Event& event) {
  KernelLaunch launch;
  launch.attr = AttrOf(event);
  if (const auto waves = event.Integer(Field::kExactWaves)) {
    launch.exact_waves_milli = static_cast<uint32_t>(std::clamp<int64_t>(*waves, 0, 4'000'000'000));
    return launch;
  }
  launch.blocks = Real(event.Text(Field::kBlocksPerSm));
  launch.warps = Real(event.Text(Field::kWarpsPerSm));
  if (!(launch.blocks > 0) && launch.attr) {
    launch.grid = launch.attr->blocks();
    launch.block = launch.attr->threads();
  }
  launch.registers = Real(event.Text(Field::kRegisters));
  launch.shared_bytes = Real(event.Text(Field::kSharedMemory));
  return launch;
}

KernelLaunch CopyLaunchOf(Bytes bytes) {
  // CUDA programming guide, "Device Memory Accesses": words of up to 16 bytes.
  constexpr double kWidestAccess = 16;
  constexpr double kBlock = 256;  // of which any number of resident threads is a multiple
  KernelLaunch launch;
  launch.grid = std::ceil(static_cast<double>(bytes.count()) / (kBlock * kWidestAccess));
  launch.block = kBlock;
  return launch;
}

uint32_t KernelWavesMilli(const KernelLaunch& launch, const OccupancyLimits& limits,
                          int32_t multiprocessors) {
  if (launch.exact_waves_milli) return *launch.exact_waves_milli;
  double blocks = launch.blocks, warps = launch.warps;
  if (!(blocks > 0) && multiprocessors > 0 && limits.warp > 0) {
    blocks = launch.grid / multiprocessors;
    warps = blocks * std::ceil(launch.block / limits.warp);
  }
  if (!(blocks > 0) || !(warps > 0) || !std::isfinite(blocks) || !std::isfinite(warps)) return 0;
  if (limits.threads <= 0 || limits.warp <= 0) return 0;
  const double warps_per_block = std::max(1.0, std::round(warps / blocks));
  const double resident_warps = std::floor(static_cast<double>(limits.threads) / limits.warp);
  double resident = std::floor(resident_warps / warps_per_block);
  if (limits.blocks > 0) resident = std::min(resident, static_cast<double>(limits.blocks));
  const double registers = launch.registers;
  if (registers > 0 && limits.registers > 0) {
    resident = std::min(resident,
                        std::floor(limits.registers / (registers * limits.warp * warps_per_block)));
  }
  const double shared =
      launch.shared_bytes + static_cast<double>(limits.reserved_shared_memory.count());
  if (shared > 0 && limits.shared_memory > Bytes()) {
    resident =
        std::min(resident, std::floor(static_cast<double>(limits.shared_memory.count()) / shared));
  }
  resident = std::max(resident, 1.0);
  return static_cast<uint32_t>(std::clamp(std::round(1000.0 * blocks / resident), 1.0, 4e9));
}

}  // namespace foretrace::kineto
