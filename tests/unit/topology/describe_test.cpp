#include "simulator/topology/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

Topology Load(const std::string& name) {
  auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/" + name + ".yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  for (LinkType& link : spec->links) link.efficiency = 1;
  return *Topology::Create(*std::move(spec));
}

TEST(Describe, BisectionBandwidth) {
  // Hybrid cube mesh: the smallest halving cuts 8 links of 25 GB/s ({0,3,4,7} against {1,2,5,6}:
  // 0-1, 0-2, 1-3, 4-5, 4-6, 5-7 and the double link 2-3 and 6-7 make 10; {0,1,2,3}: 0-4 and 1-5
  // double, 2-6 and 3-7 single make 6).
  EXPECT_DOUBLE_EQ(BisectionBandwidth(Load("dgx1-v100")).bytes_per_second(), 6 * 25e9);
  // 64 nodes of 8 NICs of 50 GB/s on each side, non-blocking.
  EXPECT_DOUBLE_EQ(BisectionBandwidth(Load("h100-rail-1024")).bytes_per_second(), 64 * 8 * 50e9);
  // 8 x 8 rings cut twice, 50 GB/s.
  EXPECT_DOUBLE_EQ(BisectionBandwidth(Load("tpu-v4-512")).bytes_per_second(), 64 * 2 * 50e9);
  // Four devices on one switch, 12 links of 25 GB/s: two on each side.
  EXPECT_DOUBLE_EQ(BisectionBandwidth(Load("paper-4xa100")).bytes_per_second(), 2 * 12 * 25e9);
}

TEST(Describe, Diameter) {
  EXPECT_EQ(Diameter(Load("tpu-v4-512")), 12);  // 4 hops in each of 3 rings of 8
  EXPECT_EQ(Diameter(Load("paper-4xa100")), 2);
  EXPECT_EQ(Diameter(Load("dragonfly-1056")), 5);
}

TEST(Describe, ShowsStructureAndRanks) {
  const std::string text = DescribeTopology(Load("dgx-a100"), 4);
  EXPECT_THAT(text, ::testing::HasSubstr("====== switch ======"));
  EXPECT_THAT(text, ::testing::HasSubstr("fabric: rail, 2 nodes"));
  EXPECT_THAT(text, ::testing::HasSubstr("diameter"));
  EXPECT_THAT(text, ::testing::HasSubstr("... 12 more"));
}

}  // namespace
}  // namespace foretrace
