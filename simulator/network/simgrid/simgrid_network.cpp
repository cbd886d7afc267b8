#include "simulator/network/simgrid/simgrid_network.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "simulator/base/error.h"
#include "simulator/base/module.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/simgrid/simgrid_module.h"
#include "simulator/network/simgrid/worker.h"

namespace foretrace {
namespace {

// Routes between all pairs are built up front.
constexpr int32_t kMaxDevices = 1024;
// SimGrid counts whole units in 64 bits, of which there are 2^20 a byte (simgrid_module.cpp): 2^44
// bytes a flow, and no flow is larger than twice its transfer.
constexpr Bytes kMaxBytes(int64_t{1} << 43);

enum class Command : int32_t { kStart, kNext };

struct StartHeader {
  RealSeconds start;
  Bytes bytes;
  uint32_t handle;
  int32_t op;
  int32_t point_to_point;
  int32_t dtype;
  int32_t members;
  int64_t splits;
};

// One per kNext. handle = kStalled: nothing more will happen.
struct Reply {
  RealSeconds time;
  uint32_t handle;
};
constexpr uint32_t kStalled = 0xffffffffu;
// The limit of kNext came before any completion.
constexpr uint32_t kNothingYet = 0xfffffffeu;
// Completions are rounded to picoseconds; one that rounds to the limit is within it.
constexpr RealSeconds kHalfPicosecond(0.5e-12);

absl::Status WorkerLost() {
  return absl::InternalError("the SimGrid worker process ended unexpectedly");
}

// In the process that forks the workers, so that it is loaded once for all of them.
absl::StatusOr<MakeSimgridBackend*> LoadSimgrid() {
  absl::StatusOr<void*> symbol = LoadModule("simgrid", kMakeSimgridBackend);
  if (!symbol.ok()) {
    return Infeasible("the simgrid network cannot be used: {}; or use --network fluid",
                      std::string(symbol.status().message()));
  }
  return reinterpret_cast<MakeSimgridBackend*>(*symbol);
}

SimgridPlatform PlatformOf(const Topology& topology) {
  return {
      topology.device_count(),
      [&topology](DeviceId from, DeviceId to, Route& route) {
        topology.FindRoute(from, to, route);
      },
      [&topology](LinkId link) { return topology.link_rate(link); },
      [&topology](DeviceId a, DeviceId b) { return topology.node_of(a) == topology.node_of(b); }};
}

// The worker's side: waits for commands before the run and inside SimGrid's callbacks.
class Server {
 public:
  Server(MakeSimgridBackend* make_backend, const Topology& topology, NetworkOptions options, int in,
         int out)
      : planner_(topology, options),
        platform_(PlatformOf(topology)),
        backend_(make_backend(platform_, runner_)),
        in_(in),
        out_(out) {
    runner_.set_backend(backend_.get());
  }

  void Serve() {
    while (WaitForNext()) {
      backend_->Run([this] { AfterEvent(); });
      if (closed_) return;
      const Reply stalled{RealSeconds(), kStalled};
      if (!WriteAll(out_, &stalled, sizeof stalled)) return;
    }
  }

 private:
  void AfterEvent() {
    while (!closed_ && runner_.has_finished()) {
      for (const auto& finished : runner_.TakeFinished()) {
        Answer({finished.time, finished.transfer});
      }
    }
  }

  // Replies to the kNext under way and takes commands up to the next one.
  void Answer(const Reply& reply) {
    ++answered_;
    if (!WriteAll(out_, &reply, sizeof reply) || !WaitForNext()) std::_Exit(0);
  }

  // Handles commands until kNext; false: the pipe is closed.
  bool WaitForNext() {
    for (;;) {
      Command command;
      if (!ReadAll(in_, &command, sizeof command)) return !(closed_ = true);
      if (command == Command::kNext) {
        RealSeconds limit;
        if (!ReadAll(in_, &limit, sizeof limit)) return !(closed_ = true);
        if (limit < RealSeconds::Infinite()) {
          backend_->CallBackAt(limit + kHalfPicosecond, [this, number = answered_] {
            if (answered_ == number) Answer({RealSeconds(), kNothingYet});
          });
        }
        return true;
      }
      if (!ReadStart()) return !(closed_ = true);
    }
  }

  bool ReadStart() {
    StartHeader header;
    if (!ReadAll(in_, &header, sizeof header)) return false;
    TransferSpec spec;
    spec.op = static_cast<CollectiveOp>(header.op);
    spec.point_to_point = header.point_to_point != 0;
    spec.dtype = static_cast<DType>(header.dtype);
    spec.bytes = header.bytes;
    spec.members.resize(static_cast<size_t>(header.members));
    spec.split_bytes.resize(static_cast<size_t>(header.splits));
    if (!ReadAll(in_, spec.members.data(), spec.members.size() * sizeof(int32_t)) ||
        !ReadAll(in_, spec.split_bytes.data(), spec.split_bytes.size() * sizeof(int64_t))) {
      return false;
    }
    auto plan = planner_.Plan(spec);
    if (!plan.ok()) return false;  // the parent has planned it before
    runner_.Begin(header.handle, *std::move(plan), std::max(header.start, backend_->now()));
    return true;
  }

  TransferPlanner planner_;
  ScheduleRunner runner_;
  SimgridPlatform platform_;
  std::unique_ptr<SimgridBackend> backend_;
  int in_;
  int out_;
  bool closed_ = false;
  int64_t answered_ = 0;
};

// Reports the times of a flow set.
class FlowTimes : public FlowSink {
 public:
  explicit FlowTimes(const std::vector<TimedFlow>& flows) : flows_(flows), times_(flows.size()) {}
  void OnDrained(uint32_t token) override { times_[token] = backend->now(); }
  void OnDelivered(uint32_t) override {}
  void OnTimer(uint32_t token) override {
    const TimedFlow& flow = flows_[token];
    backend->Launch(flow.from, flow.to, flow.bytes, {0, 0}, token);
  }
  const std::vector<RealSeconds>& times() const { return times_; }
  FlowBackend* backend = nullptr;

 private:
  const std::vector<TimedFlow>& flows_;
  std::vector<RealSeconds> times_;
};

}  // namespace

absl::Status CheckSimgridSize(const Topology& topology) {
  if (topology.device_count() <= kMaxDevices) return absl::OkStatus();
  return Infeasible("platform '{}' has {} devices; the simgrid network takes at most {}: use fluid",
                    topology.spec().name, topology.device_count(), kMaxDevices);
}

absl::StatusOr<std::unique_ptr<SimgridNetwork>> SimgridNetwork::Create(const Topology& topology,
                                                                       NetworkOptions options) {
  FORETRACE_RETURN_IF_ERROR(CheckSimgridSize(topology));
  FORETRACE_ASSIGN_OR_RETURN(MakeSimgridBackend* const make_backend, LoadSimgrid());
  std::unique_ptr<SimgridNetwork> network(new SimgridNetwork(topology, options));
  FORETRACE_ASSIGN_OR_RETURN(const Worker worker, StartWorker([&](int in, int out) {
                               Server(make_backend, topology, options, in, out).Serve();
                             }));
  network->worker_ = worker.pid;
  network->from_worker_ = worker.in;
  network->to_worker_ = worker.out;
  return network;
}

SimgridNetwork::~SimgridNetwork() {
  Worker worker{worker_, from_worker_, to_worker_};
  StopWorker(worker);
}

absl::StatusOr<Estimate> SimgridNetwork::IsolatedDuration(const TransferSpec& spec) {
  FORETRACE_ASSIGN_OR_RETURN(const auto alone, Create(topology_, options_));
  FORETRACE_ASSIGN_OR_RETURN(const TransferHandle handle, alone->Start(spec, SimTime()));
  FORETRACE_ASSIGN_OR_RETURN(const auto completion, alone->Next(SimTime::Max()));
  if (!completion || completion->transfer != handle) return WorkerLost();
  return Estimate{completion->time, EstimateSource::kAnalytic};
}

absl::StatusOr<TransferHandle> SimgridNetwork::Start(const TransferSpec& spec, SimTime start) {
  FORETRACE_ASSIGN_OR_RETURN(const TransferPlan plan, planner_.Plan(spec));
  FORETRACE_RETURN_IF_ERROR(CheckInFlight(plan));
  if (spec.bytes > kMaxBytes) {
    return Infeasible("{}: the simgrid network counts at most 8 TiB a transfer: use fluid",
                      Describe(spec));
  }
  const Command command = Command::kStart;
  const StartHeader header{RealSeconds(start),
                           spec.bytes,
                           next_handle_,
                           static_cast<int32_t>(spec.op),
                           spec.point_to_point ? 1 : 0,
                           static_cast<int32_t>(spec.dtype),
                           static_cast<int32_t>(spec.members.size()),
                           static_cast<int64_t>(spec.split_bytes.size())};
  if (!WriteAll(to_worker_, &command, sizeof command) ||
      !WriteAll(to_worker_, &header, sizeof header) ||
      !WriteAll(to_worker_, spec.members.data(), spec.members.size() * sizeof(int32_t)) ||
      !WriteAll(to_worker_, spec.split_bytes.data(), spec.split_bytes.size() * sizeof(int64_t))) {
    return WorkerLost();
  }
  ++in_flight_;
  return next_handle_++;
}

absl::StatusOr<std::optional<NetworkModel::Completion>> SimgridNetwork::Next(SimTime limit) {
  if (in_flight_ == 0) return std::nullopt;
  const Command command = Command::kNext;
  const RealSeconds until = limit == SimTime::Max() ? RealSeconds::Infinite() : RealSeconds(limit);
  Reply reply;
  if (!WriteAll(to_worker_, &command, sizeof command) ||
      !WriteAll(to_worker_, &until, sizeof until) || !ReadAll(from_worker_, &reply, sizeof reply)) {
    return WorkerLost();
  }
  if (reply.handle == kStalled) {
    return absl::InternalError(
        fmt::format("the SimGrid simulation stalled with {} transfers in flight", in_flight_));
  }
  if (reply.handle == kNothingYet) return std::nullopt;
  --in_flight_;
  FORETRACE_ASSIGN_OR_RETURN(const SimTime time, CompletionTime(reply.time));
  return Completion{time, reply.handle};
}

absl::StatusOr<std::vector<RealSeconds>> SimgridFlowTimes(const Topology& topology,
                                                          const std::vector<TimedFlow>& flows) {
  FORETRACE_RETURN_IF_ERROR(CheckSimgridSize(topology));
  for (const TimedFlow& flow : flows) {
    if (flow.from == flow.to) return InvalidInput("a flow from device {} to itself", flow.from);
  }
  FORETRACE_ASSIGN_OR_RETURN(MakeSimgridBackend* const make_backend, LoadSimgrid());
  FORETRACE_ASSIGN_OR_RETURN(
      Worker worker, StartWorker([&](int, int out) {
        FlowTimes times(flows);
        const SimgridPlatform platform = PlatformOf(topology);
        const std::unique_ptr<SimgridBackend> backend(make_backend(platform, times));
        times.backend = backend.get();
        for (size_t i = 0; i < flows.size(); ++i) {
          backend->CallAt(flows[i].start, static_cast<uint32_t>(i));
        }
        backend->Run([] {});
        WriteAll(out, times.times().data(), flows.size() * sizeof(RealSeconds));
      }));
  std::vector<RealSeconds> times(flows.size());
  const bool complete = ReadAll(worker.in, times.data(), times.size() * sizeof(RealSeconds));
  StopWorker(worker);
  if (!complete) return WorkerLost();
  return times;
}

}  // namespace foretrace
