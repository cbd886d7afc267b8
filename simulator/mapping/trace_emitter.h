#pragma once
// Nodes of one generated rank: kernels in the order of a stream, communication beside them, and the
// CPU calls that launch both.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/dtype.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/trace/builder.h"

namespace foretrace {

struct GenerateOptions {
  // Communication has the durations of the cost model; else sizes alone, for a network model.
  bool communication_durations = true;
  // What one launch costs the CPU, which issues everything in order from one thread; zero: no CPU
  // work is written. The first kernel then starts one launch later; the rest runs as without where
  // no kernel is shorter.
  SimTime launch;
};

// At most this many nodes in one generated job (2 GB of store).
inline constexpr double kMaxGeneratedNodes = 2e7;

class TraceEmitter {
 public:
  // `dtype`: of what is communicated.
  TraceEmitter(RankInfo info, const GenerateOptions& options, DType dtype);

  std::string AddGroup(const std::string& kind, const std::vector<int32_t>& ranks);

  // A kernel after the one before it, and after `also`.
  NodeIndex Compute(const std::string& name, SimTime duration, NodeIndex also = NodeIndex());
  NodeIndex Compute(const std::string& name, SimTime duration, const std::vector<NodeIndex>& also);
  struct Message {
    NodeKind kind = NodeKind::kCollective;
    CollectiveOp op = CollectiveOp::kAllReduce;
    std::string name;
    std::string group;
    int32_t group_size = 0;
    Bytes bytes;
    SimTime duration;
    int32_t peer = -1;
    int32_t tag = 0;
  };
  // Starts after `after` and `also`; later kernels do not wait for it.
  NodeIndex Communicate(const Message& message, NodeIndex after, NodeIndex also = NodeIndex());
  // The next kernel waits for this node.
  void WaitFor(NodeIndex node) { last_ = node; }
  NodeIndex last() const { return last_; }

  absl::StatusOr<RankTraceBuilder::Result> Build();

 private:
  NodeIndex Add(RankTraceBuilder::NodeSpec spec);

  GenerateOptions options_;
  DType dtype_;
  RankTraceBuilder builder_;
  LaneIndex compute_, network_, cpu_;
  NodeIndex last_, last_call_;
  uint64_t ids_ = 0;
};

}  // namespace foretrace
