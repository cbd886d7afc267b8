#include "simulator/network/ring_orders.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

Topology Load(const std::string& name) {
  auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/" + name + ".yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto topology = Topology::Create(*std::move(spec));
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

// The numbers of rings that nccl-tests' bus bandwidths on a DGX-1V imply: one link (22.5 GB/s
// measured) for two GPUs, 2, 4, 0, 2, 4, 6 for three to eight.
TEST(RingOrders, PackDisjointCyclesOfTheMesh) {
  const Topology t = Load("dgx1-v100");
  const size_t expected[] = {1, 2, 4, 1, 2, 4, 6};
  for (size_t n = 2; n <= 8; ++n) {
    std::vector<DeviceId> devices(n);
    std::iota(devices.begin(), devices.end(), 0);
    const auto orders = RingOrders(t, devices);
    EXPECT_EQ(orders.size(), expected[n - 2]) << n;
    std::vector<int> used(64, 0);
    for (const auto& order : orders) {
      std::set<int32_t> members(order.begin(), order.end());
      EXPECT_EQ(members.size(), n);
      for (size_t i = 0; i < n && n != 5; ++i) {
        const int32_t a = order[i];
        const int32_t b = order[(i + 1) % n];
        EXPECT_LE(++used[static_cast<size_t>(a * 8 + b)], t.MeshLinks(a, b));
      }
    }
  }
}

TEST(RingOrders, EnterNodesBesideEachNic) {
  const Topology t = Load("dgx-a100");
  std::vector<DeviceId> devices(16);
  std::iota(devices.begin(), devices.end(), 0);
  const auto orders = RingOrders(t, devices);
  ASSERT_EQ(orders.size(), 8u);
  for (size_t o = 0; o < 8; ++o) {
    EXPECT_EQ(orders[o][0], static_cast<int32_t>(o));
    EXPECT_EQ(orders[o][8], static_cast<int32_t>(8 + o));
  }
}

// Eight rings through 7 of the 8 x 7 links in one direction of each node: every link once.
TEST(RingOrders, UseAllLinksOfMeshesOverNodes) {
  const Topology t = Load("mi300x-8");
  std::vector<DeviceId> devices(16);
  std::iota(devices.begin(), devices.end(), 0);
  const auto orders = RingOrders(t, devices);
  ASSERT_EQ(orders.size(), 8u);
  std::set<std::pair<int32_t, int32_t>> used;
  for (size_t o = 0; o < 8; ++o) {
    EXPECT_EQ(orders[o][0], static_cast<int32_t>(o));
    EXPECT_EQ(std::set<int32_t>(orders[o].begin(), orders[o].end()).size(), 16u);
    for (size_t i = 0; i + 1 < 16; ++i) {
      const int32_t a = orders[o][i], b = orders[o][i + 1];
      if (a / 8 != b / 8) continue;
      EXPECT_TRUE(used.emplace(a, b).second) << a << " " << b;
    }
  }
  EXPECT_EQ(used.size(), 2u * 8 * 7);
}

}  // namespace
}  // namespace foretrace
