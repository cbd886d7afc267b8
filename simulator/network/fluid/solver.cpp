#include "simulator/network/fluid/solver.h"

#include <algorithm>
#include <numeric>

#include "simulator/base/check.h"

namespace foretrace {

FluidSolver::LinkIndex FluidSolver::AddLink(Bandwidth capacity) {
  FORETRACE_CHECK(capacity > Bandwidth());
  links_.emplace_back();
  links_.back().capacity = capacity.bytes_per_second();
  return static_cast<LinkIndex>(links_.size() - 1);
}

FluidSolver::RouteIndex FluidSolver::AddRoute(std::span<const LinkIndex> links,
                                              std::span<const uint32_t> counts) {
  FORETRACE_CHECK(!links.empty());
  if (!counts.empty()) {
    FORETRACE_CHECK(counts.size() == links.size());
    route_counts_.resize(route_links_.size(), 1);
    route_counts_.insert(route_counts_.end(), counts.begin(), counts.end());
  } else if (!route_counts_.empty()) {
    route_counts_.resize(route_links_.size() + links.size(), 1);
  }
  routes_.push_back(
      {static_cast<uint32_t>(route_links_.size()), static_cast<uint32_t>(links.size())});
  route_links_.insert(route_links_.end(), links.begin(), links.end());
  return static_cast<RouteIndex>(routes_.size() - 1);
}

void FluidSolver::DropIdleRoutes() {
  std::vector<RouteSpan> routes;
  std::vector<LinkIndex> links;
  std::vector<uint32_t> counts;
  for (Flow& flow : flows_) {
    if (!flow.active) continue;
    const auto old = LinksOf(flow);
    const auto first = static_cast<uint32_t>(links.size());
    links.insert(links.end(), old.begin(), old.end());
    for (size_t i = 0; !route_counts_.empty() && i < old.size(); ++i) {
      counts.push_back(CountOf(flow, i));
    }
    flow.route = static_cast<RouteIndex>(routes.size());
    routes.push_back({first, static_cast<uint32_t>(old.size())});
  }
  routes_ = std::move(routes);
  route_links_ = std::move(links);
  route_counts_ = std::move(counts);
}

FluidSolver::FlowIndex FluidSolver::Start(RouteIndex route, RealBytes bytes) {
  FORETRACE_CHECK(bytes > RealBytes());
  FlowIndex index;
  if (free_flows_.empty()) {
    index = static_cast<FlowIndex>(flows_.size());
    flows_.emplace_back();
  } else {
    index = free_flows_.back();
    free_flows_.pop_back();
  }
  Flow& flow = flows_[index];
  flow.remaining = bytes.count();
  flow.rate = 0;
  flow.updated = now_;
  flow.finish = kEndless;
  flow.route = route;
  flow.active = true;
  ++active_;
  touched_.push_back(index);
  return index;
}

uint32_t FluidSolver::Root(uint32_t link) {
  while (links_[link].parent != link) {
    links_[link].parent = links_[links_[link].parent].parent;
    link = links_[link].parent;
  }
  return link;
}

// Puts the flows of a component up for the pending solve.
void FluidSolver::Dissolve(uint32_t component) {
  Component& c = components_[component];
  for (uint32_t f = c.head; f != kNone; f = flows_[f].next) touched_.push_back(f);
  ++c.version;
  free_components_.push_back(component);
}

uint32_t FluidSolver::NewComponent() {
  if (free_components_.empty()) {
    components_.emplace_back();
    return static_cast<uint32_t>(components_.size() - 1);
  }
  const uint32_t index = free_components_.back();
  free_components_.pop_back();
  return index;
}

// Joins the links of a flow into one set; components that hold any of them join the solve.
void FluidSolver::Touch(FlowIndex index) {
  const auto route = LinksOf(flows_[index]);
  uint32_t root = kNone;
  for (size_t i = 0; i < route.size(); ++i) {
    const LinkIndex l = route[i];
    Link& link = links_[l];
    if (link.epoch != epoch_) {
      link.epoch = epoch_;
      link.parent = l;
      link.flows = 0;
      link.next_component = kNone;
      touched_links_.push_back(l);
      if (link.component != kNone &&
          components_[link.component].version == link.component_version) {
        Dissolve(link.component);
      }
    }
    link.flows += CountOf(flows_[index], i);
    const uint32_t mine = Root(l);
    if (root == kNone) {
      root = mine;
    } else if (mine != root) {
      links_[mine].parent = root;
    }
  }
}

void FluidSolver::FormComponents() {
  new_components_.clear();
  for (LinkIndex l : touched_links_) {
    Link& link = links_[l];
    Link& root = links_[Root(l)];
    if (root.next_component == kNone) {
      const uint32_t fresh = NewComponent();
      Component& component = components_[fresh];
      component.time = kEndless;
      component.share = kEndless;
      component.head = kNone;
      component.uniform = true;
      root.next_component = fresh;
      new_components_.push_back(fresh);
    }
    link.component = root.next_component;
    link.component_version = components_[link.component].version;
    link.share = link.capacity / link.flows;
    double& tightest = components_[link.component].share;
    tightest = std::min(tightest, link.share);
  }
  // Last first, so that each component lists its flows in the order in which they were touched.
  for (size_t i = touched_.size(); i-- > 0;) {
    Flow& flow = flows_[touched_[i]];
    Component& component = components_[links_[LinksOf(flow)[0]].component];
    flow.next = component.head;
    component.head = touched_[i];
    if (!component.uniform) continue;
    bool tight = false;
    for (LinkIndex l : LinksOf(flow)) tight = tight || links_[l].share == component.share;
    component.uniform = tight;
  }
}

void FluidSolver::SetRate(Flow& flow, double rate) {
  if (rate == flow.rate) return;  // the completion time stands: no drift
  if (flow.rate > 0) {
    flow.remaining = std::max(0.0, flow.remaining - flow.rate * (now_ - flow.updated));
  }
  flow.rate = rate;
  flow.updated = now_;
  flow.finish = now_ + flow.remaining / rate;
}

void FluidSolver::FixRate(Flow& flow, double rate, size_t& unfixed) {
  flow.fixed = true;
  --unfixed;
  SetRate(flow, rate);
  const auto route = LinksOf(flow);
  for (size_t i = 0; i < route.size(); ++i) {
    Link& link = links_[route[i]];
    const uint32_t count = CountOf(flow, i);
    // One by one, so that many flows and one that stands for them leave the same bits.
    for (uint32_t k = 0; k < count; ++k) left_[link.parent] -= rate;
    link.flows -= count;
  }
}

// Its flows and links, and the flows of each link as offsets into one array.
void FluidSolver::GatherMembers(const Component& component) {
  member_flows_.clear();
  member_links_.clear();
  for (uint32_t f = component.head; f != kNone; f = flows_[f].next) {
    member_flows_.push_back(f);
    flows_[f].fixed = false;
    for (LinkIndex l : LinksOf(flows_[f])) {
      if (links_[l].parent == kNone) continue;  // seen: parent is free after FormComponents
      links_[l].parent = kNone;
      member_links_.push_back(l);
    }
  }
  // links_[l].epoch stays, parent holds the index.
  for (size_t i = 0; i < member_links_.size(); ++i) {
    links_[member_links_[i]].parent = static_cast<uint32_t>(i);
  }
  offsets_.assign(member_links_.size() + 1, 0);
  for (FlowIndex f : member_flows_) {
    for (LinkIndex l : LinksOf(flows_[f])) ++offsets_[links_[l].parent + 1];
  }
  std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
  flows_of_link_.resize(offsets_.back());
  fill_.assign(offsets_.begin(), offsets_.end() - 1);
  for (FlowIndex f : member_flows_) {
    for (LinkIndex l : LinksOf(flows_[f])) flows_of_link_[fill_[links_[l].parent]++] = f;
  }
}

// Progressive filling: the link with the smallest fair share fixes the rates of its flows, which
// leaves the others more; repeat. Links whose shares are equal but for rounding make one level, and
// all their flows get the same rate: flows that are alike stay so to the bit.
void FluidSolver::SolveGeneral(const Component& component) {
  constexpr double kEqual = 1 + 1e-12;
  GatherMembers(component);
  left_.resize(member_links_.size());
  heap_.clear();
  for (size_t i = 0; i < member_links_.size(); ++i) {
    left_[i] = links_[member_links_[i]].capacity;
    heap_.push_back({links_[member_links_[i]].share, static_cast<uint32_t>(i)});
  }
  const auto later = [](const Share& a, const Share& b) {
    return a.share != b.share ? a.share > b.share : a.link > b.link;
  };
  std::make_heap(heap_.begin(), heap_.end(), later);
  size_t unfixed = member_flows_.size();
  double level = 0;
  while (unfixed > 0) {
    FORETRACE_CHECK(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Share top = heap_.back();
    heap_.pop_back();
    const Link& link = links_[member_links_[top.link]];
    if (link.flows == 0) continue;
    const double share = left_[top.link] / link.flows;
    if (share > level * kEqual) {
      if (share > top.share) {  // others have been fixed since: its share has grown
        heap_.push_back({share, top.link});
        std::push_heap(heap_.begin(), heap_.end(), later);
        continue;
      }
      level = top.share;
    }
    for (uint32_t k = offsets_[top.link]; k < offsets_[top.link + 1]; ++k) {
      Flow& flow = flows_[flows_of_link_[k]];
      if (!flow.fixed) FixRate(flow, level, unfixed);
    }
  }
}

void FluidSolver::Solve() {
  if (touched_.empty()) return;
  ++epoch_;
  touched_links_.clear();
  for (size_t i = 0; i < touched_.size(); ++i) Touch(touched_[i]);  // grows while it runs
  FormComponents();
  for (uint32_t index : new_components_) {
    Component& component = components_[index];
    if (!component.uniform) {
      SolveGeneral(component);
    }
    for (uint32_t f = component.head; f != kNone; f = flows_[f].next) {
      if (component.uniform) SetRate(flows_[f], component.share);
      component.time = std::min(component.time, flows_[f].finish);
    }
    due_.Push(component.time, {index, component.version});
  }
  touched_.clear();
}

RealSeconds FluidSolver::NextTime() {
  Solve();
  return RealSeconds(due_.NextTime());
}

void FluidSolver::AdvanceTo(RealSeconds time, std::vector<FlowIndex>& completed) {
  FORETRACE_CHECK(time >= now());
  now_ = time.seconds();
  popped_.clear();
  while (due_.NextTime() <= now_) due_.PopBatch(popped_);
  for (const Due& due : popped_) {
    Component& component = components_[due.component];
    if (component.version != due.version) continue;  // re-solved since
    for (uint32_t f = component.head; f != kNone; f = flows_[f].next) {
      if (flows_[f].finish > now_) {
        touched_.push_back(f);
        continue;
      }
      flows_[f].active = false;
      completed.push_back(f);
      free_flows_.push_back(f);
      --active_;
    }
    ++component.version;
    free_components_.push_back(due.component);
  }
}

Bandwidth FluidSolver::Rate(FlowIndex flow) {
  Solve();
  return Bandwidth::BytesPerSecond(flows_[flow].rate);
}

}  // namespace foretrace
