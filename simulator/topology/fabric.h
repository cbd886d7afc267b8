#pragma once
// The network between nodes. A port is one NIC: node x NICs per node + NIC; nodes without NICs
// (chips wired directly) have one port each.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "simulator/topology/platform.h"

namespace foretrace {

using LinkId = uint32_t;

struct LinkSpec {
  LinkTypeIndex type = kNoLinkType;
  // Parallel links that traffic is spread over; fractional for oversubscribed uplinks.
  double count = 1;
};

using LinkList = absl::InlinedVector<LinkId, 6>;

// Links that exchanges of nodes map onto each other: one of them stands for all.
struct LinkOrbit {
  LinkId first = 0;
  int64_t size = 1;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual LinkId link_count() const = 0;
  virtual LinkSpec link(LinkId id) const = 0;
  virtual std::string LinkName(LinkId id) const = 0;
  // Appends the links from one port to another, each plus `base`.
  virtual void AppendRoute(int32_t from, int32_t to, LinkId base, LinkList& links) const = 0;
  // Whether, for any two of the first `nodes` nodes, some permutation of these takes one to the
  // other and every route between any of them, with its links, onto another route. False: none is
  // known.
  virtual bool Interchangeable(int32_t /*nodes*/) const { return false; }
  // The links that those permutations map `link` onto, of a link on a route between such nodes.
  virtual LinkOrbit Orbit(LinkId link, int32_t /*nodes*/) const { return {link, 1}; }
};

// A fabric for spec.nodes x max(1, NICs) ports. Errors: levels that do not reach all ports, too
// many links; in words that name no file.
absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const PlatformSpec& spec);

// At most this many directed links in a fabric; larger ones are rejected before allocation.
inline constexpr int64_t kMaxFabricLinks = int64_t{1} << 26;

}  // namespace foretrace
