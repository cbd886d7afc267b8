// The explorations of DFModel's section VI-C against the published tables (realdata/dfmodel/*.csv).
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "simulator/base/input.h"
#include "tests/support/real_data.h"
#include "tests/unit/dataflow/explored.h"

namespace foretrace::dataflow {
namespace {

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

}  // namespace
}  // namespace foretrace::dataflow
