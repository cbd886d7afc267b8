#pragma once
// The engine's view of the network: transfers start, and complete later. Models differ in whether
// concurrent transfers contend.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/estimate.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace {

// One collective or one paired send/recv.
struct TransferSpec {
  CollectiveOp op = CollectiveOp::kUnknown;
  // True: members[0] sends `bytes` to members[1]; op is ignored.
  bool point_to_point = false;
  std::vector<int32_t> members;  // global ranks, in group-rank order
  // The larger of bytes sent and received on the rank where that is largest (multi-GPU paper,
  // section IV-A). All-reduce: the buffer; all-gather: the gathered output; reduce-scatter: the
  // full input; all-to-all: one rank's whole buffer.
  Bytes bytes;
  DType dtype = DType::kUnknown;
  // All-to-all with unequal splits: row-major bytes from member i to member j; empty: equal splits.
  std::vector<int64_t> split_bytes;
};

using TransferHandle = uint32_t;

// Contract. Start() may be called with a start time at or after the last completion returned.
// Next(limit) returns completions in order of (time, handle) and never advances past `limit`; the
// caller calls it only when no start at or before the limit can be discovered any more. A transfer
// that can never complete is an error that names it.
class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  virtual std::string_view name() const = 0;
  // The duration of a transfer that meets no others; for models without contention this is exact
  // and the engine uses it alone.
  virtual absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) = 0;
  virtual bool contends() const = 0;

  struct Completion {
    SimTime time;
    TransferHandle transfer = 0;
  };
  virtual absl::StatusOr<TransferHandle> Start(const TransferSpec& spec, SimTime start) = 0;
  // The next completion at or before `limit`; nullopt: there is none.
  virtual absl::StatusOr<std::optional<Completion>> Next(SimTime limit) = 0;
};

}  // namespace foretrace
