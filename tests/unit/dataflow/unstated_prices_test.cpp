// What no file prices or powers is not known, rather than free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "simulator/dataflow/exploration.h"
#include "tests/support/temp_folder.h"

namespace foretrace::dataflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSpace[] = R"(
name: two
formulas: {compute_utilisation: 0.9}
variants: [machine]
workloads:
  - {name: small, batch: 16, transformer: {hidden: 4096, heads: 32, layers: 8, sequence: 2048}}
  - {name: large, batch: 16, transformer: {hidden: 8192, heads: 64, layers: 8, sequence: 2048}}
chips:
  - {name: dear, tiles: 1056, width: 16, depth: 16, clock_GHz: 1.8, sram_MB: 50, execution: kernel-by-kernel, price_USD: 33000, power_W: 750}
  - {accelerator: a100-sxm4-80gb, execution: kernel-by-kernel}
topologies:
  - {name: ring, network: [{kind: ring, size: 4}]}
memories: [{name: hbm, bandwidth_GBps: 3000, capacity_GB: 80, USD_per_GBps: 1, watt_per_GBps: 0.05}]
links: [{name: nv, bandwidth_GBps: 450, USD_per_GBps: 2, watt_per_GBps: 0.01}]
)";

struct Explored {
  Space space;
  std::vector<Point> points;
  std::vector<PointResult> results;
};

Explored ExploreText(const std::string& text) {
  const TempFolder folder;
  const std::string file = folder.path() + "/unstated.yaml";
  std::ofstream(file) << text;
  const auto catalogue = AcceleratorCatalog::Load();
  auto space = LoadSpace(file, *catalogue);
  EXPECT_TRUE(space.ok()) << space.status();
  if (!space.ok()) return {};
  Explored e{*std::move(space), {}, {}};
  e.points = PointsOf(e.space);
  for (const Point& p : e.points) e.results.push_back(EvaluatePoint(e.space, p).value());
  return e;
}

TEST(UnstatedPrices, AreNotZero) {
  const Explored e = ExploreText(kSpace);
  ASSERT_EQ(e.points.size(), 4u);
  // Four chips of 33,000 USD, 4 x 3,000 GB/s of memory, 4 links of 450 GB/s; no switch.
  EXPECT_EQ(PriceUsd(SystemOf(e.space, e.points[0])).total(), 4 * 33000 + 4 * 3000 + 4 * 450 * 2);
  // NVIDIA states no price of an A100, but 400 W of the board.
  EXPECT_TRUE(std::isnan(PriceUsd(SystemOf(e.space, e.points[1])).total()));
  EXPECT_EQ(PowerWatt(SystemOf(e.space, e.points[1])).total(), 4 * 400);
  EXPECT_THAT(NotStatedIn(e.space, e.points), ElementsAre("chip a100-sxm4-80gb (price_USD)"));
  const std::string csv = PointsCsv(e.space, e.points, e.results);
  EXPECT_THAT(csv, HasSubstr(",total_switch_power,workload\n"));
  EXPECT_EQ(csv.find("nan"), std::string::npos);
  EXPECT_THAT(PointsJson(e.space, e.points, e.results), HasSubstr("\"price_USD\":null"));
}

// With a price that is not known the dear chip, which is faster, and the other, which needs less
// power, are both of the front; the price says nothing.
TEST(UnstatedPrices, DoNotDecideTheFront) {
  const Explored e = ExploreText(kSpace);
  EXPECT_EQ(ParetoFront(e.space, e.points, e.results), (std::vector<size_t>{0, 1, 2, 3}));
  std::string thirsty = kSpace;
  thirsty.replace(thirsty.find("power_W: 750"), 12, "power_W: 100");
  const Explored t = ExploreText(thirsty);
  EXPECT_EQ(ParetoFront(t.space, t.points, t.results), (std::vector<size_t>{0, 2}));
}

TEST(UnstatedPrices, StatedAsZeroTheyAreFree) {
  std::string text = kSpace;
  text.replace(text.find("price_USD: 33000"), 16, "price_USD: 0");
  const Explored e = ExploreText(text);
  EXPECT_EQ(PriceUsd(SystemOf(e.space, e.points[0])).chips, 0);
}

}  // namespace
}  // namespace foretrace::dataflow
