#pragma once
// A recording drawn from bytes: up to four ranks that run one program of launches, collectives,
// transfers, copies, graphs, events and synchronisations, each rank with times and omissions of its
// own. Times follow from the program, so that most inference rules find something to accept, but
// for what is drawn as wrong.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/status_macros.h"
#include "simulator/trace/builder.h"
#include "tests/support/drawn.h"

namespace foretrace {

class RandomRank {
 public:
  RandomRank(int32_t rank, int32_t world)
      : rank_(rank), world_(world), builder_(Info(rank, world)) {}

  // One statement of the program, the same for all ranks but for what `own` draws.
  void Run(Drawn& shared, Drawn& own) {
    own_ = &own;
    if (own.OneIn(40)) return;  // not recorded
    const uint32_t stream = shared.Below(4);
    const uint32_t length = shared.Below(64);
    switch (shared.Below(16)) {
      case 0:
        return Step();
      case 1:
        return Op(shared);
      case 2:
        return Collective(shared, stream, length);
      case 3:
        return Transfer(shared, stream, length);
      case 4:
        return Copy(shared, stream, length);
      case 5:
        return Graph(shared, length);
      case 6:
        return Record(stream, shared.Below(4));
      case 7:
        return WaitEvent(stream, shared.Below(4));
      case 8:
        return Synchronize(shared, stream);
      case 9:
        thread_ = shared.Below(3);
        return;
      case 10:
        now_ += length;
        return;
      case 11:
        return InFlight(stream, length);
      default:
        return Kernel(shared, stream, length);
    }
  }

  absl::StatusOr<RankTraceBuilder::Result> Build(bool timed) {
    while (!open_.empty()) Close();
    CloseStep();
    return builder_.Build({.sort_by_start = timed, .infer_nesting = timed});
  }

 private:
  static RankInfo Info(int32_t rank, int32_t world) {
    RankInfo info;
    info.rank = rank;
    info.world_size = world;
    info.source = "random";
    return info;
  }
  static SimTime Us(int64_t us) { return SimTime::FromUs(static_cast<double>(us)); }
  // A length of time that is now and then wrong.
  int64_t Noisy(int64_t us) {
    if (own_->OneIn(64)) return int64_t{own_->Below(2)} << own_->Below(40);
    return us + own_->Below(3);
  }

  NodeIndex Add(NodeKind kind, uint8_t detail, std::string_view name, LaneIndex lane, int64_t start,
                int64_t duration) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.detail = detail;
    spec.name = name;
    spec.lane = lane;
    spec.start = Us(start);
    spec.duration = Us(duration);
    spec.source_id = ++nodes_;
    const NodeIndex node = builder_.AddNode(spec);
    Depend(node, kind);
    return node;
  }
  // Now and then on a node that came before, or that there may not be.
  void Depend(NodeIndex node, NodeKind kind) {
    if (own_ == nullptr || !own_->OneIn(10)) return;
    const uint64_t other = own_->Below(200);
    const auto how = static_cast<DependencyKind>(own_->Below(3));
    switch (own_->Below(4)) {
      case 0:
        if (other < node.value) builder_.AddDependency(node, NodeIndex(other), how);
        return;
      case 1:
        return builder_.AddDependencyBySourceId(node, other, how);
      case 2:
        return builder_.AddIssuerBySourceId(node, other);
      default:
        if (kind == NodeKind::kCpuOp) {
          const int64_t dims[] = {own_->Below(5), own_->Below(5)};
          builder_.AddTensor(node, Tensor{}, dims);
        }
    }
  }
  LaneIndex Thread() { return builder_.AddLane(Lane::Kind::kCpuThread, 1 + thread_); }
  LaneIndex Stream(uint32_t stream) { return builder_.AddLane(Lane::Kind::kStream, 7 + stream); }

  NodeIndex Call(std::string_view name, RuntimeCall call, int64_t us) {
    const NodeIndex node =
        Add(NodeKind::kRuntimeCall, static_cast<uint8_t>(call), name, Thread(), now_, us);
    now_ += us + own_->Below(4);
    return node;
  }
  // Device work that follows its stream and what that waits for.
  NodeIndex Device(NodeKind kind, uint8_t detail, std::string_view name, uint32_t stream,
                   int64_t us, NodeIndex launch) {
    int64_t start = std::max(stream_free_[stream] + 1, now_ + 4);
    if (own_->OneIn(80)) start -= own_->Below(60000);
    us = Noisy(us);
    const NodeIndex node = Add(kind, detail, name, Stream(stream), start, us);
    stream_free_[stream] = std::max(stream_free_[stream], start + us);
    if (!own_->OneIn(50)) builder_.SetLauncher(node, launch);
    return node;
  }

  void CloseStep() {
    if (step_begin_ < 0) return;
    static constexpr std::string_view kNames[] = {"step", "execute_context_1(512)_generation_2(2)",
                                                  "step[DECODE bs=4]", "execute_new_1_cached_2"};
    const NodeIndex mark = Add(NodeKind::kAnnotation, 0, kNames[static_cast<size_t>(steps_) % 4],
                               Thread(), step_begin_, Noisy(now_ - step_begin_));
    builder_.AddIteration(steps_++, mark);
  }
  void Step() {
    while (!open_.empty()) Close();
    CloseStep();
    step_begin_ = ++now_;
  }
  void Close() {
    Add(NodeKind::kCpuOp, 0, open_.back().first, Thread(), open_.back().second,
        now_ - open_.back().second);
    open_.pop_back();
    ++now_;
  }
  void Op(Drawn& shared) {
    static constexpr std::string_view kNames[] = {
        "aten::mm",   "autograd::engine::evaluate_function: X",
        "aten::item", "Optimizer.step#SGD.step",
        "op",         "aten::to"};
    if (shared.Below(2) == 0 && !open_.empty()) return Close();
    open_.emplace_back(kNames[shared.Below(std::size(kNames))], now_++);
  }
  void Kernel(Drawn& shared, uint32_t stream, int64_t us) {
    static constexpr std::string_view kNames[] = {"sgemm_128x128_tn", "elementwise_kernel",
                                                  "softmax", "embedding_lookup"};
    const NodeIndex launch = Call("cudaLaunchKernel", RuntimeCall::kLaunchKernel, 5);
    const NodeIndex node =
        Device(NodeKind::kKernel, 0, kNames[shared.Below(std::size(kNames))], stream, us, launch);
    if (shared.OneIn(4)) builder_.SetWaves(node, shared.Below(4000));
    if (shared.OneIn(4)) builder_.SetLaunch(node, {{1 + shared.Below(9), 1, 1}, {128, 1, 1}});
  }
  void Collective(Drawn& shared, uint32_t stream, int64_t us) {
    const auto op = static_cast<uint8_t>(shared.Below(static_cast<uint32_t>(CollectiveOp::kCount)));
    const NodeIndex launch = Call("cudaLaunchKernelExC", RuntimeCall::kLaunchKernel, 6);
    const NodeIndex node = Device(NodeKind::kCollective, op, "ncclDevKernel", stream, us, launch);
    CommAttr attr;
    static constexpr std::string_view kGroups[] = {"all", "pair", "none"};
    const uint32_t group = shared.Below(4);
    if (group < 3) attr.group = builder_.Intern(kGroups[group]);
    attr.bytes_in = attr.bytes_out = Bytes(int64_t{1} << shared.Below(30));
    attr.peer = static_cast<int32_t>(shared.Below(6)) - 1;
    if (shared.OneIn(2)) attr.sequence = shared.Below(8);
    if (shared.OneIn(4)) attr.group_size = static_cast<int32_t>(shared.Below(6));
    attr.dtype = DType::kFloat32;
    std::vector<int64_t> sent, received;
    if (shared.OneIn(4)) {
      for (int32_t r = 0; r < world_; ++r) {
        sent.push_back(own_->Below(1000));
        received.push_back(own_->Below(1000));
      }
    }
    builder_.SetComm(node, attr, sent, received);
  }
  void Transfer(Drawn& shared, uint32_t stream, int64_t us) {
    const auto from = static_cast<int32_t>(shared.Below(static_cast<uint32_t>(world_)));
    const auto to = static_cast<int32_t>(shared.Below(static_cast<uint32_t>(world_)));
    if (rank_ != from && rank_ != to) return;
    const bool sends = rank_ == from;
    const NodeIndex launch = Call("cudaLaunchKernelExC", RuntimeCall::kLaunchKernel, 6);
    const NodeIndex node = Device(sends ? NodeKind::kSend : NodeKind::kRecv, 0,
                                  "ncclDevKernel_SendRecv", stream, us, launch);
    CommAttr attr;
    if (!shared.OneIn(4)) attr.peer = sends ? to : from;
    attr.bytes_in = attr.bytes_out = Bytes(1 + shared.Below(60000));
    attr.tag = static_cast<int32_t>(shared.Below(2));
    builder_.SetComm(node, attr);
  }
  void Copy(Drawn& shared, uint32_t stream, int64_t us) {
    const auto kind = shared.Below(static_cast<uint32_t>(MemcpyKind::kCount));
    const bool blocking = shared.OneIn(2);
    const NodeIndex launch = blocking ? Call("cudaMemcpy", RuntimeCall::kMemcpySync, 5)
                                      : Call("cudaMemcpyAsync", RuntimeCall::kMemcpyAsync, 5);
    const NodeIndex node =
        Device(NodeKind::kMemcpy, static_cast<uint8_t>(kind), "Memcpy", stream, us, launch);
    WorkAttr work;
    work.bytes = Bytes(int64_t{1} << shared.Below(28));
    builder_.SetWork(node, work);
    if (shared.OneIn(2)) now_ = std::max(now_, stream_free_[stream] + 2);
  }
  void Graph(Drawn& shared, int64_t us) {
    const NodeIndex launch = Call("cudaGraphLaunch", RuntimeCall::kGraphLaunch, 9);
    const uint32_t kernels = 1 + shared.Below(5);
    for (uint32_t k = 0; k < kernels; ++k) {
      Device(NodeKind::kKernel, 0, "graphed", shared.Below(4), us, launch);
    }
  }
  void Record(uint32_t stream, uint32_t event) {
    events_[event] = stream_free_[stream];
    SyncAttr attr;
    attr.event = event;
    attr.stream = Stream(stream);
    const NodeIndex call = Call("cudaEventRecord", RuntimeCall::kEventRecord, 1);
    if (!own_->OneIn(4)) builder_.SetSync(call, attr);
  }
  void WaitEvent(uint32_t stream, uint32_t event) {
    stream_free_[stream] = std::max(stream_free_[stream], events_[event]);
    SyncAttr attr;
    attr.event = event;
    attr.stream = Stream(stream);
    const NodeIndex call = Call("cudaStreamWaitEvent", RuntimeCall::kStreamWaitEvent, 1);
    if (!own_->OneIn(2)) builder_.SetSync(call, attr);
  }
  void Synchronize(Drawn& shared, uint32_t stream) {
    static constexpr RuntimeCall kCalls[] = {RuntimeCall::kStreamSynchronize,
                                             RuntimeCall::kDeviceSynchronize,
                                             RuntimeCall::kEventSynchronize,
                                             RuntimeCall::kMalloc,
                                             RuntimeCall::kFree,
                                             RuntimeCall::kEventQuery};
    const RuntimeCall call = kCalls[shared.Below(std::size(kCalls))];
    int64_t until = stream_free_[stream];
    if (call == RuntimeCall::kDeviceSynchronize) {
      until = *std::max_element(stream_free_.begin(), stream_free_.end());
    }
    const int64_t us = std::max<int64_t>(1, until + 2 - now_);
    const NodeIndex node = Call("cudaSynchronize", call, own_->OneIn(16) ? 1 : us);
    SyncAttr attr;
    attr.stream = Stream(stream);
    attr.event = shared.Below(4);
    if (!own_->OneIn(3)) builder_.SetSync(node, attr);
  }
  void InFlight(uint32_t stream, int64_t us) {
    const int64_t start = std::max(stream_free_[stream], now_);
    Add(NodeKind::kKernel, 0, "in flight", Stream(stream), start, us);
    stream_free_[stream] = start + us;
  }

  int32_t rank_;
  int32_t world_;
  RankTraceBuilder builder_;
  Drawn* own_ = nullptr;
  int64_t now_ = 100;
  int64_t step_begin_ = -1;
  int64_t steps_ = 0;
  uint64_t nodes_ = 0;
  uint32_t thread_ = 0;
  std::array<int64_t, 4> stream_free_{};
  std::array<int64_t, 4> events_{};
  std::vector<std::pair<std::string_view, int64_t>> open_;

 public:
  RankTraceBuilder& builder() { return builder_; }
};

// Half of the bytes are the program, the rest what differs between ranks.
inline absl::StatusOr<TraceStore> RandomStore(Drawn& header) {
  const int32_t ranks = 1 + static_cast<int32_t>(header.Below(4));
  const int32_t world = ranks + static_cast<int32_t>(header.Below(3));
  const bool known_device = header.OneIn(8);  // its file is read each time
  const bool symbolic = header.OneIn(16);
  const std::string_view bytes = header.Rest();
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> built;
  Diagnostics diagnostics;
  for (int32_t r = 0; r < ranks; ++r) {
    Drawn program(bytes.substr(0, bytes.size() / 2));
    const size_t share = bytes.size() / 2 / static_cast<size_t>(ranks);
    Drawn own(bytes.substr(bytes.size() / 2 + share * static_cast<size_t>(r), share));
    RandomRank rank(r, world);
    if (known_device) rank.builder().info().device_name = "NVIDIA A100-SXM4-80GB";
    rank.builder().AddProcessGroup({"all", "", {}});
    if (r < 2) rank.builder().AddProcessGroup({"pair", "tp", {0, 1}});
    while (!program.done()) rank.Run(program, own);
    rank.builder().info().has_times = !symbolic;
    FORETRACE_ASSIGN_OR_RETURN(auto result, rank.Build(!symbolic));
    diagnostics.Merge(result.diagnostics);
    built.emplace_back(std::move(result.trace), std::move(result.strings));
  }
  return TraceStore::Assemble(std::move(built), std::move(diagnostics));
}

}  // namespace foretrace
