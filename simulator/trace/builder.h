#pragma once
// Builds one rank's trace from nodes in any order.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "simulator/base/diagnostics.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Importers add nodes as they meet them, refer to each other by the handle AddNode returns, and
// call Build once. Dependencies on source ids that come later in the file are given by source id.
class RankTraceBuilder {
 public:
  explicit RankTraceBuilder(RankInfo info);

  struct NodeSpec {
    NodeKind kind = NodeKind::kCpuOp;
    uint8_t detail = 0;  // RuntimeCall, MemcpyKind or CollectiveOp, by kind
    std::string_view name;
    LaneIndex lane;
    SimTime start;
    SimTime duration = RankTrace::kNoDuration;
    uint64_t source_id = 0;
  };

  // Finds or makes the lane. At most 65,534 lanes a rank; past that the status of Build says so.
  LaneIndex AddLane(Lane::Kind kind, int64_t id, int32_t device = 0);
  void SetLaneLabel(LaneIndex lane, std::string label);

  NodeIndex AddNode(const NodeSpec& spec);
  uint32_t size() const { return trace_.size(); }

  void SetParent(NodeIndex node, NodeIndex parent);
  // Replaces NodeSpec::detail, for what is only known once later nodes have been seen.
  void SetDetail(NodeIndex node, uint8_t detail) { trace_.detail_[node.value] = detail; }
  void SetKind(NodeIndex node, NodeKind kind) { trace_.kind_[node.value] = kind; }
  // The node as added so far; for importers that complete nodes after reading the file.
  uint8_t detail(NodeIndex node) const { return trace_.detail_[node.value]; }
  SimTime start(NodeIndex node) const { return trace_.start_[node.value]; }
  SimTime duration(NodeIndex node) const { return trace_.duration_[node.value]; }
  LaneIndex lane(NodeIndex node) const { return LaneIndex(trace_.lane_[node.value]); }
  NodeKind kind(NodeIndex node) const { return trace_.kind_[node.value]; }
  std::string_view name(NodeIndex node) const { return strings_->Get(trace_.name_[node.value]); }
  std::span<const Lane> lanes() const { return trace_.lanes_; }
  NodeIndex launcher(NodeIndex node) const { return NodeIndex(trace_.launcher_[node.value]); }
  // Communication attributes set so far, by position in order of setting.
  size_t comm_count() const { return comm_.size(); }
  NodeIndex comm_node(size_t position) const { return NodeIndex(comm_.node(position)); }
  const CommAttr& comm(size_t position) const { return comm_.value(position); }
  void ReplaceComm(size_t position, const CommAttr& attr, std::span<const int64_t> in_splits,
                   std::span<const int64_t> out_splits);
  // Takes away the tensors of every node n with drop[n].
  void DropTensors(const std::vector<bool>& drop);
  void SetLauncher(NodeIndex node, NodeIndex call);
  void SetComm(NodeIndex node, const CommAttr& attr, std::span<const int64_t> in_splits = {},
               std::span<const int64_t> out_splits = {});
  void SetSync(NodeIndex node, const SyncAttr& attr);
  void SetWork(NodeIndex node, const WorkAttr& attr);
  void SetWaves(NodeIndex node, uint32_t waves_milli);
  void SetLaunch(NodeIndex node, const LaunchAttr& attr);
  void AddTensor(NodeIndex node, Tensor tensor, std::span<const int64_t> dims);
  void AddDependency(NodeIndex consumer, NodeIndex producer, DependencyKind kind);
  // The producer is named by source id and resolved by Build; unknown ids are counted as
  // "dangling_dependency", own ids as "self_dependency", and dropped.
  void AddDependencyBySourceId(NodeIndex consumer, uint64_t producer, DependencyKind kind);
  // The node was issued by the one with that source id. For device work a runtime call becomes its
  // launcher, any other CPU node its parent, and a device node a control dependency. For a CPU node
  // a CPU node with a smaller source id becomes its parent; anything else cannot have issued it, is
  // dropped and counted as "implausible_parent".
  void AddIssuerBySourceId(NodeIndex node, uint64_t issuer);
  void AddIteration(int64_t number, NodeIndex annotation);
  void AddProcessGroup(ProcessGroup group);

  StringId Intern(std::string_view text) { return strings_->Intern(text); }
  RankInfo& info() { return trace_.info_; }
  Diagnostics& diagnostics() { return diagnostics_; }

  struct Result {
    RankTrace trace;
    std::unique_ptr<StringPool> strings;
    Diagnostics diagnostics;
  };
  struct Options {
    // Order nodes by start time (recorded traces) instead of keeping the order of addition.
    bool sort_by_start = true;
    // Give CPU nodes without a parent the innermost CPU op or annotation that encloses them in time
    // on their thread.
    bool infer_nesting = true;
    // Refuse two nodes with one source id even when no dependency is given by source id.
    bool unique_source_ids = false;
  };
  // Errors: no nodes, duplicate source ids (when dependencies by source id exist), cyclic
  // dependencies, negative durations, too many lanes. Leaves the builder empty.
  absl::StatusOr<Result> Build(const Options& options);
  // Before TraceStore::Assemble: a trace may be built before it is known which rank its name means.
  static void SetRank(int32_t rank, RankTrace& trace) { trace.info_.rank = rank; }

 private:
  enum class Reference : uint8_t { kIndex, kSourceId, kIssuerSourceId };
  struct PendingDependency {
    uint32_t consumer = 0;
    DependencyKind kind = DependencyKind::kData;
    Reference reference = Reference::kIndex;
    uint64_t producer = 0;
  };
  class SourceIdIndex;
  struct PendingTensor {
    uint32_t node = 0;
    Tensor tensor;
  };

  absl::Status ResolveDependencies(bool unique_source_ids);
  // The attribute with its splits kept.
  CommAttr WithSplits(const CommAttr& attr, std::span<const int64_t> in_splits,
                      std::span<const int64_t> out_splits);
  // False when the dependency is dropped or has become a parent or launcher.
  bool ResolveDependency(const SourceIdIndex& index, PendingDependency& dependency);
  absl::Status CheckValues() const;
  absl::Status CheckAcyclic() const;
  // `waiting`: producers that each node still waits for, where some wait for each other.
  std::string CycleAmong(const std::vector<uint32_t>& waiting) const;
  // Parents and launchers must be CPU nodes, and following parents must come to an end.
  absl::Status CheckParents() const;
  // Empty when the nodes are in order already.
  std::vector<uint32_t> OrderByStart() const;
  void Permute(const std::vector<uint32_t>& order);
  void InferNesting();
  void BuildListColumns();
  void BuildDependencyColumns();
  void BuildTensorColumns();
  void ReduceIterations();
  void ReleaseSlack();
  std::string Where(uint32_t node) const;

  RankTrace trace_;
  std::unique_ptr<StringPool> strings_;
  Diagnostics diagnostics_;
  std::vector<uint64_t> source_id_;
  AttributeBuilder<CommAttr> comm_;
  AttributeBuilder<SyncAttr> sync_;
  AttributeBuilder<WorkAttr> work_;
  AttributeBuilder<uint32_t> waves_;
  AttributeBuilder<LaunchAttr> launches_;
  std::vector<PendingDependency> pending_dependencies_;
  std::vector<PendingTensor> pending_tensors_;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, uint32_t> lane_index_;
  absl::flat_hash_set<std::string> group_names_;
  bool too_many_lanes_ = false;
};

}  // namespace foretrace
