#include "simulator/importers/kineto/occupancy.h"

#include <algorithm>
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

// Of "[4,2,1]"; 0: no such list.
double Product(std::string_view text) {
  const auto sizes = json::ParseIntegerList(text);
  if (!sizes || sizes->empty()) return 0;
  double product = 1;
  for (const int64_t size : *sizes) product *= static_cast<double>(std::max<int64_t>(size, 0));
  return product;
}

}  // namespace

KernelLaunch KernelLaunchOf(const Event& event) {
  KernelLaunch launch;
  if (const auto waves = event.Integer(Field::kExactWaves)) {
    launch.exact_waves_milli = static_cast<uint32_t>(std::clamp<int64_t>(*waves, 0, 4'000'000'000));
    return launch;
  }
  launch.blocks = Real(event.Text(Field::kBlocksPerSm));
  launch.warps = Real(event.Text(Field::kWarpsPerSm));
  if (!(launch.blocks > 0) && event.Has(Field::kGrid)) {
    launch.grid = Product(event.Text(Field::kGrid));
    launch.block = Product(event.Text(Field::kBlock));
    // The grid of these calls is in threads (hip_ext.h: globalWorkSizeX).
    const std::string_view name = event.Text(Field::kName);
    const bool threads =
        name.starts_with("hipExtModuleLaunch") || name.starts_with("hipHccModuleLaunch");
    if (threads && launch.block > 0) launch.grid = std::ceil(launch.grid / launch.block);
  }
  launch.registers = Real(event.Text(Field::kRegisters));
  launch.shared_bytes = Real(event.Text(Field::kSharedMemory));
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
