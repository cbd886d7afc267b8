#include "simulator/calibrate/memcpy/trace_copies.h"

#include <utility>

#include "simulator/base/error.h"
#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {
namespace {

// "htod" or "dtoh" and whether the host's memory is pinned; empty: neither.
std::pair<std::string_view, bool> KindOf(MemcpyKind kind) {
  switch (kind) {
    case MemcpyKind::kHostToDevicePinned:
      return {"htod", true};
    case MemcpyKind::kHostToDevicePageable:
      return {"htod", false};
    case MemcpyKind::kDeviceToHostPinned:
      return {"dtoh", true};
    case MemcpyKind::kDeviceToHostPageable:
      return {"dtoh", false};
    default:
      return {};
  }
}

}  // namespace

absl::StatusOr<BenchmarkTable> CopyTable(const TraceStore& store, const std::string& label) {
  const std::string& name = store.ranks().front().info().device_name;
  const auto device = FindGpuPeaks(name);
  if (!device.ok()) {
    return InvalidInput("{}: recorded on '{}': {}", label, name,
                        std::string(device.status().message()));
  }
  BenchmarkTable table;
  table.path = label;
  table.provenance["device"] = name;
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (rank.kind(node) != NodeKind::kMemcpy || !rank.has_duration(node)) continue;
      const WorkAttr* work = rank.work(node);
      const auto [direction, pinned] = KindOf(rank.memcpy_kind(node));
      const double us = rank.duration(node).us();
      if (direction.empty() || work == nullptr || work->bytes.count() < 1 || us <= 0) continue;
      BenchmarkRow row;
      row.kind = BenchmarkKind::kMemory;
      row.op = "memcpy";
      row.platform = device->name;
      row.dtype = "int8";
      row.shape = *ShapeKeys::Parse(fmt::format("bytes={};direction={};pinned={}",
                                                work->bytes.count(), direction, pinned ? 1 : 0));
      row.time_us = us;
      row.library = "trace";
      row.source = fmt::format("trace rank={} step={} copy={}", rank.info().rank,
                               rank.iteration_at(rank.start(node)), rank.source_id(node));
      row.line = static_cast<int64_t>(table.rows.size()) + 1;
      table.rows.push_back(std::move(row));
    }
  }
  if (table.rows.empty()) {
    return InvalidInput("{}: no copies between host and device whose bytes are recorded", label);
  }
  return table;
}

}  // namespace foretrace
