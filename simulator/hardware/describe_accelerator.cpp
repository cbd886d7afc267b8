#include "simulator/hardware/describe_accelerator.h"

#include <fmt/ranges.h>

#include <iterator>

namespace foretrace {

std::string DescribeAccelerator(const Accelerator& accelerator) {
  const Accelerator& a = accelerator;
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "accelerator {}: {} ({} {})\n", a.name, a.description, a.vendor, a.chip);
  if (!a.aliases.empty()) fmt::format_to(to, "also known as {}\n", fmt::join(a.aliases, ", "));
  for (const ComputeUnit& unit : a.units) {
    fmt::format_to(to, "{}: {} {}", unit.name, unit.count > 0 ? fmt::format("{}", unit.count) : "?",
                   Name(unit.kind));
    for (int i = 0; i < static_cast<int>(RateKind::kCount); ++i) {
      const auto kind = static_cast<RateKind>(i);
      if (unit.rate(kind) == FlopRate()) continue;
      fmt::format_to(to, ", {} {:g} TFLOPS", Name(kind), unit.rate(kind).per_second() / 1e12);
    }
    out += '\n';
  }
  for (const MemoryLevel& level : a.memory) {
    fmt::format_to(to, "{}: {}", level.name, Name(level.kind));
    if (level.capacity > Bytes()) {
      fmt::format_to(to, ", {:g} GB", static_cast<double>(level.capacity.count()) / 1e9);
    }
    if (level.partitions > 1) fmt::format_to(to, " in {} partitions", level.partitions);
    if (level.bandwidth > Bandwidth()) {
      fmt::format_to(to, ", {:g} GB/s", level.bandwidth.bytes_per_second() / 1e9);
    }
    out += '\n';
  }
  const OccupancyLimits& limits = a.occupancy;
  if (limits.threads > 0) {
    fmt::format_to(to,
                   "a multiprocessor holds {} threads, {} blocks, {} registers, {} KiB of shared "
                   "memory\n",
                   limits.threads, limits.blocks, limits.registers,
                   limits.shared_memory.count() / 1024);
  }
  if (a.driver.launch_queue_depth > 0) {
    fmt::format_to(to, "the launch queue of a stream holds {} launches\n",
                   a.driver.launch_queue_depth);
  }
  if (a.links.links > 0) {
    fmt::format_to(to, "{} x {} of {:g} GB/s a direction\n", a.links.links, a.links.kind,
                   a.links.bandwidth.bytes_per_second() / 1e9);
  }
  if (a.physical.power_w > 0) fmt::format_to(to, "{:g} W\n", a.physical.power_w);
  return out;
}

}  // namespace foretrace
