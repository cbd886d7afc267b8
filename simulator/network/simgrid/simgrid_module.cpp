#include "simulator/network/simgrid/simgrid_module.h"

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace foretrace {
namespace {

namespace sg = simgrid::s4u;

// SimGrid counts whole bytes; finer units keep fractions of a byte (a collective's share of a
// buffer) to better than 1e-12 of a flow of a kilobyte.
constexpr double kUnitsPerByte = 1 << 20;

// A clean max-min model: no TCP window limit (it would also cap CM02), no cross traffic, no weights
// by round-trip time, and precision for comparisons.
constexpr const char* kArguments[] = {"foretrace",
                                      "--cfg=network/model:CM02",
                                      "--cfg=network/optim:Lazy",
                                      "--cfg=network/TCP-gamma:0",
                                      "--cfg=network/crosstraffic:0",
                                      "--cfg=network/weight-S:0",
                                      "--cfg=surf/precision:1e-12",
                                      "--cfg=contexts/factory:raw",
                                      "--log=root.thresh:critical"};

class Backend : public SimgridBackend {
 public:
  Backend(const SimgridPlatform& platform, FlowSink& sink);

  RealSeconds now() const override { return RealSeconds(sg::Engine::get_clock()); }
  void Launch(DeviceId from, DeviceId to, RealBytes bytes, LatencyScale scale,
              uint32_t token) override;
  void CallAt(RealSeconds time, uint32_t token) override;
  void CallBackAt(RealSeconds time, std::function<void()> call) override;
  void Run(std::function<void()> after_event) override;

 private:
  struct Pending {
    sg::CommPtr comm;
    uint32_t token = 0;
    RealSeconds latency;
  };
  void BuildPlatform();
  template <typename Call>
  static void At(RealSeconds time, Call call) {
    simgrid::kernel::timer::Timer::set(time.seconds(), std::move(call));
  }
  void Deliver(RealSeconds latency, uint32_t token);
  void OnCompletion(const sg::Activity& activity);

  const SimgridPlatform& platform_;
  FlowSink& sink_;
  std::unique_ptr<sg::Engine> engine_;
  std::vector<sg::Host*> hosts_;
  std::unordered_map<const sg::Activity*, Pending> pending_;
  // Finished communications stay alive until SimGrid is done with its callback.
  std::vector<sg::CommPtr> finished_;
  std::function<void()> after_event_;
};

Backend::Backend(const SimgridPlatform& platform, FlowSink& sink)
    : platform_(platform), sink_(sink) {
  std::vector<std::string> arguments(std::begin(kArguments), std::end(kArguments));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(arguments.size());
  engine_ = std::make_unique<sg::Engine>(&argc, argv.data());
  BuildPlatform();
  // The signal is SimGrid's own global; one backend per process registers once.
  sg::Activity::on_completion_cb([this](const sg::Activity& activity) { OnCompletion(activity); });
}

void Backend::BuildPlatform() {
  sg::NetZone* zone = sg::create_full_zone("platform");
  for (DeviceId d = 0; d < platform_.devices; ++d) {
    hosts_.push_back(zone->create_host("device" + std::to_string(d), 1.0));
  }
  std::unordered_map<LinkId, sg::Link*> links;
  Route route;
  for (DeviceId a = 0; a < platform_.devices; ++a) {
    for (DeviceId b = 0; b < platform_.devices; ++b) {
      if (a == b) continue;
      platform_.find_route(a, b, route);
      std::vector<sg::LinkInRoute> path;
      for (LinkId id : route.links) {
        sg::Link*& link = links[id];
        if (link == nullptr) {
          link = zone->create_link("link" + std::to_string(id),
                                   platform_.link_rate(id).bytes_per_second() * kUnitsPerByte);
          link->set_latency(0.0)->seal();
        }
        path.emplace_back(link);
      }
      zone->add_route(hosts_[static_cast<size_t>(a)]->get_netpoint(),
                      hosts_[static_cast<size_t>(b)]->get_netpoint(), nullptr, nullptr, path,
                      /*symmetrical=*/false);
    }
  }
  zone->seal();
}

void Backend::Deliver(RealSeconds latency, uint32_t token) {
  At(now() + latency, [this, token] {
    sink_.OnDelivered(token);
    after_event_();
  });
}

void Backend::Launch(DeviceId from, DeviceId to, RealBytes bytes, LatencyScale scale,
                     uint32_t token) {
  Route route;
  platform_.find_route(from, to, route);
  const bool inter = !platform_.same_node(from, to);
  const RealSeconds latency = RealSeconds(route.latency) * (inter ? scale.inter : scale.intra);
  const double units = std::round(bytes.count() * kUnitsPerByte);
  if (units < 1 || route.links.empty()) {
    At(now(), [this, token, latency] {
      sink_.OnDrained(token);
      Deliver(latency, token);
    });
    return;
  }
  sg::CommPtr comm =
      sg::Comm::sendto_init(hosts_[static_cast<size_t>(from)], hosts_[static_cast<size_t>(to)]);
  comm->set_payload_size(static_cast<uint64_t>(units));
  pending_[comm.get()] = {comm, token, latency};
  comm->vetoable_start();
}

void Backend::CallAt(RealSeconds time, uint32_t token) {
  At(std::max(time, now()), [this, token] {
    sink_.OnTimer(token);
    after_event_();
  });
}

void Backend::CallBackAt(RealSeconds time, std::function<void()> call) {
  At(std::max(time, now()), std::move(call));
}

void Backend::OnCompletion(const sg::Activity& activity) {
  const auto found = pending_.find(&activity);
  if (found == pending_.end()) return;
  const Pending pending = found->second;
  // Frees the communications of earlier events, keeps this one through SimGrid's own callback.
  if (finished_.size() > 64) finished_.erase(finished_.begin(), finished_.begin() + 32);
  finished_.push_back(pending.comm);
  pending_.erase(found);
  Deliver(pending.latency, pending.token);
  sink_.OnDrained(pending.token);
  after_event_();
}

void Backend::Run(std::function<void()> after_event) {
  after_event_ = std::move(after_event);
  engine_->run();
}

}  // namespace

extern "C" [[gnu::visibility("default")]] SimgridBackend* foretrace_make_simgrid_backend(
    const SimgridPlatform& platform, FlowSink& sink) {
  return new Backend(platform, sink);
}

}  // namespace foretrace
