#pragma once
// The columnar, immutable trace of one rank, and the store of a job: its ranks side by side.
//
// Rows are nodes, addressed by a rank-local 32-bit index. Recorded traces are ordered by start time
// (an enclosing op before what is nested in it); symbolic traces, which have no times, by file
// order. Everything here is as recorded or declared: nothing inferred is written back.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/diagnostics.h"
#include "simulator/base/ids.h"
#include "simulator/base/string_pool.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/trace/columns.h"
#include "simulator/trace/kinds.h"
#include "simulator/trace/name_roles.h"
#include "simulator/trace/process_groups.h"

namespace foretrace {

struct LaneTag;
// A CPU thread or a device stream of one rank; index into RankTrace::lanes().
using LaneIndex = Id<LaneTag>;

struct Lane {
  enum class Kind : uint8_t { kCpuThread, kStream };
  Kind kind = Kind::kCpuThread;
  int64_t id = 0;      // thread id or stream number, as in the file
  int32_t device = 0;  // for streams
  std::string label;   // as a person would look for it: "thread 59811", "stream 7"
};

// One tensor argument or result. Dimensions are in RankTrace's dimension pool.
struct Tensor {
  int64_t id = 0;       // framework's tensor id; 0 unknown
  int64_t storage = 0;  // storage id; equal storages may alias
  uint32_t dims_begin = 0;
  uint16_t dims_count = 0;
  DType dtype = DType::kUnknown;
  bool is_output = false;
};

// Communication attributes of a kCollective, kSend or kRecv node.
struct CommAttr {
  StringId group;     // process-group name as declared; empty: not declared
  Bytes bytes_in;     // sent by this rank; 0 unknown
  Bytes bytes_out;    // received by this rank; 0 unknown
  int32_t peer = -1;  // global rank, for send and recv; root for rooted collectives
  int32_t tag = 0;
  DType dtype = DType::kUnknown;
  int32_t group_size = 0;     // declared size of the group; 0 unknown
  int64_t sequence = -1;      // declared sequence number within the group; -1 unknown
  uint32_t splits_begin = 0;  // unequal all-to-all: input splits then output splits, in bytes
  uint16_t in_splits = 0;
  uint16_t out_splits = 0;

  bool operator==(const CommAttr&) const = default;
  friend uint64_t AttributeHash(const CommAttr& c) {
    uint64_t hash = MixHash(c.group.value, static_cast<uint64_t>(c.bytes_in.count()));
    hash = MixHash(hash, static_cast<uint64_t>(c.bytes_out.count()));
    hash = MixHash(hash, static_cast<uint64_t>(c.peer) << 32 ^ static_cast<uint64_t>(c.tag));
    return MixHash(hash, static_cast<uint64_t>(c.sequence) ^ uint64_t{c.splits_begin} << 32);
  }
};

// Attributes of event and stream runtime calls, where the recording has them.
struct SyncAttr {
  int64_t event = -1;  // event id; -1 unknown
  LaneIndex stream;    // the stream the call names
  // For kStreamWaitEvent and kEventSynchronize: the event record call that it waits for, given by
  // its correlation id; -1 unknown.
  int64_t waits_for_correlation = -1;
  // The stream on which that event was recorded; invalid when unknown.
  LaneIndex waits_for_stream;

  bool operator==(const SyncAttr&) const = default;
  friend uint64_t AttributeHash(const SyncAttr& s) {
    return MixHash(MixHash(s.stream.value, static_cast<uint64_t>(s.event)),
                   static_cast<uint64_t>(s.waits_for_correlation));
  }
};

// Work of a node, as declared or recorded.
struct WorkAttr {
  Flop flop;
  Bytes bytes;

  bool operator==(const WorkAttr&) const = default;
  friend uint64_t AttributeHash(const WorkAttr& w) {
    return MixHash(std::bit_cast<uint64_t>(w.flop.count()), static_cast<uint64_t>(w.bytes.count()));
  }
};

// How a kernel was launched.
struct LaunchAttr {
  std::array<uint32_t, 3> grid = {1, 1, 1};   // blocks
  std::array<uint32_t, 3> block = {1, 1, 1};  // threads

  double blocks() const { return 1.0 * grid[0] * grid[1] * grid[2]; }
  double threads() const { return 1.0 * block[0] * block[1] * block[2]; }  // of a block
  bool operator==(const LaunchAttr&) const = default;
  friend uint64_t AttributeHash(const LaunchAttr& l) {
    uint64_t hash = 0;
    for (const uint32_t size : l.grid) hash = MixHash(hash, size);
    for (const uint32_t size : l.block) hash = MixHash(hash, size);
    return hash;
  }
};

// What a step mark says: [start, end) of one training iteration on the CPU.
struct IterationMark {
  int64_t number = 0;
  NodeIndex node;
};

struct RankInfo {
  int32_t rank = 0;
  int32_t world_size = 0;   // declared; 0 unknown
  std::string source;       // files this rank came from, for messages
  std::string producer;     // "kineto", "pytorch_et 1.0.1 + kineto", "chakra 0.0.4", ...
  std::string device_name;  // "Tesla V100-SXM2-32GB"; empty unknown
  bool has_times = true;    // false for symbolic traces
  bool synthetic = false;   // made by a generator, not measured
  // The recording clock, in nanoseconds, at the trace's time zero. Ranks of a job share a clock:
  // TraceStore::Assemble moves all of them to one zero, the earliest start in the job.
  int64_t origin_ns = 0;
};

class RankTraceBuilder;

class RankTrace {
 public:
  RankTrace(RankTrace&&) = default;
  RankTrace& operator=(RankTrace&&) = default;

  const RankInfo& info() const { return info_; }
  uint32_t size() const { return static_cast<uint32_t>(kind_.size()); }
  std::span<const Lane> lanes() const { return lanes_; }
  const Lane& lane_at(LaneIndex lane) const { return lanes_[lane.value]; }
  std::span<const ProcessGroup> process_groups() const { return process_groups_; }
  // Step marks in order of time; nested or overlapping marks already reduced to the outermost.
  std::span<const IterationMark> iterations() const { return iterations_; }

  // Number of the iteration whose mark encloses the time; -1 outside of all marks.
  int64_t iteration_at(SimTime time) const;

  NodeKind kind(NodeIndex n) const { return kind_[n.value]; }
  StringId name(NodeIndex n) const { return name_[n.value]; }
  LaneIndex lane(NodeIndex n) const { return LaneIndex(lane_[n.value]); }
  SimTime start(NodeIndex n) const { return start_.empty() ? SimTime() : start_[n.value]; }
  SimTime duration(NodeIndex n) const {
    return duration_.empty() ? kNoDuration : duration_[n.value];
  }
  SimTime end(NodeIndex n) const { return start(n) + duration(n); }
  bool has_duration(NodeIndex n) const { return duration(n) != kNoDuration; }
  // The innermost CPU op or annotation around a CPU node; for a device node without a launching
  // call, the op that issued it where known. Invalid when none.
  NodeIndex parent(NodeIndex n) const {
    return parent_.empty() ? NodeIndex() : NodeIndex(parent_[n.value]);
  }
  // The runtime call that issued a device node; invalid when it has none.
  NodeIndex launcher(NodeIndex n) const {
    return launcher_.empty() ? NodeIndex() : NodeIndex(launcher_[n.value]);
  }
  // The id the node has in its file, for messages.
  uint64_t source_id(NodeIndex n) const { return source_id_[n.value]; }

  RuntimeCall runtime_call(NodeIndex n) const { return static_cast<RuntimeCall>(detail_[n.value]); }
  MemcpyKind memcpy_kind(NodeIndex n) const { return static_cast<MemcpyKind>(detail_[n.value]); }
  CollectiveOp collective_op(NodeIndex n) const {
    return static_cast<CollectiveOp>(detail_[n.value]);
  }
  AttentionMask attention_mask(NodeIndex n) const {
    const CallDetail detail = call_detail(n);
    return detail == CallDetail::kUnmasked ? AttentionMask::kNone
           : detail == CallDetail::kCausal ? AttentionMask::kCausal
                                           : AttentionMask::kUnknown;
  }
  // Tensors of a call that its threads go through out of order; nullopt: not known.
  std::optional<int> scattered_tensors(NodeIndex n) const {
    const CallDetail detail = call_detail(n);
    if (detail < CallDetail::kInOrder) return std::nullopt;
    return (static_cast<int>(detail) - static_cast<int>(CallDetail::kInOrder)) % kScatteredDetails;
  }
  // By which an element of all of a call's tensors is found, where neighbouring ones count as one
  // that every tensor goes through in one piece; 0: not known.
  int index_dimensions(NodeIndex n) const {
    const CallDetail detail = call_detail(n);
    if (detail < CallDetail::kInOrder) return 0;
    return (static_cast<int>(detail) - static_cast<int>(CallDetail::kInOrder)) / kScatteredDetails;
  }
  CallDetail call_detail(NodeIndex n) const {
    const bool known = kind(n) == NodeKind::kCpuOp && detail_[n.value] < kCallDetails;
    return known ? static_cast<CallDetail>(detail_[n.value]) : CallDetail::kUnknown;
  }
  uint8_t raw_detail(NodeIndex n) const { return detail_[n.value]; }

  DependencyRange dependencies(NodeIndex n) const { return dependencies_.of(n.value); }
  // Inputs first, then outputs.
  std::span<const Tensor> tensors(NodeIndex n) const {
    if (tensors_.empty()) return {};
    return {tensors_.data() + tensor_begin_[n.value], tensors_.data() + tensor_begin_[n.value + 1]};
  }
  std::span<const int64_t> dims(const Tensor& t) const {
    return {dims_.data() + t.dims_begin, t.dims_count};
  }

  // Each is null where the node has no such attributes.
  const CommAttr* comm(NodeIndex n) const { return comm_.Find(n.value); }
  const SyncAttr* sync(NodeIndex n) const { return sync_.Find(n.value); }
  const WorkAttr* work(NodeIndex n) const { return work_.Find(n.value); }
  // How many times over a kernel's blocks fill the device, in thousandths; 0 unknown. More than one
  // wave means that blocks queue up.
  uint32_t waves_milli(NodeIndex n) const {
    const uint32_t* waves = waves_.Find(n.value);
    return waves == nullptr ? 0 : *waves;
  }
  // A kernel's grid and block; null where the recording has none.
  const LaunchAttr* launch(NodeIndex n) const { return launches_.Find(n.value); }
  // Bytes in, then bytes out, per group member; empty for equal splits.
  std::span<const int64_t> in_splits(const CommAttr& c) const {
    return {splits_.data() + c.splits_begin, c.in_splits};
  }
  std::span<const int64_t> out_splits(const CommAttr& c) const {
    return {splits_.data() + c.splits_begin + c.in_splits, c.out_splits};
  }

  // Heap bytes held by this rank's columns.
  size_t memory_bytes() const;

  static constexpr SimTime kNoDuration = SimTime::Min();

 private:
  friend class RankTraceBuilder;
  friend class TraceStore;
  RankTrace() = default;

  RankInfo info_;
  std::vector<Lane> lanes_;
  std::vector<ProcessGroup> process_groups_;
  std::vector<IterationMark> iterations_;
  std::vector<NodeKind> kind_;
  std::vector<uint8_t> detail_;
  std::vector<uint16_t> lane_;
  std::vector<StringId> name_;
  // The next four, and tensor_begin_, are empty when no node has any: symbolic traces.
  std::vector<SimTime> start_;
  std::vector<SimTime> duration_;
  std::vector<uint32_t> parent_;
  std::vector<uint32_t> launcher_;
  IdColumn source_id_;
  DependencyColumn dependencies_;
  std::vector<uint32_t> tensor_begin_;  // size + 1
  std::vector<Tensor> tensors_;
  std::vector<int64_t> dims_;
  AttributeColumn<CommAttr> comm_;
  AttributeColumn<SyncAttr> sync_;
  AttributeColumn<WorkAttr> work_;
  AttributeColumn<uint32_t> waves_;
  AttributeColumn<LaunchAttr> launches_;
  std::vector<int64_t> splits_;
};

class TraceStore {
 public:
  // Ranks must be distinct; they are put in ascending order. Each rank's strings are moved into one
  // pool. Process groups declared by several ranks are united. Times become relative to the
  // earliest start of the job; where the ranks' clocks differ by more than kMaxSkew they cannot be
  // one clock: each rank then starts at zero and "unrelated_clocks" is counted.
  // Errors: two traces for one rank, ranks that disagree on a group's members,
  // more than 1,048,576 ranks.
  static absl::StatusOr<TraceStore> Assemble(
      std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks,
      Diagnostics diagnostics);
  static constexpr SimTime kMaxSkew = SimTime::FromNs(int64_t{3600} * 1'000'000'000);

  std::span<const RankTrace> ranks() const { return ranks_; }
  const StringPool& strings() const { return *strings_; }
  const NameRoles& roles() const { return roles_; }
  std::string_view name(const RankTrace& rank, NodeIndex n) const {
    return strings_->Get(rank.name(n));
  }
  // Repairs made while importing.
  const Diagnostics& diagnostics() const { return diagnostics_; }
  // Largest declared world size, at least the number of ranks present.
  int32_t world_size() const { return world_size_; }
  // The job has at least that many ranks, whether there are traces of them or not.
  void RaiseWorldSize(int32_t ranks) { world_size_ = std::max(world_size_, ranks); }
  // United over the ranks; a user's YAML may replace them.
  const ProcessGroups& process_groups() const { return process_groups_; }
  // They replace those of their names that share members with them. Errors: a rank that the job has
  // not.
  absl::Status SetProcessGroups(std::vector<ProcessGroup> groups);
  uint64_t node_count() const;
  size_t memory_bytes() const;

 private:
  void AlignClocks();
  absl::Status UniteGroups(const RankTrace& rank);

  std::vector<RankTrace> ranks_;
  std::unique_ptr<StringPool> strings_;
  NameRoles roles_;
  Diagnostics diagnostics_;
  ProcessGroups process_groups_;
  int32_t world_size_ = 0;
};

// "FILE: rank R, node ID (NAME)", for messages.
std::string Describe(const TraceStore& store, const RankTrace& rank, NodeIndex n);

}  // namespace foretrace
