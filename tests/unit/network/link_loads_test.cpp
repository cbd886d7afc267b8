// Payload on the links of a transfer, by hand.
#include "simulator/network/link_loads.h"

#include <gtest/gtest.h>

#include <map>

#include "simulator/network/collective_table.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

std::map<std::string, LinkKindLoad> Loads(const char* platform, CollectiveOp op, int32_t ranks,
                                          int64_t bytes, Algorithm algorithm = Algorithm::kAuto) {
  const auto topology = Topology::Create(
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/" + platform + ".yaml")
          .value());
  CollectiveQuery query;
  query.op = op;
  for (int32_t r = 0; r < ranks; ++r) query.members.push_back(r);
  query.first_bytes = query.last_bytes = Bytes(bytes);
  query.options.algorithm = algorithm;
  const auto rows = CollectiveTable(*topology, query);
  EXPECT_TRUE(rows.ok()) << rows.status();
  const auto loads = LinkLoadsOf(*topology, query, rows->back());
  EXPECT_TRUE(loads.ok()) << loads.status();
  std::map<std::string, LinkKindLoad> by_kind;
  for (const LinkKindLoad& load : *loads) {
    EXPECT_LE(load.busy(rows->back().time), 1) << load.kind;
    by_kind[load.kind] = load;
  }
  return by_kind;
}

// Each of 8 GPUs sends 7/8 of its 64 MiB through the switch, whatever its protocol adds.
TEST(LinkLoads, AllToAllInOneNode) {
  const auto loads = Loads("dgx-a100", CollectiveOp::kAllToAll, 8, 64 << 20);
  ASSERT_EQ(loads.size(), 2u);
  const LinkKindLoad& up = loads.at("node*.gpu*.up");
  EXPECT_EQ(up.links, 8);
  EXPECT_NEAR(up.most.count(), 7.0 / 8 * (64 << 20), 1);
  EXPECT_NEAR(up.mean().count(), up.most.count(), 1);
  EXPECT_NEAR(up.rate.gbps(), 240, 1e-9);  // 12 NVLinks of 25 GB/s at 0.8
}

// 64 nodes, 32 NICs a leaf: of a GPU's 511 parts of 128 KiB 504 leave its node, and of a leaf's 32
// GPUs each sends 480 parts up.
TEST(LinkLoads, AllToAllThroughLeaves) {
  const auto loads = Loads("fat-tree-16384", CollectiveOp::kAllToAll, 512, 64 << 20);
  const double part = (64 << 20) / 512.0;
  EXPECT_NEAR(loads.at("nic*.up").most.count(), 504 * part, 1);
  EXPECT_EQ(loads.at("nic*.up").links, 512);
  EXPECT_NEAR(loads.at("switch1-*.up").most.count(), 32 * 480 * part, 1);
  EXPECT_EQ(loads.at("switch1-*.up").links, 16);
  EXPECT_EQ(loads.count("switch2-*.up"), 0u);  // all of one pod
}

// Around a ring everything but a rank's own part passes twice.
TEST(LinkLoads, Ring) {
  const auto loads = Loads("switch-64", CollectiveOp::kAllReduce, 64, 64 << 20, Algorithm::kRing);
  ASSERT_FALSE(loads.empty());
  for (const auto& [kind, load] : loads) {
    EXPECT_NEAR(load.most.count(), 2 * 63.0 / 64 * (64 << 20), 0.02 * (64 << 20)) << kind;
  }
}

}  // namespace
}  // namespace foretrace
