#include "simulator/topology/fabric.h"

#include <algorithm>
#include <vector>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

class NoFabric : public Fabric {
 public:
  LinkId link_count() const override { return 0; }
  LinkSpec link(LinkId) const override { return {}; }
  std::string LinkName(LinkId) const override { return ""; }
  void AppendRoute(int32_t, int32_t, LinkId, LinkList&) const override {}
};

// A tree of switches over ports; one level with one switch is a single switch. Ports may be
// renumbered rail by rail, so that the leaves of a rail hold the same NIC of different nodes.
class TreeFabric : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<Fabric>> Make(const PlatformSpec& spec,
                                                      std::vector<FatTreeLevel> levels,
                                                      bool by_rail) {
    auto fabric = std::make_unique<TreeFabric>();
    fabric->type_ = spec.fabric.link;
    fabric->nics_ = std::max(1, spec.node.nics);
    int64_t ports = int64_t{spec.nodes} * fabric->nics_;
    if (by_rail) {
      const int64_t leaf = levels.front().radix;
      fabric->rail_stride_ = (spec.nodes + leaf - 1) / leaf * leaf;
      fabric->rail_leaves_ = fabric->rail_stride_ / leaf;
      ports = fabric->rail_stride_ * fabric->nics_;
    }
    int64_t children = ports;
    int64_t width = 1;
    double uplinks = 1;
    fabric->base_.push_back(0);
    fabric->units_.push_back(children);
    fabric->count_.push_back(1);
    for (size_t l = 0; l < levels.size() && children > 1; ++l) {
      width *= levels[l].radix;
      uplinks *= levels[l].radix / levels[l].oversubscription;
      fabric->base_.push_back(fabric->base_.back() + 2 * children);
      children = (children + levels[l].radix - 1) / levels[l].radix;
      fabric->width_.push_back(width);
      fabric->units_.push_back(children);
      fabric->count_.push_back(uplinks);
    }
    if (children > 1) {
      return InvalidInput("the radices reach only {} of {} NICs: add a level or raise a radix",
                          width, ports);
    }
    fabric->total_ = fabric->base_.back();  // the top switch has no uplinks
    if (fabric->total_ > kMaxFabricLinks) {
      return InvalidInput("{} links exceed the limit of {}", fabric->total_, kMaxFabricLinks);
    }
    return fabric;
  }

  LinkId link_count() const override { return static_cast<LinkId>(total_); }
  LinkSpec link(LinkId id) const override { return {type_, count_[LevelOf(id)]}; }
  std::string LinkName(LinkId id) const override {
    const size_t level = LevelOf(id);
    const int64_t offset = id - base_[level];
    const bool down = offset >= units_[level];
    return fmt::format("{}{}.{}", level == 0 ? "nic" : fmt::format("switch{}-", level),
                       offset % units_[level], down ? "down" : "up");
  }
  void AppendRoute(int32_t from, int32_t to, LinkId base, LinkList& links) const override {
    const int64_t a = Port(from);
    const int64_t b = Port(to);
    size_t top = 0;  // the first level at which both are below one switch
    while (top < width_.size() && a / width_[top] != b / width_[top]) ++top;
    for (size_t l = 0; l <= top; ++l) links.push_back(base + Up(l, a));
    for (size_t l = top + 1; l-- > 0;) {
      links.push_back(base + Up(l, b) + static_cast<LinkId>(units_[l]));
    }
  }
  // Children of a switch may be exchanged for each other. That moves whole nodes where switches
  // hold whole nodes, or the same NIC of every one of theirs.
  bool Interchangeable(int32_t nodes) const override {
    if (width_.empty()) return nodes == 1;
    if (rail_stride_ > 0) {
      const auto leaf = static_cast<int32_t>(width_[0]);
      if (nodes <= leaf) return true;
      // The leaves of a rail have one parent, so that they can change places in every rail at once.
      return nodes % leaf == 0 && width_.size() > 1 && width_[1] / width_[0] % rail_leaves_ == 0;
    }
    if (width_[0] % nics_ != 0) return false;
    int64_t below = 1;
    for (const int64_t width : width_) {
      const int64_t inside = width / nics_;
      if (nodes <= inside) return nodes % below == 0;
      below = inside;
    }
    return false;
  }
  LinkOrbit Orbit(LinkId id, int32_t nodes) const override {
    const size_t level = LevelOf(id);
    const int64_t direction = (id - base_[level]) / units_[level] * units_[level];
    const int64_t unit = (id - base_[level]) % units_[level];
    const auto orbit = [&](int64_t first, int64_t size) {
      return LinkOrbit{static_cast<LinkId>(base_[level] + direction + first),
                       std::max<int64_t>(1, size)};
    };
    if (rail_stride_ > 0) {
      if (level == 0) return orbit(unit / rail_stride_ * rail_stride_, nodes);
      if (level == 1) return orbit(unit / rail_leaves_ * rail_leaves_, nodes / width_[0]);
      return orbit(unit, 1);
    }
    if (level == 0) return orbit(unit % nics_, nodes);
    return orbit(0, nodes / (width_[level - 1] / nics_));
  }

 private:
  size_t LevelOf(LinkId id) const {
    size_t level = 0;
    while (level + 1 < base_.size() && id >= base_[level + 1]) ++level;
    return level;
  }
  int64_t Port(int32_t port) const {
    return rail_stride_ == 0 ? port : (port % nics_) * rail_stride_ + port / nics_;
  }
  LinkId Up(size_t level, int64_t port) const {
    return static_cast<LinkId>(base_[level] + (level == 0 ? port : port / width_[level - 1]));
  }

  LinkTypeIndex type_ = kNoLinkType;
  int32_t nics_ = 1;
  int64_t rail_stride_ = 0;     // ports of a rail; 0: ports are not by rail
  int64_t rail_leaves_ = 0;     // leaf switches of a rail
  std::vector<int64_t> base_;   // per level: first link; level 0 are the ports
  std::vector<int64_t> units_;  // per level: uplinks (downlinks follow)
  std::vector<double> count_;   // per level: parallel links per uplink
  std::vector<int64_t> width_;  // per switch level: ports below one switch
  int64_t total_ = 0;
};

// Groups of fully connected routers, groups fully connected; minimal routing (Kim et al., 2008).
class DragonflyFabric : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<Fabric>> Make(const PlatformSpec& spec) {
    auto fabric = std::make_unique<DragonflyFabric>();
    fabric->spec_ = spec.fabric;
    fabric->ports_ = int64_t{spec.nodes} * std::max(1, spec.node.nics);
    const int64_t per_group =
        int64_t{spec.fabric.terminals_per_router} * spec.fabric.routers_per_group;
    fabric->routers_ = spec.fabric.routers_per_group;
    fabric->groups_ = (fabric->ports_ + per_group - 1) / per_group;
    fabric->local_base_ = 2 * fabric->ports_;
    fabric->global_base_ =
        fabric->local_base_ + fabric->groups_ * fabric->routers_ * fabric->routers_;
    fabric->total_ = fabric->global_base_ + fabric->groups_ * fabric->groups_;
    if (fabric->total_ > kMaxFabricLinks) {
      return InvalidInput("{} links exceed the limit of {}", fabric->total_, kMaxFabricLinks);
    }
    return fabric;
  }

  LinkId link_count() const override { return static_cast<LinkId>(total_); }
  LinkSpec link(LinkId id) const override {
    return {id < local_base_    ? spec_.link
            : id < global_base_ ? spec_.local_link
                                : spec_.global_link,
            1};
  }
  std::string LinkName(LinkId id) const override {
    if (id < local_base_) {
      return fmt::format("nic{}.{}", id % ports_, id < ports_ ? "up" : "down");
    }
    if (id < global_base_) {
      const int64_t local = id - local_base_;
      return fmt::format("group{}.router{}-router{}", local / (routers_ * routers_),
                         local / routers_ % routers_, local % routers_);
    }
    return fmt::format("group{}-group{}", (id - global_base_) / groups_,
                       (id - global_base_) % groups_);
  }
  void AppendRoute(int32_t from, int32_t to, LinkId base, LinkList& links) const override {
    const int64_t ra = from / spec_.terminals_per_router;
    const int64_t rb = to / spec_.terminals_per_router;
    const int64_t ga = ra / routers_;
    const int64_t gb = rb / routers_;
    links.push_back(base + static_cast<LinkId>(from));
    if (ga == gb) {
      AppendLocal(ga, ra % routers_, rb % routers_, base, links);
    } else {
      AppendLocal(ga, ra % routers_, gb % routers_, base, links);  // the router that owns the way
      links.push_back(base + static_cast<LinkId>(global_base_ + ga * groups_ + gb));
      AppendLocal(gb, ga % routers_, rb % routers_, base, links);
    }
    links.push_back(base + static_cast<LinkId>(ports_ + to));
  }

 private:
  void AppendLocal(int64_t group, int64_t a, int64_t b, LinkId base, LinkList& links) const {
    if (a == b) return;
    links.push_back(base +
                    static_cast<LinkId>(local_base_ + (group * routers_ + a) * routers_ + b));
  }

  FabricSpec spec_;
  int64_t ports_ = 0;
  int64_t routers_ = 1;
  int64_t groups_ = 1;
  int64_t local_base_ = 0;
  int64_t global_base_ = 0;
  int64_t total_ = 0;
};

// Composition of one-dimensional networks over nodes, with dimension-ordered shortest routes.
class DimensionFabric : public Fabric {
 public:
  static absl::StatusOr<std::unique_ptr<Fabric>> Make(const PlatformSpec& spec) {
    auto fabric = std::make_unique<DimensionFabric>();
    fabric->dims_ = spec.fabric.dimensions;
    fabric->nodes_ = spec.nodes;
    fabric->nics_ = std::max(1, spec.node.nics);
    int64_t total = 0;
    for (const DimensionSpec& dim : fabric->dims_) {
      fabric->base_.push_back(total);
      // Ring and switch: two directed links per member; fully connected: one to each other member.
      fabric->per_node_.push_back(dim.kind == DimensionKind::kFullyConnected ? dim.size : 2);
      total += int64_t{fabric->nodes_} * fabric->per_node_.back();
    }
    fabric->total_ = total;
    if (total > kMaxFabricLinks) {
      return InvalidInput("{} links exceed the limit of {}", total, kMaxFabricLinks);
    }
    return fabric;
  }

  LinkId link_count() const override { return static_cast<LinkId>(total_); }
  LinkSpec link(LinkId id) const override {
    const DimensionSpec& dim = dims_[DimensionOf(id)];
    return {dim.link, static_cast<double>(dim.links)};
  }
  std::string LinkName(LinkId id) const override {
    const size_t d = DimensionOf(id);
    const int64_t offset = id - base_[d];
    const int64_t which = offset % per_node_[d];
    const int64_t node = offset / per_node_[d];
    switch (dims_[d].kind) {
      case DimensionKind::kRing:
        return fmt::format("dim{}.node{}{}", d, node, which == 0 ? "+" : "-");
      case DimensionKind::kFullyConnected:
        return fmt::format("dim{}.node{}-to{}", d, node, which);
      default:
        return fmt::format("dim{}.node{}.{}", d, node, which == 0 ? "up" : "down");
    }
  }
  void AppendRoute(int32_t from_port, int32_t to_port, LinkId base,
                   LinkList& links) const override {
    int64_t at = from_port / nics_;
    const int64_t to = to_port / nics_;
    int64_t stride = 1;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const int64_t size = dims_[d].size;
      const int64_t x = at / stride % size;
      const int64_t y = to / stride % size;
      const auto link = [&](int64_t node, int64_t which) {
        links.push_back(base + static_cast<LinkId>(base_[d] + node * per_node_[d] + which));
      };
      const auto moved = [&](int64_t coordinate) { return at + (coordinate - x) * stride; };
      if (x != y) {
        if (dims_[d].kind == DimensionKind::kRing) {
          const int64_t forward = (y - x + size) % size;
          const bool plus = 2 * forward <= size;
          for (int64_t hop = 0; hop < (plus ? forward : size - forward); ++hop) {
            link(moved(((plus ? x + hop : x - hop) + size) % size), plus ? 0 : 1);
          }
        } else if (dims_[d].kind == DimensionKind::kFullyConnected) {
          link(at, y);
        } else {
          link(at, 0);
          link(moved(y), 1);
        }
      }
      at = moved(y);
      stride *= size;
    }
  }
  // Shifts along dimensions map shortest routes onto shortest routes.
  bool Interchangeable(int32_t nodes) const override { return nodes == nodes_; }
  LinkOrbit Orbit(LinkId id, int32_t nodes) const override {
    const size_t d = DimensionOf(id);
    int64_t which = (id - base_[d]) % per_node_[d];
    if (dims_[d].kind == DimensionKind::kFullyConnected) {
      int64_t stride = 1;
      for (size_t i = 0; i < d; ++i) stride *= dims_[i].size;
      const int64_t size = dims_[d].size;
      which = (which - (id - base_[d]) / per_node_[d] / stride % size + size) % size;
    }
    return {static_cast<LinkId>(base_[d] + which), nodes};
  }

 private:
  size_t DimensionOf(LinkId id) const {
    size_t d = 0;
    while (d + 1 < base_.size() && id >= base_[d + 1]) ++d;
    return d;
  }

  std::vector<DimensionSpec> dims_;
  int64_t nodes_ = 1;
  int32_t nics_ = 1;
  std::vector<int64_t> base_;
  std::vector<int64_t> per_node_;
  int64_t total_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const PlatformSpec& spec) {
  switch (spec.fabric.kind) {
    case FabricKind::kSwitch:
      return TreeFabric::Make(spec, {{spec.nodes * std::max(1, spec.node.nics), 1}}, false);
    case FabricKind::kFatTree:
      return TreeFabric::Make(spec, spec.fabric.levels, false);
    case FabricKind::kRail:
      return TreeFabric::Make(spec, spec.fabric.levels, true);
    case FabricKind::kDragonfly:
      return DragonflyFabric::Make(spec);
    case FabricKind::kDimensions:
      return DimensionFabric::Make(spec);
    default:
      return std::unique_ptr<Fabric>(std::make_unique<NoFabric>());
  }
}

}  // namespace foretrace
