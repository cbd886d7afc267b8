#pragma once
// From decoded Chakra nodes to rows of the trace store.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "simulator/importers/chakra/node.h"
#include "simulator/trace/builder.h"

namespace foretrace::chakra {

// Files of other producers. Two kinds, told apart node by node:
// - placed nodes have a thread or stream attribute (traces converted from PyTorch): CPU ops go to
//   their thread, device work to its stream, and control dependencies say which op encloses an op
//   or issued device work;
// - unplaced nodes (symbolic generators, micro-benchmarks) are device work on one compute stream,
//   one stream per communicator, one for sends, one for receives and one for memory, unless
//   is_cpu_op is set.
class Mapper {
 public:
  explicit Mapper(RankTraceBuilder& builder) : builder_(builder) {}

  absl::Status Add(const Node& node);
  // After the last node.
  void Finish();
  // Whether any node had a start time. Without one the order of the file is kept and the engine
  // places nodes by their dependencies alone.
  bool has_starts() const { return has_starts_; }

 private:
  struct Placement {
    LaneIndex lane;
    bool on_cpu = false;
    bool placed = false;  // the file says where
  };
  absl::StatusOr<Placement> Place(const Node& node, NodeType type, bool is_collective);
  LaneIndex Stream(int64_t id, std::string_view label);
  LaneIndex FixedStream(int64_t id);
  LaneIndex GroupStream(const Node& node);
  RankTraceBuilder::NodeSpec Classify(const Node& node, NodeType type, bool is_collective,
                                      const Placement& placement);
  absl::Status AddTimes(const Node& node, const Placement& placement,
                        RankTraceBuilder::NodeSpec& spec);
  absl::Status AddComm(const Node& node, NodeType type, CollectiveOp op, NodeIndex index);
  absl::Status AddWork(const Node& node, NodeIndex index);
  void AddDependencies(const Node& node, const Placement& placement, NodeIndex index);
  void AddProcessGroups(const Node& node);
  void Note(Repair repair, const Node& node, std::string_view what);
  // Leaves `out` alone when the node has no such attribute. Errors: it is no whole number.
  absl::Status Read(const Node& node, Key key, std::optional<int64_t>& out) const;

  RankTraceBuilder& builder_;
  std::array<LaneIndex, 4> fixed_streams_;
  absl::flat_hash_map<StringId, LaneIndex> group_streams_;
  std::optional<uint64_t> first_start_us_;
  bool has_starts_ = false;
  bool uses_group_zero_ = false;
};

// Collectives by their number in comm_type of v0.0.4; kUnknown for others.
CollectiveOp CollectiveFromCommType(int64_t comm_type);

}  // namespace foretrace::chakra
