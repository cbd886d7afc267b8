#include "simulator/topology/topology.h"

#include <gtest/gtest.h>

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

std::vector<std::string> Names(const Topology& topology, DeviceId from, DeviceId to) {
  Route route;
  topology.FindRoute(from, to, route);
  std::vector<std::string> names;
  for (LinkId link : route.links) names.push_back(topology.LinkName(link));
  return names;
}

using Strings = std::vector<std::string>;

TEST(Topology, MeshUsesDirectLinksElsePcie) {
  const Topology t = Load("paper-4xgv100");
  EXPECT_EQ(Names(t, 1, 0), (Strings{"node0.gpu1-gpu0"}));
  EXPECT_EQ(Names(t, 0, 2), (Strings{"node0.gpu0.pcie.up", "node0.gpu2.pcie.down"}));
  Route route;
  t.FindRoute(0, 1, route);
  EXPECT_EQ(t.link_rate(route.links[0]).bytes_per_second(), 100e9);  // four links of 25 GB/s
}

TEST(Topology, PcieSwitchesMeetAtTheHost) {
  const Topology t = Load("dgx1-v100");
  EXPECT_EQ(Names(t, 0, 5), (Strings{"node0.gpu0.pcie.up", "node0.pcie0.host.up",
                                     "node0.pcie2.host.down", "node0.gpu5.pcie.down"}));
}

TEST(Topology, RailsStayOnTheirLeafAndRelayInsideTheNode) {
  const Topology t = Load("h100-rail-1024");
  // Rail 3 of node 0 to rail 3 of node 1: under one leaf.
  EXPECT_EQ(Names(t, 3, 8 + 3),
            (Strings{"node0.gpu3.pcie.up", "nic384.up", "nic385.down", "node1.gpu3.pcie.down"}));
  // Another rail: first over NVLink to the GPU on rail 5.
  EXPECT_EQ(Names(t, 3, 8 + 5)[0], "node0.gpu3.up");
  EXPECT_EQ(Names(t, 3, 8 + 5)[1], "node0.gpu5.down");
  // Node 40 is under another leaf of the rail.
  EXPECT_EQ(Names(t, 3, 40 * 8 + 3).size(), 6u);
}

TEST(Topology, FatTreeClimbsToTheLowestCommonSwitch) {
  const Topology t = Load("fat-tree-16384");
  EXPECT_EQ(Names(t, 0, 8).size(), 4u);      // one leaf
  EXPECT_EQ(Names(t, 0, 32).size(), 6u);     // next leaf
  EXPECT_EQ(Names(t, 0, 16383).size(), 8u);  // other pod
  Route route;
  t.FindRoute(0, 16383, route);
  // A leaf's uplinks carry its 32 NICs of 25 GB/s; a pod of 1,024 is 2:1 oversubscribed.
  EXPECT_DOUBLE_EQ(t.link_rate(route.links[2]).bytes_per_second(), 32 * 25e9);
  EXPECT_DOUBLE_EQ(t.link_rate(route.links[3]).bytes_per_second(), 1024 * 25e9 / 2);
}

TEST(Topology, TorusTakesTheShortWayRound) {
  const Topology t = Load("tpu-v4-512");
  EXPECT_EQ(Names(t, 0, 7), (Strings{"dim0.node0-"}));
  EXPECT_EQ(Names(t, 0, 3), (Strings{"dim0.node0+", "dim0.node1+", "dim0.node2+"}));
  EXPECT_EQ(Names(t, 0, 1 + 8 + 64), (Strings{"dim0.node0+", "dim1.node1+", "dim2.node9+"}));
}

TEST(Topology, DragonflyTakesAtMostOneGlobalLink) {
  const Topology t = Load("dragonfly-1056");
  EXPECT_EQ(Names(t, 0, 1), (Strings{"nic0.up", "nic1.down"}));
  EXPECT_EQ(Names(t, 0, 4), (Strings{"nic0.up", "group0.router0-router1", "nic4.down"}));
  const Strings far = Names(t, 5, 1055);
  EXPECT_LE(far.size(), 5u);
  EXPECT_EQ(std::count(far.begin(), far.end(), "group0-group32"), 1);
}

TEST(Topology, PlacementMapsRanks) {
  auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-a100.yaml");
  ASSERT_TRUE(spec.ok());
  spec->placement = Placement::kRoundRobin;
  const auto t = Topology::Create(*spec);
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->DeviceOfRank(0), 0);
  EXPECT_EQ(t->DeviceOfRank(1), 8);
  EXPECT_EQ(t->DeviceOfRank(2), 1);
  const std::vector<int32_t> unknown = {0, 16};
  EXPECT_FALSE(t->DevicesOf(unknown).ok());
}

}  // namespace
}  // namespace foretrace
