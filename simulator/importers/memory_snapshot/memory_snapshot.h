#pragma once
// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/memory_ledger.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace {

// What holds memory at the peak: the innermost line of Python outside of PyTorch.
struct SnapshotHolder {
  std::string line;  // "train.py:41 forward"; empty: no stack was recorded
  int64_t allocations = 0;
  Bytes bytes;
};

struct DeviceSnapshot {
  int64_t device = 0;
  // When the snapshot was taken.
  Bytes allocated, reserved;
  // The largest free block of a reserved segment, and all of them: what fragmentation leaves.
  Bytes largest_free, free;
  // Over the recorded history (_record_memory_history); without it, as at the end.
  Bytes peak, peak_reserved;
  int64_t events = 0;
  SimTime peak_at;  // since the first event
  int64_t out_of_memory = 0;
  std::vector<SnapshotHolder> holders;  // at the peak, largest first
  // The same by what PyTorch was about when it was allocated: weights where modules are made or
  // moved, optimizer in torch/optim, gradients in a backward pass (those of activations too, which
  // stacks do not tell apart), activations in calls of modules; `other` has no such frame, or no
  // stack.
  MemoryLedger ledger;

  // Reserved and not allocated, of what is reserved at the peak.
  double fragmentation() const {
    return peak_reserved.count() > 0
               ? 1 - static_cast<double>(peak.count()) / static_cast<double>(peak_reserved.count())
               : 0;
  }
};

// Devices on which anything is reserved. Nothing of the file is executed (pickle_reader.h). Errors:
// no pickle of plain data; no snapshot; sizes that are none.
absl::StatusOr<std::vector<DeviceSnapshot>> ReadMemorySnapshot(const std::string& path);

}  // namespace foretrace
