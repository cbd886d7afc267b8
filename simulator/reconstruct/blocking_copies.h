#pragma once
// Which calls hold their thread until a copy is done.
//
// CUDA's documents say it by class ("API synchronization behavior"): copies through pageable memory
// are staged, those to the host return when done, those to the device likewise beyond what fits the
// staging buffer; cudaMemcpy returns when done except between two places on devices. Other drivers
// do as they please, and name no kind of host memory, so that every class is checked on the
// recording, at each place of the program apart: a call that returned before its copy had ended did
// not wait for it, and where most calls did not, none does that shows nothing else. One that went
// on until its copy ended, long after that was issued and than calls take that do not wait, did
// wait, whatever its class; of a class that need not by the documents, those that show neither are
// taken to be like most of those that show it.

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/base/string_pool.h"
#include "simulator/base/units.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class BlockingCopies {
 public:
  // `staged_copy`: DriverLimits::staged_copy of the rank's device.
  // `strings`: of the rank's store.
  BlockingCopies(const RankTrace& rank, const StringPool& strings, Bytes staged_copy);

  bool Holds(NodeIndex call) const { return holds_[call.value]; }

  struct Count {
    int64_t calls = 0;
    int64_t returned_before = 0;
    int64_t waited = 0;  // as the recording shows
  };
  const Count& count(RuntimeCall call, MemcpyKind kind) const { return counts_[Class(call, kind)]; }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(MemcpyKind::kCount);
  static size_t Class(RuntimeCall call, MemcpyKind kind) {
    return (call == RuntimeCall::kMemcpySync ? kKinds : 0) + static_cast<size_t>(kind);
  }

  std::array<Count, 2 * kKinds> counts_{};
  std::vector<bool> holds_;  // by node
};

}  // namespace foretrace
