// Shipped studies against published runs of other models and programs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "simulator/base/input.h"
#include "tests/support/real_data.h"
#include "tests/unit/dataflow/explored.h"

namespace foretrace::dataflow {
namespace {

// Megatron-LM's models: samples a second of the published runs, whose graph computes gradients of
// queries and keys in full on every chip (`EarlyModel.Megatron` has that graph); here they are
// divided, which is faster.
TEST(Compared, Megatron) {
  const Explored e = Explore("dfmodel-megatron");
  ASSERT_EQ(e.points.size(), 5u);
  const std::map<std::string, double> published = {
      {"76b", 198.22404}, {"146b", 165.84394}, {"1t", 57.98619}};
  int compared = 0;
  for (size_t i = 0; i < e.points.size(); ++i) {
    const auto found = published.find(e.space.topologies[e.points[i].topology].name);
    if (found == published.end()) continue;
    const double batch = e.space.workloads[e.points[i].workload].workload.batch;
    const double samples = batch / (e.results[i].iteration.ns() * 1e-9);
    EXPECT_GE(samples, found->second) << found->first;
    EXPECT_LE(samples, 1.09 * found->second) << found->first;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

std::map<std::string, double> SecondsByTopology(const Explored& e) {
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < e.points.size(); ++i) {
    seconds[e.space.topologies[e.points[i].topology].name + " " +
            e.space.chips[e.points[i].chip].chip.name + " " +
            e.space.memories[e.points[i].memory].name + " " +
            e.space.links[e.points[i].link].name] = e.results[i].iteration.ns() * 1e-9;
  }
  return seconds;
}

// Table VI in one exploration: seconds as `Table6.*` derives them.
TEST(Compared, FourMappings) {
  const Explored e = Explore("dfmodel-table6");
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < e.points.size(); ++i) {
    seconds[e.space.variants[e.points[i].variant].name + " " +
            e.space.topologies[e.points[i].topology].name] = e.results[i].iteration.ns() * 1e-9;
  }
  EXPECT_NEAR(seconds.at("kernel-by-kernel 8x1"), 4909.147625881573, 1e-5);
  EXPECT_NEAR(seconds.at("vendor 8x1"), 1212.251846411307, 2e-5);
  EXPECT_NEAR(seconds.at("best 8x1"), 884.47, 0.005);  // published 1,020.52
  EXPECT_NEAR(seconds.at("best 4x2"), 762.95, 0.005);  // published 800.98
}

// Calculon's points of GPT3-1T on 4,096 A100 and the domains of fast links of rail-only networks,
// to 1e-5. Rows that are not primary are of other inputs; so is one whose price is a quarter.
TEST(Compared, CalculonAndRailOnly) {
  const std::string file = RealData("dfmodel/compare.csv");
  FORETRACE_SKIP_WITHOUT(file);
  const auto text = ReadTextFile(file, kMaxTableBytes);
  ASSERT_TRUE(text.ok());
  const auto calculon = SecondsByTopology(Explore("dfmodel-calculon"));
  const auto rail = SecondsByTopology(Explore("dfmodel-rail-only"));
  int compared = 0;
  for (auto row : ParseCsv(*text)) {
    const bool rails = row["study"] == "rail_only";
    if (row["primary"] != "1" || (!rails && std::stod(row["System_Cost"]) < 5e7)) continue;
    const double ours = rails ? rail.at("domain_" + row["HBD"] + " h100 hbm fast")
                              : calculon.at("tp" + row["TP"] + "_pp" + row["PP"] + "_dp" +
                                            row["DP"] + " a100 hbm nvlink");
    EXPECT_NEAR(ours / std::stod(row["final_s"]), 1, 1e-5)
        << row["study"] << " " << row["point"] << " " << row["HBD"];
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

// Figure 19. The published runs ended at a limit of 600 s; the exact optimum is never slower.
// Kernel by kernel there is little to choose: within 1.5 %, but for one row (published 5.6 %
// slower, small SRAM and fast DRAM). Dataflow bounds kernel by kernel from below, gains with SRAM;
// the latter with DRAM.
TEST(Compared, SramOverDram) {
  const Explored e = Explore("dfmodel-sram-dram");
  const auto ours = SecondsByTopology(e);
  const auto of = [&](std::string chip, const std::string& memory) {
    return ours.at("4x2 " + chip + " " + memory + " link");
  };
  for (const std::string sram : {"s", "m", "l"}) {
    for (const std::string dram : {"s", "m", "l"}) {
      EXPECT_LT(of("df_" + sram, dram), of("kbk_" + sram, dram));
    }
    EXPECT_LT(2.5 * of("kbk_" + sram, "l"), of("kbk_" + sram, "s"));
  }
  for (const std::string dram : {"s", "m", "l"}) {
    EXPECT_LT(of("df_m", dram), of("df_s", dram));
    EXPECT_LE(of("df_l", dram), of("df_m", dram));
  }
  const std::string file = RealData("dfmodel/sram_dram.csv");
  FORETRACE_SKIP_WITHOUT(file);
  const auto text = ReadTextFile(file, kMaxTableBytes);
  ASSERT_TRUE(text.ok());
  for (auto row : ParseCsv(*text)) {
    const bool fused = row["mapping"] == "DF";
    const double theirs = std::stod(row["final_s"]);
    const double here = of((fused ? "df_" : "kbk_") + row["sram_label"], row["dram_label"]);
    EXPECT_LE(here, theirs);
    if (!fused && !(row["sram_label"] == "s" && row["dram_label"] == "l")) {
      EXPECT_NEAR(here / theirs, 1, 0.015);
    }
  }
}

// Figure 22. More of the area for compute is faster with stacked memory, and no faster with DDR,
// whose time is that of reading the weights once: 12 x 256,000^2 / 8 of them, 2 bytes each, at 100
// GB/s a layer, or 1.966 s, and the tensors between partitions. What memory does not bound is
// within 7 % of the published runs (a limit of 600 s: they are not monotone either). Published DDR
// times are up to six times ours and grow as SRAM shrinks, time x SRAM being constant: there each
// tile of the sequence reads the weights again, which blocks of outputs that stay on the chip do
// not.
TEST(Compared, MemoryTechnologies) {
  const Explored e = Explore("dfmodel-memory3d");
  const auto seconds = SecondsByTopology(e);
  const auto of = [&](int percent, const std::string& memory) {
    return seconds.at("ring compute_" + std::to_string(percent) + " " + memory + " link");
  };
  for (int percent = 20; percent < 80; percent += 15) {
    EXPECT_LT(1.1 * of(percent + 15, "3D"), of(percent, "3D"));
    if (percent < 50) {
      EXPECT_LT(1.1 * of(percent + 15, "HBM"), of(percent, "HBM"));
    }
    // Slow memory wants SRAM more than it wants compute.
    EXPECT_GT(of(percent + 15, "DDR"), 1.2 * of(percent, "DDR"));
  }
  EXPECT_LT(of(65, "3D"), of(65, "HBM") * 0.75);
  for (int percent = 20; percent <= 80; percent += 15) {
    EXPECT_LE(of(percent, "3D"), of(percent, "HBM"));
    EXPECT_LE(of(percent, "HBM"), of(percent, "DDR"));
  }
  const std::string file = RealData("dfmodel/memory3d.csv");
  FORETRACE_SKIP_WITHOUT(file);
  const auto text = ReadTextFile(file, kMaxTableBytes);
  ASSERT_TRUE(text.ok());
  int compared = 0;
  for (auto row : ParseCsv(*text)) {
    if (row["final_ii_s"].empty()) continue;
    const int percent =
        static_cast<int>(std::lround(100 * std::stod(row["compute_tile_fraction"])));
    const double ratio = of(percent, row["memory"]) / std::stod(row["final_ii_s"]);
    const double error = row["memory"] == "DDR" ? 0.035 : 0.07;
    EXPECT_NEAR(ratio, 1, error) << row["memory"] << " " << percent;
    ++compared;
  }
  EXPECT_EQ(compared, 14);
}

}  // namespace
}  // namespace foretrace::dataflow
