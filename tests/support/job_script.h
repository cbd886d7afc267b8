#pragma once
// Writes small recorded jobs by hand. Times are microseconds on one clock; device work NAME is
// issued by a runtime call "launch NAME".

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"
#include "simulator/trace/builder.h"

namespace foretrace {

inline SimTime Us(double us) { return SimTime::FromUs(us); }

struct Span {
  double start = 0;
  double end = 0;
};

class RankScript {
 public:
  RankScript(int32_t rank, int32_t world) : builder_(Info(rank, world)) {}

  RankScript& Op(std::string_view name, Span at, int thread = 1) {
    Add(NodeKind::kCpuOp, 0, name, Thread(thread), at);
    return *this;
  }
  RankScript& Step(int64_t number, Span at) {
    const NodeIndex node =
        Add(NodeKind::kAnnotation, 0, "step " + std::to_string(number), Thread(1), at);
    builder_.AddIteration(number, node);
    return *this;
  }
  RankScript& Call(std::string_view name, RuntimeCall call, Span at, int thread = 1) {
    Add(NodeKind::kRuntimeCall, static_cast<uint8_t>(call), name, Thread(thread), at);
    return *this;
  }
  // Device work with its launch.
  RankScript& Device(std::string_view name, NodeKind kind, uint8_t detail, Span call, int stream,
                     Span at, int thread = 1) {
    const RuntimeCall how =
        kind == NodeKind::kMemcpy ? RuntimeCall::kMemcpyAsync : RuntimeCall::kLaunchKernel;
    const NodeIndex launch = Add(NodeKind::kRuntimeCall, static_cast<uint8_t>(how),
                                 "launch " + std::string(name), Thread(thread), call);
    builder_.SetLauncher(Add(kind, detail, name, Stream(stream), at), launch);
    return *this;
  }
  RankScript& Kernel(std::string_view name, Span call, int stream, Span at, int thread = 1) {
    return Device(name, NodeKind::kKernel, 0, call, stream, at, thread);
  }
  // Device work whose launch is not in the recording.
  RankScript& InFlight(std::string_view name, int stream, Span at) {
    Add(NodeKind::kKernel, 0, name, Stream(stream), at);
    return *this;
  }
  // Device work that the launch of a graph issues.
  RankScript& InGraph(std::string_view name, std::string_view launch, int stream, Span at) {
    builder_.SetLauncher(Add(NodeKind::kKernel, 0, name, Stream(stream), at), Of(launch));
    return *this;
  }
  // A copy issued by cudaMemcpy.
  RankScript& SyncCopy(std::string_view name, MemcpyKind kind, Span call, int stream, Span at) {
    const NodeIndex launch =
        Add(NodeKind::kRuntimeCall, static_cast<uint8_t>(RuntimeCall::kMemcpySync),
            "launch " + std::string(name), Thread(1), call);
    builder_.SetLauncher(
        Add(NodeKind::kMemcpy, static_cast<uint8_t>(kind), name, Stream(stream), at), launch);
    return *this;
  }
  // An empty group is not declared.
  RankScript& Collective(std::string_view name, CollectiveOp op, std::string_view group, Span call,
                         int stream, Span at, int64_t bytes = 1000, int32_t root = -1,
                         int64_t number = -1) {
    Device(name, NodeKind::kCollective, static_cast<uint8_t>(op), call, stream, at);
    CommAttr attr;
    if (!group.empty()) attr.group = builder_.Intern(group);
    attr.bytes_in = attr.bytes_out = Bytes(bytes);
    attr.peer = root;
    attr.sequence = number;
    builder_.SetComm(Of(name), attr);
    return *this;
  }
  // A kSend or kRecv; a negative peer is not declared.
  RankScript& PointToPoint(std::string_view name, NodeKind kind, int32_t peer, Span call,
                           int stream, Span at) {
    Device(name, kind, 0, call, stream, at);
    CommAttr attr;
    attr.peer = peer;
    attr.bytes_in = attr.bytes_out = Bytes(1000);
    builder_.SetComm(Of(name), attr);
    return *this;
  }
  // One kernel that sends and receives: bytes by member of the group, 0 for no transfer.
  RankScript& Exchange(std::string_view name, std::string_view group, std::vector<int64_t> sent,
                       std::vector<int64_t> received, Span call, int stream, Span at) {
    Device(name, NodeKind::kCollective, static_cast<uint8_t>(CollectiveOp::kSendRecv), call, stream,
           at);
    CommAttr attr;
    attr.group = builder_.Intern(group);
    builder_.SetComm(Of(name), attr, sent, received);
    return *this;
  }
  RankScript& Group(std::string_view name, std::vector<int32_t> ranks) {
    builder_.AddProcessGroup({std::string(name), "", std::move(ranks)});
    return *this;
  }
  // What an event or stream call names; -1: nothing.
  RankScript& Names(std::string_view call, int64_t event, int stream) {
    SyncAttr attr;
    attr.event = event;
    if (stream >= 0) attr.stream = Stream(stream);
    builder_.SetSync(Of(call), attr);
    return *this;
  }
  // As newer profiles say it: the waiting stream, the record call and that call's stream.
  RankScript& NamesRecord(std::string_view wait, std::string_view record, int stream,
                          int recorded_on) {
    SyncAttr attr;
    attr.stream = Stream(stream);
    attr.waits_for_correlation = static_cast<int64_t>(source_ids_.at(std::string(record)));
    attr.waits_for_stream = Stream(recorded_on);
    builder_.SetSync(Of(wait), attr);
    return *this;
  }
  RankScript& Waves(std::string_view kernel, uint32_t waves_milli) {
    builder_.SetWaves(Of(kernel), waves_milli);
    return *this;
  }
  RankScript& Launched(std::string_view kernel, const LaunchAttr& attr) {
    builder_.SetLaunch(Of(kernel), attr);
    return *this;
  }
  RankScript& CopiedBytes(std::string_view copy, int64_t bytes) {
    WorkAttr attr;
    attr.bytes = Bytes(bytes);
    builder_.SetWork(Of(copy), attr);
    return *this;
  }
  RankScript& Depends(std::string_view consumer, std::string_view producer,
                      DependencyKind kind = DependencyKind::kData) {
    builder_.AddDependency(Of(consumer), Of(producer), kind);
    return *this;
  }

  RankTraceBuilder& builder() { return builder_; }
  // The last node added under the name.
  NodeIndex Of(std::string_view name) const {
    const auto it = nodes_.find(std::string(name));
    FORETRACE_CHECK(it != nodes_.end());
    return it->second;
  }

 private:
  static RankInfo Info(int32_t rank, int32_t world) {
    RankInfo info;
    info.rank = rank;
    info.world_size = world;
    info.source = "script";
    return info;
  }
  LaneIndex Thread(int id) { return builder_.AddLane(Lane::Kind::kCpuThread, id); }
  LaneIndex Stream(int id) { return builder_.AddLane(Lane::Kind::kStream, id); }
  NodeIndex Add(NodeKind kind, uint8_t detail, std::string_view name, LaneIndex lane, Span at) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.detail = detail;
    spec.name = name;
    spec.lane = lane;
    spec.start = Us(at.start);
    spec.duration = Us(at.end - at.start);
    spec.source_id = source_ids_[std::string(name)] = 1 + nodes_.size();
    return nodes_[std::string(name)] = builder_.AddNode(spec);
  }

  RankTraceBuilder builder_;
  absl::flat_hash_map<std::string, NodeIndex> nodes_;
  absl::flat_hash_map<std::string, uint64_t> source_ids_;
};

class JobScript {
 public:
  explicit JobScript(int32_t ranks, int32_t world = 0) {
    for (int32_t r = 0; r < ranks; ++r) ranks_.emplace_back(r, world == 0 ? ranks : world);
  }
  RankScript& rank(size_t r) { return ranks_[r]; }

  TraceStore Build(bool has_times = true) {
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> built;
    for (RankScript& script : ranks_) {
      script.builder().info().has_times = has_times;
      RankTraceBuilder::Options options;
      options.sort_by_start = has_times;
      options.infer_nesting = has_times;
      auto result = script.builder().Build(options);
      FORETRACE_CHECK(result.ok());
      built.emplace_back(std::move(result->trace), std::move(result->strings));
    }
    auto store = TraceStore::Assemble(std::move(built), {});
    FORETRACE_CHECK(store.ok());
    return *std::move(store);
  }

 private:
  std::deque<RankScript> ranks_;
};

// The first node of that name.
inline NodeIndex FindNode(const TraceStore& store, uint32_t rank, std::string_view name) {
  const RankTrace& trace = store.ranks()[rank];
  for (uint32_t i = 0; i < trace.size(); ++i) {
    if (store.name(trace, NodeIndex(i)) == name) return NodeIndex(i);
  }
  return NodeIndex();
}

}  // namespace foretrace
