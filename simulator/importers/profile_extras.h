#pragma once
// What profiles hold besides operators, calls and device work: Python frames, modules, memory, the
// profiler's own overhead. Replay needs none of it, so that it is read by itself, when asked for.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/importers/importer.h"

namespace foretrace {

// A stretch of a CPU thread, in nanoseconds of the recording's clock (RankInfo::origin_ns is of the
// same).
struct ThreadSpan {
  int64_t thread = 0;  // as Lane::id
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct ProfileExtras {
  struct Frame {
    ThreadSpan at;
    uint32_t name = 0;    // into `names`
    bool module = false;  // a call of an nn.Module, whose name is its class and number
  };
  // An operator with autograd's number, which it shares with its backward.
  struct Autograd {
    ThreadSpan at;
    int64_t sequence = 0;
    bool backward = false;
  };
  struct Memory {
    int64_t thread = 0;
    int64_t at_ns = 0;
    int64_t bytes = 0;      // below 0: freed
    int64_t allocated = 0;  // by the allocator, after it; 0 not recorded
    int64_t reserved = 0;   // from the device, after it; 0 not recorded
    int64_t address = 0;    // 0 not recorded
    bool on_device = false;
  };

  std::string source;  // the document, as in RankInfo::source
  std::vector<std::string> names;
  std::vector<Frame> frames;
  std::vector<Autograd> autograd;
  std::vector<Memory> memory;
  int64_t modules = 0;      // of `frames`
  int64_t overhead_ns = 0;  // of the profiler, as it recorded it (buffer requests and the like)
};

// One entry for each profile among `paths`; other inputs have none. Errors: those of ImportTraces.
absl::StatusOr<std::vector<ProfileExtras>> ReadProfileExtras(const std::vector<std::string>& paths,
                                                             const ImportOptions& options);

}  // namespace foretrace
