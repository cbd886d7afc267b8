#include "simulator/hardware/accelerator.h"

#include <algorithm>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(RateKind kind) {
  static constexpr std::array<std::string_view, 9> kNames = {"fp64", "fp32", "tf32", "fp16", "bf16",
                                                             "fp8",  "fp6",  "fp4",  "int8"};
  return EnumName(kNames, kind);
}

std::string_view Name(UnitKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"simt", "matrix", "systolic"};
  return EnumName(kNames, kind);
}

std::string_view Name(MemoryKind kind) {
  static constexpr std::array<std::string_view, 4> kNames = {"cache", "scratchpad", "device",
                                                             "host"};
  return EnumName(kNames, kind);
}

FlopRate Accelerator::peak(RateKind kind) const {
  FlopRate best;
  for (const ComputeUnit& unit : units) best = std::max(best, unit.rate(kind));
  return best;
}

FlopRate Accelerator::sustained(RateKind kind) const {
  FlopRate best;
  for (const ComputeUnit& unit : units) {
    best = std::max(best, unit.sustained[static_cast<size_t>(kind)]);
  }
  return best;
}

FlopRate Accelerator::simt_peak(RateKind kind) const {
  FlopRate best;
  for (const ComputeUnit& unit : units) {
    if (unit.kind == UnitKind::kSimt) best = std::max(best, unit.rate(kind));
  }
  return best;
}

const MemoryLevel* Accelerator::level(MemoryKind kind) const {
  for (const MemoryLevel& m : memory) {
    if (m.kind == kind) return &m;
  }
  return nullptr;
}

int32_t Accelerator::multiprocessors() const {
  for (const ComputeUnit& unit : units) {
    if (unit.kind == UnitKind::kSimt) return unit.count;
  }
  return 0;
}

Bytes Accelerator::memory_capacity() const {
  const MemoryLevel* device = level(MemoryKind::kDevice);
  return device == nullptr ? Bytes() : device->capacity;
}

Bytes Accelerator::visible_memory() const {
  const MemoryLevel* device = level(MemoryKind::kDevice);
  return device != nullptr && device->visible.count() > 0 ? device->visible : memory_capacity();
}

Bandwidth Accelerator::memory_bandwidth() const {
  const MemoryLevel* device = level(MemoryKind::kDevice);
  return device == nullptr ? Bandwidth() : device->bandwidth;
}

DeviceMatch Compare(const Accelerator& a, const Accelerator& b) {
  const auto cache = [](const Accelerator& x) {
    const MemoryLevel* level = x.level(MemoryKind::kCache);
    return level == nullptr ? std::pair(Bytes(), 0) : std::pair(level->capacity, level->partitions);
  };
  if (a.name == b.name) return DeviceMatch::kSame;
  if (a.chip != b.chip || a.multiprocessors() != b.multiprocessors() || cache(a) != cache(b)) {
    return DeviceMatch::kOther;
  }
  // Rates of float64 are cut down on some boards; nothing here runs in it.
  for (const RateKind kind : {RateKind::kFp32, RateKind::kTf32, RateKind::kFp16, RateKind::kBf16,
                              RateKind::kFp8, RateKind::kInt8}) {
    if (a.peak(kind) != b.peak(kind)) return DeviceMatch::kSibling;
  }
  // Power decides which clocks last.
  const bool same =
      a.memory_bandwidth() == b.memory_bandwidth() && a.physical.power_w == b.physical.power_w;
  return same ? DeviceMatch::kSame : DeviceMatch::kSibling;
}

}  // namespace foretrace
