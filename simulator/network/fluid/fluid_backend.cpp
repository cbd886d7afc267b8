#include "simulator/network/fluid/fluid_backend.h"

#include <algorithm>

namespace foretrace {

FluidBackend::RouteInfo FluidBackend::BuildRoute(DeviceId from, DeviceId to) {
  topology_.FindRoute(from, to, scratch_);
  RouteInfo info;
  info.latency = RealSeconds(scratch_.latency);
  info.inter = topology_.node_of(from) != topology_.node_of(to);
  info.empty = scratch_.links.empty();
  if (info.empty) return info;
  for (LinkId& link : scratch_.links) {
    const auto [it, fresh] = links_.try_emplace(link, 0);
    if (fresh) it->second = solver_.AddLink(topology_.link_rate(link));
    link = it->second;
  }
  info.index = solver_.AddRoute(scratch_.links);
  return info;
}

const FluidBackend::RouteInfo& FluidBackend::RouteBetween(DeviceId from, DeviceId to) {
  if (last_.empty()) last_.resize(static_cast<size_t>(topology_.device_count()));
  LastRoute& last = last_[static_cast<size_t>(from)];
  if (last.to == to) return last.route;
  if (solver_.route_pool_size() > route_pool_limit_) {
    solver_.DropIdleRoutes();
    // Routes in use stay: the next look at all of them must be as many new ones away.
    route_pool_limit_ = std::max(kRoutePoolLimit, 2 * solver_.route_pool_size());
    routes_.clear();
    for (LastRoute& other : last_) other.to = -1;
  }
  const uint64_t key = (uint64_t{static_cast<uint32_t>(from)} << 32) | static_cast<uint32_t>(to);
  const auto [it, fresh] = routes_.try_emplace(key);
  if (fresh) it->second = BuildRoute(from, to);
  last = {to, it->second};
  return last.route;
}

void FluidBackend::Launch(DeviceId from, DeviceId to, RealBytes bytes, LatencyScale scale,
                          uint32_t token) {
  const RouteInfo& route = RouteBetween(from, to);
  const RealSeconds latency = route.latency * (route.inter ? scale.inter : scale.intra);
  ++events_;
  if (bytes <= RealBytes() || route.empty) {
    Push(now_, {token, Kind::kDrained});
    Push(now_ + latency, {token, Kind::kDelivered});
    return;
  }
  const FluidSolver::FlowIndex flow = solver_.Start(route.index, bytes);
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  flows_[flow] = {token, latency};
}

void FluidBackend::CallAt(RealSeconds time, uint32_t token) {
  Push(std::max(time, now_), {token, Kind::kTimer});
}

void FluidBackend::HandleEvents() {
  batch_.clear();
  queue_.PopBatch(batch_);
  events_ += static_cast<int64_t>(batch_.size());
  for (const Event& event : batch_) {
    switch (event.kind) {
      case Kind::kDrained:
        sink_.OnDrained(event.token);
        break;
      case Kind::kDelivered:
        sink_.OnDelivered(event.token);
        break;
      case Kind::kTimer:
        sink_.OnTimer(event.token);
        break;
    }
  }
}

bool FluidBackend::RunBatch() {
  const RealSeconds time = NextTime();
  if (time == FluidSolver::kNever) return false;
  now_ = time;
  completed_.clear();
  solver_.AdvanceTo(time, completed_);
  events_ += static_cast<int64_t>(completed_.size());
  // Deliveries are queued before anyone is told, so that flows started in reply may reuse indices.
  for (FluidSolver::FlowIndex& flow : completed_) {
    const FlowInfo info = flows_[flow];
    flow = info.token;
    Push(now_ + info.latency, {info.token, Kind::kDelivered});
  }
  for (uint32_t token : completed_) sink_.OnDrained(token);
  while (queue_.NextTime() == time.seconds()) HandleEvents();
  return true;
}

}  // namespace foretrace
