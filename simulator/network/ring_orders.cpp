#include "simulator/network/ring_orders.h"

#include <algorithm>
#include <numeric>

namespace foretrace {
namespace {

using Orders = std::vector<std::vector<int32_t>>;

// Packs Hamiltonian cycles, or paths, into a multigraph of at most kMaxMembers vertices by
// backtracking.
class CyclePacker {
 public:
  static constexpr size_t kMaxMembers = 8;

  CyclePacker(const Topology& topology, std::span<const DeviceId> devices, bool closed)
      : n_(devices.size()), closed_(closed) {
    const int32_t per_node = topology.spec().node.devices;
    for (size_t a = 0; a < n_; ++a) {
      for (size_t b = 0; b < n_; ++b) {
        links_[a][b] =
            a == b ? 0 : topology.MeshLinks(devices[a] % per_node, devices[b] % per_node);
      }
    }
    for (size_t start = 0; start < (closed_ ? 1 : n_); ++start) {
      std::vector<int32_t> path{static_cast<int32_t>(start)};
      Enumerate(path, 1u << start);
    }
    int32_t degree = 1 << 20;
    for (size_t a = 0; a < n_; ++a) {
      degree = std::min(degree, std::accumulate(links_[a], links_[a] + n_, 0));
    }
    limit_ = static_cast<size_t>(n_ == 2 || !closed_ ? degree : degree / 2);
  }

  Orders Pack() {
    std::vector<size_t> chosen;
    Search(0, chosen);
    Orders orders;
    for (size_t index : best_) {
      orders.push_back(cycles_[index]);
      if (n_ > 2) orders.emplace_back(cycles_[index].rbegin(), cycles_[index].rend());
    }
    return orders;
  }

 private:
  static constexpr int64_t kMaxVisits = 200000;

  void Enumerate(std::vector<int32_t>& path, uint32_t used) {
    const auto last = static_cast<size_t>(path.back());
    if (path.size() == n_) {
      if (!closed_) {
        if (path.front() < path.back()) cycles_.push_back(path);
        return;
      }
      // Each cycle once: of its two directions, the one with the smaller second vertex.
      if (links_[last][0] > 0 && (n_ <= 2 || path[1] < path.back())) cycles_.push_back(path);
      return;
    }
    for (size_t next = 0; next < n_; ++next) {
      if ((used >> next & 1u) != 0 || links_[last][next] == 0) continue;
      path.push_back(static_cast<int32_t>(next));
      Enumerate(path, used | 1u << next);
      path.pop_back();
    }
  }

  // Takes the links of a cycle (sign -1) or gives them back (+1); false: not enough links, nothing
  // taken.
  bool Take(const std::vector<int32_t>& cycle) {
    for (size_t i = 0; i < Edges(); ++i) {
      if (!Change(cycle, i, -1)) {
        for (size_t k = 0; k <= i; ++k) Change(cycle, k, 1);
        return false;
      }
    }
    return true;
  }
  void Give(const std::vector<int32_t>& cycle) {
    for (size_t i = 0; i < Edges(); ++i) Change(cycle, i, 1);
  }
  size_t Edges() const { return n_ == 2 ? 1 : closed_ ? n_ : n_ - 1; }
  bool Change(const std::vector<int32_t>& cycle, size_t i, int32_t by) {
    const auto a = static_cast<size_t>(cycle[i]);
    const auto b = static_cast<size_t>(cycle[(i + 1) % n_]);
    links_[a][b] += by;
    links_[b][a] += by;
    return links_[a][b] >= 0;
  }

  void Search(size_t from, std::vector<size_t>& chosen) {
    if (chosen.size() > best_.size()) best_ = chosen;
    if (best_.size() == limit_ || ++visits_ > kMaxVisits) return;
    for (size_t c = from; c < cycles_.size(); ++c) {
      if (!Take(cycles_[c])) continue;
      chosen.push_back(c);
      Search(c, chosen);
      chosen.pop_back();
      Give(cycles_[c]);
      if (best_.size() == limit_ || visits_ > kMaxVisits) return;
    }
  }

  size_t n_;
  bool closed_;
  int32_t links_[kMaxMembers][kMaxMembers] = {};
  Orders cycles_;
  std::vector<size_t> best_;
  size_t limit_ = 0;
  int64_t visits_ = 0;
};

// Whether the devices are an even number, each with as many links to any other.
bool IsCompleteMesh(const Topology& topology, const std::vector<DeviceId>& devices) {
  const NodeSpec& node = topology.spec().node;
  if (node.interconnect != InterconnectKind::kMesh || devices.size() % 2 != 0) return false;
  const auto links = [&](DeviceId a, DeviceId b) {
    return topology.MeshLinks(a % node.devices, b % node.devices);
  };
  const int32_t each = links(devices[0], devices[1]);
  for (const DeviceId a : devices) {
    for (const DeviceId b : devices) {
      if (a != b && links(a, b) != each) return false;
    }
  }
  return each > 0;
}

// Through n members of a complete mesh from each of them on, n paths that have no link in one
// direction in common (Walecki's decomposition: from s on to s+1, s-1, s+2, ...); place `i` of the
// one from `start`.
size_t ZigZag(size_t start, size_t i, size_t n) {
  return (start + (i % 2 == 1 ? (i + 1) / 2 : n - i / 2)) % n;
}

}  // namespace

std::vector<std::vector<int32_t>> RingOrders(const Topology& topology,
                                             std::span<const DeviceId> devices) {
  std::vector<int32_t> order(devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return devices[static_cast<size_t>(a)] < devices[static_cast<size_t>(b)];
  });
  const NodeSpec& node = topology.spec().node;
  // Positions grouped by node.
  std::vector<std::vector<int32_t>> groups;
  int32_t last_node = -1;
  for (int32_t position : order) {
    const int32_t at = topology.node_of(devices[static_cast<size_t>(position)]);
    if (at != last_node) groups.emplace_back();
    last_node = at;
    groups.back().push_back(position);
  }
  if (groups.size() == 1 && node.interconnect == InterconnectKind::kMesh && devices.size() >= 2 &&
      devices.size() <= CyclePacker::kMaxMembers) {
    Orders orders = CyclePacker(topology, devices, true).Pack();
    if (!orders.empty()) return orders;
  }
  if (groups.size() < 2 || node.nics < 2) return {order};
  // Member of the first node that enters each NIC; every node rotates by the same amount.
  std::vector<size_t> rotations;
  int32_t last_nic = -1;
  for (size_t i = 0; i < groups[0].size(); ++i) {
    const DeviceId device = devices[static_cast<size_t>(groups[0][i])];
    const int32_t nic = node.nic_affinity[static_cast<size_t>(device % node.devices)];
    if (nic != last_nic) rotations.push_back(i);
    last_nic = nic;
  }
  const bool meshes = std::ranges::all_of(groups, [&](const std::vector<int32_t>& group) {
    std::vector<DeviceId> members;
    for (const int32_t position : group) members.push_back(devices[static_cast<size_t>(position)]);
    return IsCompleteMesh(topology, members);
  });
  Orders orders;
  for (size_t rotation : rotations) {
    auto& out = orders.emplace_back();
    for (const auto& group : groups) {
      const size_t n = group.size();
      for (size_t i = 0; i < n; ++i) {
        out.push_back(group[meshes ? ZigZag(rotation % n, i, n) : (i + rotation) % n]);
      }
    }
  }
  return orders;
}

std::vector<std::vector<int32_t>> MeshChains(const Topology& topology,
                                             std::span<const DeviceId> devices) {
  const size_t n = devices.size();
  if (topology.spec().node.interconnect != InterconnectKind::kMesh || n < 3 ||
      n > CyclePacker::kMaxMembers) {
    return {};
  }
  for (DeviceId device : devices) {
    if (topology.node_of(device) != topology.node_of(devices[0])) return {};
  }
  if (!CyclePacker(topology, devices, true).Pack().empty()) return {};
  const Orders packed = CyclePacker(topology, devices, false).Pack();
  Orders paths;
  for (size_t i = 0; i < packed.size(); i += 2) paths.push_back(packed[i]);  // not the reverses
  return paths;
}

}  // namespace foretrace
