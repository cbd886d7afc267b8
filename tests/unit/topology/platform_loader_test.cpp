#include "simulator/topology/platform_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "simulator/topology/topology.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = R"(name: p
links:
  nv: {class: nvlink, bandwidth_GBps: 25, latency_us: 1, efficiency: 0.8, source: s}
node:
  devices: 4
  interconnect: {kind: switch, link: nv, links_per_device: 2}
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlatformLoader, ReadsValues) {
  const auto spec = ParsePlatform(kGood, "p.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->node.devices, 4);
  EXPECT_EQ(spec->links[0].payload_rate().bytes_per_second(), 20e9);
  EXPECT_EQ(spec->links[0].latency, SimTime::FromUs(1));
  EXPECT_FALSE(spec->has_library);
  EXPECT_EQ(spec->node.host_memory, Bandwidth());
  const auto host =
      ParsePlatform(Replaced(kGood, "devices: 4", "devices: 4\n  host_memory_GBps: 281.6"), "p");
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(host->node.host_memory.gbps(), 281.6);
}

TEST(PlatformLoader, ReadsTheLibrarysRelease) {
  const auto with = [](const std::string& release) {
    return ParsePlatform(std::string(kGood) + "library: {gpu_generation: hopper" + release + "}\n",
                         "p.yaml");
  };
  EXPECT_EQ(with("")->library.release, 223);
  EXPECT_EQ(with(", release: 2.29")->library.release, 229);
  EXPECT_EQ(with(", release: \"2.7\"")->library.release, 207);
  for (const char* bad :
       {"2", "3.1", "2.", "2.0", "2.100", "2.29.3", "-2.5", ".nan", "\"\"", "2.x"}) {
    const auto spec = with(std::string(", release: ") + bad);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr("p.yaml:7: key 'library.release'"))
        << bad;
  }
}

TEST(PlatformLoader, ReadsChannelsBetweenNodes) {
  const auto with = [](const std::string& keys) {
    return ParsePlatform(std::string(kGood) + "library: {gpu_generation: volta" + keys + "}\n",
                         "p.yaml");
  };
  const auto spec = with(", network_channel_GBps: 2.5, network_channels: 4");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->library.network_channels, 4);
  EXPECT_EQ(with("")->library.network_channels, 0);
  EXPECT_THAT(std::string(with(", network_channels: 4").status().message()),
              HasSubstr("needs network_channel_GBps"));
}

struct BadCase {
  const char* from;
  const char* to;
  const char* message;
};

TEST(PlatformLoader, NamesFileLineKeyAndWhatIsAllowed) {
  const BadCase cases[] = {
      {"bandwidth_GBps: 25", "bandwidth_GBps: 0", "p.yaml:3: key 'links.nv.bandwidth_GBps': 0 is"},
      {"bandwidth_GBps: 25", "bandwidth_GBps: -3", "outside the allowed range"},
      {"bandwidth_GBps: 25", "bandwidth_GBps: .nan", "must be a number"},
      {"bandwidth_GBps: 25", "bandwidth: 25", "unknown key; allowed: class, bandwidth_GBps"},
      {"latency_us: 1", "latency_us: fast",
       "p.yaml:3: key 'links.nv.latency_us': must be a number"},
      {", source: s", "", "key 'links.nv.source': missing"},
      {"class: nvlink", "class: string", "'string' is not known; allowed: nvlink, pcie, network"},
      {"devices: 4", "devices: 100000", "p.yaml:5: key 'node.devices': 100000 is outside"},
      {"devices: 4", "devices: 4.5", "must be an integer"},
      {"devices: 4", "devices: 4\n  host_memory_GBps: 0", "key 'node.host_memory_GBps': 0 is"},
      {"link: nv,", "link: ib,", "p.yaml:6: key 'node.interconnect.link': 'ib' is not one of"},
      {"kind: switch", "kind: mesh", "key 'node.interconnect.edges': missing"},
      {"kind: switch", "kind: mesh, edges: [[0, 1, 1]]", "device 2 is not reachable"},
      {"kind: switch", "kind: mesh, edges: [[0, 4, 1]]", "4 is outside the allowed range 0 to 3"},
      {"kind: switch", "kind: mesh, edges: [[1, 1, 1]]", "joins a device with itself"},
      {"kind: switch", "kind: mesh, edges: [[0, 1, 1], [1, 0, 1]]", "listed twice"},
      {"kind: switch", "kind: pcie_tree", "needs the section node.pcie"},
      {"name: p", "name: p\nnodes: 3", "needs the section fabric"},
      {"name: p", "name: p\nnodes: 1000000", "exceed the limit"},
      {"name: p", "name: p\nranks: {placement: list, devices: [0, 0]}", "given to two ranks"},
      {"name: p", "name: [p", "not valid YAML"},
      {"name: p",
       "name: p\nfabric: {kind: dimensions, dimensions: [{kind: ring, size: 2, link: nv}]}",
       "sizes multiply to 2, but there are 1 nodes"},
  };
  for (const BadCase& bad : cases) {
    const auto spec = ParsePlatform(Replaced(kGood, bad.from, bad.to), "p.yaml");
    ASSERT_FALSE(spec.ok()) << bad.to;
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(bad.message)) << bad.to;
  }
  EXPECT_FALSE(LoadPlatform("/nonexistent.yaml").ok());
  EXPECT_FALSE(ParsePlatform("", "empty.yaml").ok());
  EXPECT_FALSE(ParsePlatform("- a\n- b\n", "list.yaml").ok());
}

TEST(PlatformLoader, RefusesFatTreesThatDoNotReachEveryNic) {
  const auto spec =
      ParsePlatform(std::string(kGood) +
                        "  nics: {count: 1}\nnodes: 9\nfabric: {kind: fat_tree, link: nv, "
                        "levels: [{radix: 2}, {radix: 4}]}\n",
                    "p.yaml");
  ASSERT_FALSE(spec.ok());
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("key 'fabric.levels': the radices reach only 8 of 9 NICs"));
}

// The last level's switch has nothing above it, so that its oversubscription thins nothing.
TEST(PlatformLoader, RefusesOversubscriptionOfTheLastLevel) {
  const auto with = [](const char* levels) {
    return ParsePlatform(std::string(kGood) + "  nics: {count: 1}\nnodes: 8\nfabric: {kind: " +
                             "fat_tree, link: nv, levels: [" + levels + "]}\n",
                         "p.yaml");
  };
  EXPECT_TRUE(with("{radix: 2, oversubscription: 2}, {radix: 4}").ok());
  const auto spec = with("{radix: 2}, {radix: 4, oversubscription: 2}");
  ASSERT_FALSE(spec.ok());
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("key 'fabric.levels': oversubscription of the last level would change "
                        "nothing"));
}

// 12 NVLinks of 25 GB/s are no single one of 25.
TEST(PlatformLoader, AsksHowManyLinksADeviceUses) {
  const auto with = [](const char* bandwidth, const char* count) {
    return ParsePlatform(std::string("name: p\nlinks:\n  nv: {class: nvlink, bandwidth_GBps: ") +
                             bandwidth +
                             ", latency_us: 1, source: s}\nnode:\n  devices: 4\n  accelerator: "
                             "a100-sxm4-80gb\n  interconnect: {kind: switch, link: nv" +
                             count + "}\n",
                         "p.yaml");
  };
  EXPECT_THAT(std::string(with("25", "").status().message()),
              HasSubstr("key 'node.interconnect.links_per_device': missing: a100-sxm4-80gb has 12 "
                        "links of 25 GB/s"));
  EXPECT_TRUE(with("25", ", links_per_device: 12").ok());
  EXPECT_TRUE(with("25", ", links_per_device: 1").ok());
  EXPECT_TRUE(with("300", "").ok());  // all of them as one
}

constexpr char kGrows[] = R"(name: p
links:
  nv: {class: nvlink, bandwidth_GBps: 25, latency_us: 1, source: s}
node:
  devices: 4
  interconnect: {kind: switch, link: nv}
  nics: {count: 4}
nodes: 2
max_nodes: 8
fabric: {kind: rail, link: nv, levels: [{radix: 4}, {radix: 8}]}
)";

TEST(PlatformLoader, AFabricGrowsAsFarAsItsFileSays) {
  const auto spec = ParsePlatform(kGrows, "p.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->devices(), 8);
  EXPECT_EQ(WithNodes(*spec, 8)->devices(), 32);
  EXPECT_EQ(WithNodes(*spec, 1)->devices(), 4);
  EXPECT_THAT(std::string(WithNodes(*spec, 9).status().message()),
              HasSubstr("platform p has 2 nodes and can have up to 8, not 9"));
  // Two levels of 4 and 8 reach the 4 NICs of 8 nodes.
  EXPECT_THAT(std::string(ParsePlatform(Replaced(kGrows, "max_nodes: 8", "max_nodes: 9"), "p.yaml")
                              .status()
                              .message()),
              HasSubstr("key 'max_nodes': the radices reach only"));
  EXPECT_FALSE(ParsePlatform(Replaced(kGrows, "max_nodes: 8", "max_nodes: 1"), "p.yaml").ok());
}

TEST(PlatformLoader, NamesTakeNodes) {
  EXPECT_EQ(FindPlatform("dgx-h100")->nodes, 2);
  EXPECT_EQ(FindPlatform("dgx-h100:64")->devices(), 512);
  // As many as are needed, where nobody says.
  EXPECT_EQ(FindPlatform("dgx-h100", 100)->nodes, 13);
  EXPECT_EQ(FindPlatform("gb200-nvl72", 73)->nodes, 2);
  // A machine that is what it is.
  EXPECT_EQ(FindPlatform("h100-cluster-10", 1000)->nodes, 10);
  EXPECT_THAT(std::string(FindPlatform("h100-cluster-10:11").status().message()),
              HasSubstr("has 10 nodes; its file allows no more"));
  EXPECT_THAT(std::string(FindPlatform("dgx-h100:x").status().message()),
              HasSubstr("'x' is no number of nodes; expected NAME:NODES"));
  EXPECT_FALSE(FindPlatform("dgx-h100:0").ok());
}

TEST(PlatformLoader, AcceleratorsAreFilesByNameOrBesideIt) {
  const std::string with = Replaced(kGood, "devices: 4", "devices: 4\n  accelerator: h100-sxm");
  const auto spec = ParsePlatform(with, "p.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->node.accelerator.name, "h100-sxm5-80gb");
  EXPECT_THAT(
      std::string(ParsePlatform(Replaced(with, "h100-sxm", "h1000"), "p.yaml").status().message()),
      HasSubstr("p.yaml:6: key 'node.accelerator': accelerator \"h1000\": no file of"));
  EXPECT_FALSE(ParsePlatform(Replaced(with, "h100-sxm", "./none.yaml"), "p.yaml").ok());
}

// Every shipped platform loads; every route is made of links with positive rates, starts and ends
// where it should, and repeats no link.
TEST(ShippedPlatforms, LoadAndRoute) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(FORETRACE_SOURCE_DIR) + "/topologies")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    const auto spec = LoadPlatform(entry.path());
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto topology = Topology::Create(*spec);
    ASSERT_TRUE(topology.ok()) << topology.status();
    Route route;
    const DeviceId n = topology->device_count();
    for (DeviceId step = 1; step < n; step = step * 3 + 1) {
      for (DeviceId from = 0; from < n; from += 1 + n / 50) {
        topology->FindRoute(from, (from + step) % n, route);
        ASSERT_FALSE(route.links.empty());
        SimTime latency;
        for (LinkId link : route.links) {
          ASSERT_LT(link, topology->link_count());
          EXPECT_GT(topology->link_rate(link).bytes_per_second(), 0);
          EXPECT_FALSE(topology->LinkName(link).empty());
          latency += spec->links[static_cast<size_t>(topology->link(link).type)].latency;
        }
        EXPECT_EQ(route.latency, latency);
        auto sorted = route.links;
        std::sort(sorted.begin(), sorted.end());
        EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
      }
    }
  }
  EXPECT_GE(count, 11);
}

// A device is no platform: what has it is said.
TEST(PlatformLoader, NameOfADevice) {
  const std::string said(FindPlatform("h200").status().message());
  EXPECT_THAT(said,
              HasSubstr("platform \"h200\": that is a GPU; platforms that have it: dgx-h200"));
  EXPECT_THAT(std::string(FindPlatform("t4").status().message()),
              HasSubstr("no platform here has it"));
  EXPECT_THAT(std::string(FindPlatform("nosuch").status().message()), HasSubstr("there are"));
}

}  // namespace
}  // namespace foretrace
