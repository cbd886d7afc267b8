// The explorations of DFModel's section VI-C against the published tables (realdata/dfmodel/*.csv).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>

#include "simulator/base/csv.h"
#include "simulator/base/input.h"
#include "simulator/dataflow/exploration.h"
#include "tests/support/real_data.h"

namespace foretrace::dataflow {
namespace {

using Table = std::vector<std::map<std::string, std::string>>;

Table ParseCsv(const std::string& text) {
  Table rows;
  std::vector<std::string> header;
  for (const std::string_view line : SplitLines(text)) {
    const std::vector<std::string> cells = SplitCsvLine(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    std::map<std::string, std::string>& row = rows.emplace_back();
    for (size_t i = 0; i < std::min(cells.size(), header.size()); ++i) row[header[i]] = cells[i];
  }
  return rows;
}

std::string Study(const std::string& name) {
  return std::string(FORETRACE_SOURCE_DIR) + "/traces/workloads/studies/" + name + ".yaml";
}

struct Explored {
  Space space;
  std::vector<Point> points;
  std::vector<PointResult> results;
};

Explored Explore(const std::string& name) {
  Explored e;
  const auto space = LoadSpace(Study(name), *AcceleratorCatalog::Of({}));
  EXPECT_TRUE(space.ok()) << space.status();
  if (!space.ok()) return e;
  e.space = *space;
  e.points = PointsOf(e.space);
  for (const Point& p : e.points) {
    const auto r = EvaluatePoint(e.space, p);
    EXPECT_TRUE(r.ok() && r->feasible) << r.status() << (r.ok() ? r->why_not : "");
    if (r.ok()) e.results.push_back(*r);
  }
  return e;
}

// A cell of two tables.
std::string KeyOf(std::map<std::string, std::string> row) {
  const bool training = row.contains("accel");
  return row["variant"] + " " + row[training ? "accel" : "accelerator"] + " " + row["topology"] +
         " " + row[training ? "mem" : "memory"] + " " + row[training ? "net" : "network"];
}

class Published : public ::testing::TestWithParam<std::string> {};

// Every published row: utilisation within 1 %, FLOP, price and power to the printed digits. Rows
// whose status says that they are of other inputs are named here with their cause.
TEST_P(Published, Utilisation) {
  const std::string name = GetParam();
  const std::string file = RealData("dfmodel/" + name + ".csv");
  FORETRACE_SKIP_WITHOUT(file);
  const auto text = ReadTextFile(file, kMaxTableBytes);
  ASSERT_TRUE(text.ok()) << text.status();
  const Explored e = Explore("dfmodel-" + name);
  ASSERT_EQ(e.points.size(), 160u);
  const std::string points = PointsCsv(e.space, e.points, e.results);
  EXPECT_EQ(SplitLines(points).front(), SplitLines(*text).front());  // the published columns
  std::map<std::string, std::map<std::string, std::string>> ours;
  for (auto& row : ParseCsv(points)) ours[KeyOf(row)] = row;
  ASSERT_EQ(ours.size(), 160u);
  int compared = 0, passed_over = 0;
  for (auto row : ParseCsv(*text)) {
    ASSERT_TRUE(ours.contains(KeyOf(row))) << KeyOf(row);
    auto& mine = ours[KeyOf(row)];
    const std::string status = row["status"];
    if (status.find("TRUNCATED") != std::string::npos ||
        status.find("RERUN") != std::string::npos || status.find("SUSPECT") != std::string::npos) {
      ++passed_over;
      continue;
    }
    ++compared;
    const double theirs = std::stod(row["util"]), here = std::stod(mine["util"]);
    EXPECT_NEAR(here / theirs, 1, 0.01) << KeyOf(row) << " " << here << " published " << theirs;
    for (const char* column :
         {"FLOP", "GFLOPS", "total_cost", "total_power", "DRAM_BW", "num_chip", "TP", "PP", "DP"}) {
      EXPECT_NEAR(std::stod(mine[column]) / std::stod(row[column]), 1, 1e-7)
          << KeyOf(row) << " " << column;
    }
  }
  std::cout << name << ": " << compared << " rows compared, " << passed_over
            << " of other inputs passed over\n";
  EXPECT_GE(compared, 55);
}

// Logged points of GPT3-1T that need no table: seconds, dollars and watts. The TPU's log was of 82
// tiles and stopped above the optimum.
TEST(Logged, Gpt1T) {
  struct Log {
    std::string system;
    double seconds, within, usd, watt;
  };
  const std::vector<Log> logs = {
      {"nonoverlap h100 2d_torus hbm nvlink", 58.474199479, 1e-5, 40745728, 958402.46},
      {"nonoverlap h100 dragonfly ddr pcie", 142.294464587, 1e-5, 56102400, 921414.66},
      {"nonoverlap tpu 2d_torus ddr pcie", 297.108334986, 1e-3, 5420612.5, 230671.87},
      {"nonoverlap sn30 2d_torus hbm nvlink", 78.890014859, 1e-5, 23872512, 645781.62},
  };
  const Explored e = Explore("dfmodel-llm");
  std::map<std::string, std::map<std::string, std::string>> ours;
  for (auto& row : ParseCsv(PointsCsv(e.space, e.points, e.results))) ours[KeyOf(row)] = row;
  for (const Log& log : logs) {
    auto& row = ours.at(log.system);
    const double seconds = std::stod(row["final_ns"]) * 1e-9;
    EXPECT_NEAR(seconds / log.seconds, 1, log.within) << log.system;
    EXPECT_LE(seconds, log.seconds * (1 + 1e-5)) << log.system;
    EXPECT_NEAR(std::stod(row["total_cost"]), log.usd, 0.5) << log.system;
    EXPECT_NEAR(std::stod(row["total_power"]), log.watt, 0.005) << log.system;
  }
}

INSTANTIATE_TEST_SUITE_P(Dfmodel, Published, ::testing::Values("llm", "hpl", "dlrm", "fft"),
                         [](const auto& test) { return test.param; });

// The observations of sections VI-C1 to VI-C4, on the overlapping variant: means over the systems
// that the names select. The published ratios differ in size, because the paper's text states other
// link bandwidths than its runs used.
class Trends {
 public:
  explicit Trends(const std::string& study) {
    const Explored e = Explore(study);
    for (size_t i = 0; i < e.points.size(); ++i) {
      if (e.space.variants[e.points[i].variant].name != "overlap") continue;
      const System s = SystemOf(e.space, e.points[i]);
      const double speed =
          e.results[i].utilisation * s.chip.gflops() * static_cast<double>(s.chips());
      rows_.push_back(
          {s.chip.name + " " + s.topology + " " + s.memory.name + " " +
               e.space.links[e.points[i].link].name + " ",
           {e.results[i].utilisation, speed / PriceUsd(s).total(), speed / PowerWatt(s).total()}});
    }
  }
  enum Merit : size_t { kUtilisation, kCost, kPower };
  // Of the systems that have one of `any` and all of `all`.
  double Mean(Merit merit, std::vector<std::string> any, std::vector<std::string> all = {}) const {
    double sum = 0, count = 0;
    for (const auto& [name, merits] : rows_) {
      const auto has = [&name = name](const std::string& word) {
        return name.find(word + " ") != std::string::npos;
      };
      if (!std::any_of(any.begin(), any.end(), has) || !std::all_of(all.begin(), all.end(), has))
        continue;
      sum += merits[merit];
      ++count;
    }
    EXPECT_GT(count, 0);
    return sum / count;
  }
  double Ratio(Merit merit, std::vector<std::string> a, std::vector<std::string> b,
               std::vector<std::string> all = {}) const {
    return Mean(merit, std::move(a), all) / Mean(merit, std::move(b), all);
  }
  double Least() const {
    double least = 1;
    for (const auto& row : rows_) least = std::min(least, row.second[kUtilisation]);
    return least;
  }

 private:
  std::vector<std::pair<std::string, std::array<double, 3>>> rows_;
};

const std::vector<std::string> kSimple = {"2d_torus", "3d_torus", "dgx_1", "dgx_2"};
const std::vector<std::string> kNotWafer = {"h100", "tpu", "sn30"};

TEST(TrendsC1, Llm) {
  const Trends t("dfmodel-llm");
  for (const auto merit : {Trends::kUtilisation, Trends::kCost, Trends::kPower}) {
    EXPECT_GT(t.Ratio(merit, {"sn30"}, {"h100", "tpu"}), 1.4);  // published 1.52, 1.59, 1.6
  }
  EXPECT_GT(t.Ratio(Trends::kUtilisation, {"hbm"}, {"ddr"}, {"h100"}), 1.5);  // 1.66 with the TPU's
  EXPECT_GT(t.Ratio(Trends::kUtilisation, {"hbm"}, {"ddr"}, {"tpu"}), 1.2);
  EXPECT_NEAR(t.Ratio(Trends::kUtilisation, {"hbm"}, {"ddr"}, {"sn30"}), 1, 0.001);
  EXPECT_NEAR(t.Ratio(Trends::kUtilisation, {"dragonfly"}, kSimple, {"nvlink"}), 1, 0.005);
  EXPECT_GT(t.Ratio(Trends::kUtilisation, {"dragonfly"}, kSimple, {"pcie"}), 1.2);  // 1.21
  EXPECT_LT(t.Ratio(Trends::kCost, {"dragonfly"}, kSimple), 0.55);                  // 0.51
  EXPECT_LT(t.Ratio(Trends::kPower, {"dragonfly"}, kSimple), 1);                    // 0.91
  EXPECT_NEAR(t.Ratio(Trends::kUtilisation, {"hbm"}, {"ddr"}, {"wse-2"}), 1, 0.001);
  EXPECT_GT(t.Ratio(Trends::kUtilisation, {"nvlink"}, {"pcie"}, {"wse-2"}), 3);  // 5.15
  EXPECT_LT(t.Ratio(Trends::kCost, {"wse-2"}, kNotWafer), 0.1);                  // 0.06
  EXPECT_LT(t.Ratio(Trends::kPower, {"wse-2"}, kNotWafer), 0.3);                 // 0.2
}

// DLRM and FFT: all-to-alls decide.
void ExpectExchangeBound(const Trends& t, double nvlink, double dragonfly, double tpu) {
  EXPECT_GT(t.Ratio(Trends::kUtilisation, {"nvlink"}, {"pcie"}), nvlink);
  EXPECT_GT(t.Ratio(Trends::kCost, {"nvlink"}, {"pcie"}), nvlink / 2);
  EXPECT_GT(t.Ratio(Trends::kPower, {"nvlink"}, {"pcie"}), nvlink);
  EXPECT_GT(t.Ratio(Trends::kUtilisation, {"dragonfly"}, kSimple), dragonfly);
  EXPECT_GT(t.Ratio(Trends::kPower, {"dragonfly"}, kSimple), 1.3);
  // Cost: published 1.66 (DLRM) and 2.13 (FFT); from the published prices it is one for slow links
  // and less for fast ones, about 1 together.
  EXPECT_GT(t.Ratio(Trends::kCost, {"dragonfly"}, kSimple, {"pcie"}), 1.8);
  for (const auto merit : {Trends::kUtilisation, Trends::kCost, Trends::kPower}) {
    EXPECT_GT(t.Ratio(merit, {"tpu"}, {"h100", "sn30", "wse-2"}), tpu);
  }
  EXPECT_LT(t.Ratio(Trends::kUtilisation, {"wse-2"}, kNotWafer), 0.13);
  EXPECT_LT(t.Ratio(Trends::kCost, {"wse-2"}, kNotWafer), 0.02);
  EXPECT_LT(t.Ratio(Trends::kPower, {"wse-2"}, kNotWafer), 0.05);
}

TEST(TrendsC2, Dlrm) { ExpectExchangeBound(Trends("dfmodel-dlrm"), 4.5, 1.8, 2.2); }
TEST(TrendsC4, Fft) { ExpectExchangeBound(Trends("dfmodel-fft"), 5.5, 2, 2.9); }

TEST(TrendsC3, Hpl) {
  const Trends t("dfmodel-hpl");
  EXPECT_GT(t.Least(), 0.7);  // whatever the network and memory
  EXPECT_NEAR(t.Ratio(Trends::kUtilisation, {"dragonfly"}, kSimple), 1, 0.001);
  EXPECT_LT(t.Ratio(Trends::kCost, {"wse-2"}, kNotWafer), 0.1);    // published 0.09
  EXPECT_LT(t.Ratio(Trends::kPower, {"wse-2"}, kNotWafer), 0.35);  // 0.33
}

// Where the published run is of other inputs the exact optimum is compared alone: it is at least as
// fast as any published row (solvers with a time limit stop above it), but for the last addition,
// which some published runs shard and others do not: 2e-6 of the time.
TEST(Optimum, NeverSlowerThanPublished) {
  const std::string file = RealData("dfmodel/llm.csv");
  FORETRACE_SKIP_WITHOUT(file);
  const Explored e = Explore("dfmodel-llm");
  std::map<std::string, double> ours;
  for (auto& row : ParseCsv(PointsCsv(e.space, e.points, e.results)))
    ours[KeyOf(row)] = std::stod(row["final_ns"]);
  const auto text = ReadTextFile(file, kMaxTableBytes);
  ASSERT_TRUE(text.ok());
  for (auto row : ParseCsv(*text)) {
    if (row["final_ns"].empty()) continue;
    EXPECT_LE(ours.at(KeyOf(row)), std::stod(row["final_ns"]) * (1 + 1e-5)) << KeyOf(row);
  }
}

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
    const double samples = batch / (e.results[i].iteration_ns * 1e-9);
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
            e.space.links[e.points[i].link].name] = e.results[i].iteration_ns * 1e-9;
  }
  return seconds;
}

// Table VI in one exploration: seconds as `Table6.*` derives them.
TEST(Compared, FourMappings) {
  const Explored e = Explore("dfmodel-table6");
  std::map<std::string, double> seconds;
  for (size_t i = 0; i < e.points.size(); ++i) {
    seconds[e.space.variants[e.points[i].variant].name + " " +
            e.space.topologies[e.points[i].topology].name] = e.results[i].iteration_ns * 1e-9;
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
