#include "simulator/calibrate/calibrate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "simulator/calibrate/collective/collective_fitter.h"
#include "simulator/calibrate/memcpy/memory_fitter.h"
#include "simulator/calibrate/overheads/overhead_fitter.h"
#include "simulator/cost/calibration_set.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] =
    "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n";

class CalibrateTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // 10 us + size at 100 GB/s x `scale`, 1 KiB to 1 GiB.
  std::string Collectives(const std::string& name, const std::string& platform, double scale,
                          int step = 1) {
    std::string text = "# interconnect: switch\n# date: 2026-01-31\n# licence: none\n";
    text += kHeader;
    for (int i = 10; i <= 30; i += step) {
      const double bytes = std::exp2(i);
      text += fmt::format(
          "collective,all_reduce,-,{},float32,bytes={};ranks=8;nodes=1;placement=node;inplace=1,{},"
          "0,1,nccl,{}\n",
          platform, int64_t{1} << i, scale * (10 + bytes / 1e5), name);
    }
    return Write(name + ".csv", text);
  }

  const TempFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(CalibrateTest, HoldsOutAndWritesTheSameBytesTwice) {
  CalibrateOptions options;
  options.tables = {Collectives("lab", "p", 1)};
  options.hold_out = "every-third";
  options.output = (folder_ / "a").string();
  const auto report = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->in_sample);
  ASSERT_EQ(report->models.size(), 2u);
  EXPECT_EQ(report->models[0].name, "all_reduce ranks=8 nodes=1 in-place float32 nccl lab");
  EXPECT_EQ(report->models[0].errors.count, 7u);
  // The largest of 21 sizes is held out, and so lies beyond what was fitted.
  EXPECT_EQ(report->models[0].extrapolated_count, 1u);
  EXPECT_LT(report->models[0].errors.mape_percent, 3);
  ASSERT_EQ(report->written.size(), 1u);
  const std::string first = Read(report->written[0]);
  EXPECT_THAT(first, HasSubstr("date: \"2026-01-31\""));
  EXPECT_THAT(first, HasSubstr("held_out_rule: \"every-third\""));
  options.output = (folder_ / "b").string();
  const auto again = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(Read(again->written[0]), first);
}

TEST_F(CalibrateTest, TellsHowManyModelsAreFitted) {
  CalibrateOptions options;
  options.tables = {Collectives("lab", "p", 1), Collectives("other", "p", 2)};
  std::vector<std::string> told;
  options.fit.progress = [&](std::string_view what, int64_t done, int64_t total) {
    told.push_back(fmt::format("{} {}/{}", what, done, total));
  };
  ASSERT_TRUE(RunCalibrate(CollectiveFitter(), options).ok());
  EXPECT_EQ(told, (std::vector<std::string>{"sweeps 0/2", "sweeps 1/2"}));
}

TEST_F(CalibrateTest, TheWrittenFilePredictsWhatTheFitDid) {
  CalibrateOptions options;
  options.tables = {Collectives("lab", "p", 1)};
  options.output = folder_.string();
  const auto fitted = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  CalibrateOptions evaluate;
  evaluate.calibration = fitted->written[0];
  evaluate.test_tables = options.tables;
  const auto loaded = RunCalibrate(CollectiveFitter(), evaluate);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->rows.size(), fitted->rows.size());
  for (size_t i = 0; i < loaded->rows.size(); ++i) {
    EXPECT_NEAR(loaded->rows[i].predicted_us / fitted->rows[i].predicted_us, 1, 1e-9);
  }
}

// Releases of one stack differ: the file says which were measured, as far as the tables do.
TEST_F(CalibrateTest, NamesTheReleasesThatWereMeasured) {
  std::string text = Read(Collectives("lab", "p", 1));
  const std::string plain = ",nccl,lab";
  for (const char* by :
       {",nccl 2.29.2,lab", ",vidur up_proj Llama-2-7b,lab", ",nccl of torch 2.10,lab"}) {
    text.replace(text.find(plain), plain.size(), by);
  }
  CalibrateOptions options;
  options.tables = {Write("versions.csv", text)};
  options.output = (folder_ / "of").string();
  ASSERT_TRUE(RunCalibrate(CollectiveFitter(), options).ok());
  const std::string folder = (folder_ / "of" / "p").string();
  EXPECT_THAT(Read(folder + "/collectives.yaml"),
              HasSubstr("stack: [\"nccl 2.29.2\", \"nccl of torch 2.10\"]\n"));
  const auto set = LoadCalibrationSet(folder);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(StackNote(*set),
            "calibration p: collectives measured with nccl 2.29.2, nccl of torch 2.10");
  options.tables = {Collectives("unstated", "q", 1)};
  ASSERT_TRUE(RunCalibrate(CollectiveFitter(), options).ok());
  EXPECT_EQ(StackNote(*LoadCalibrationSet((folder_ / "of" / "q").string())), "");
}

TEST_F(CalibrateTest, AdaptsWithThreePoints) {
  CalibrateOptions options;
  options.tables = {Collectives("lab", "p", 1)};
  options.output = folder_.string();
  const auto prior = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(prior.ok()) << prior.status();
  CalibrateOptions adapt;
  adapt.tables = {Collectives("other", "q", 1.3)};
  adapt.adapt = prior->written[0];
  adapt.hold_out = "three-points";
  adapt.output = folder_.string();
  const auto report = RunCalibrate(CollectiveFitter(), adapt);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->models.back().errors.count, 18u);
  EXPECT_LT(report->models.back().errors.max_percent, 0.5);
  adapt.tables = {Collectives("few", "q", 1.3, 20)};  // two sizes
  adapt.hold_out.clear();
  EXPECT_THAT(std::string(RunCalibrate(CollectiveFitter(), adapt).status().message()),
              HasSubstr("needs at least 3"));
}

// A release that was not measured is predicted by the nearest release of its library, and rows that
// nothing covers are told apart.
TEST_F(CalibrateTest, OtherReleasesByTheNearestAndGapsAreTold) {
  const auto table = [&](const std::string& name,
                         std::initializer_list<std::pair<const char*, double>> libraries,
                         const char* op = "all_reduce") {
    std::string text = "# interconnect: switch\n" + std::string(kHeader);
    for (const auto& [library, scale] : libraries) {
      for (int i = 10; i <= 24; i += 2) {
        text += fmt::format(
            "collective,{},-,p,float32,bytes={};ranks=8;nodes=1;placement=node;inplace=0,{},0,1,{},"
            "{}\n",
            op, int64_t{1} << i, scale * (10 + std::exp2(i) / 1e5), library, name);
      }
    }
    return Write(name + ".csv", text);
  };
  CalibrateOptions options;
  options.tables = {
      table("a", {{"other 9.9 graph", 5}, {"one 0.5.10 graph", 3}, {"one 0.5.2 graph", 1}})};
  options.test_tables = {table("b", {{"one 0.5.4 graph", 1}})};
  auto report = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->models.back().median_percent, 1);
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], HasSubstr("8 rows have no model of their own stack"));
  EXPECT_THAT(report->notes[0], HasSubstr("one 0.5.2 graph"));

  options.test_tables = {table("c", {{"one 0.5.4 graph", 1}}, "all_gather")};
  report = RunCalibrate(CollectiveFitter(), options);
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("no model covers 8 rows of all_gather node float32"));
}

// Three sizes of latency say nothing of 16 MiB; the same collective in another type does: 8 us and
// 100 GB/s, 10 us and 100 GB/s. 16 MiB take 168 us more than nothing.
TEST_F(CalibrateTest, BeyondItsSizesASweepGoesOnAsAnother) {
  const auto rows = [](const char* dtype, double latency, int from, int to) {
    std::string text;
    for (int i = from; i <= to; ++i) {
      text += fmt::format(
          "collective,all_gather,-,p,{},bytes={};ranks=8;nodes=1;placement=node;inplace=0,{},0,1,"
          "lib 1.0,x\n",
          dtype, int64_t{1} << i, latency + std::exp2(i) / 1e5);
    }
    return text;
  };
  CalibrateOptions options;
  options.tables = {Write("a.csv", kHeader + rows("int8", 8, 8, 10) + rows("float16", 10, 8, 25))};
  options.test_tables = {Write("b.csv", kHeader + rows("int8", 8, 18, 24))};
  const auto report = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->models.back().errors.max_percent, 25);
  EXPECT_EQ(report->models.back().extrapolated_count, 7u);
}

TEST_F(CalibrateTest, KeepsPlatformsApart) {
  CalibrateOptions options;
  options.tables = {Collectives("one", "p", 1), Collectives("two", "q", 2)};
  options.output = folder_.string();
  const auto report = RunCalibrate(CollectiveFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->written.size(), 2u);
  EXPECT_THAT(report->models[0].name, HasSubstr("p all_reduce"));
  options.output_platform = "r";
  EXPECT_FALSE(RunCalibrate(CollectiveFitter(), options).ok());
  options.platform = "q";
  options.tables = {options.tables[1]};
  EXPECT_TRUE(RunCalibrate(CollectiveFitter(), options).ok());
}

TEST_F(CalibrateTest, RefusesOptionsThatContradict) {
  const std::string table = Collectives("lab", "p", 1);
  const auto fails = [](const CalibrateOptions& options) {
    return !RunCalibrate(CollectiveFitter(), options).ok();
  };
  EXPECT_TRUE(fails({}));
  EXPECT_TRUE(fails({.tables = {table, table}}));
  EXPECT_TRUE(fails({.tables = {table}, .test_tables = {table}, .hold_out = "every-third"}));
  EXPECT_TRUE(fails({.tables = {table}, .hold_out = "nonsense"}));
  EXPECT_TRUE(fails({.tables = {table}, .platform = "elsewhere"}));
  EXPECT_TRUE(fails({.test_tables = {table}, .calibration = "/nonexistent.yaml"}));
}

TEST_F(CalibrateTest, FitsCopies) {
  std::string text = kHeader;
  for (int i = 12; i <= 28; ++i) {
    text += fmt::format("memory,memcpy,-,p,int8,bytes={};direction=htod;pinned=1,{},0,1,cuda,lab\n",
                        int64_t{1} << i, 8 + std::exp2(i) / 2.5e4);
  }
  CalibrateOptions options;
  options.tables = {Write("copies.csv", text)};
  options.hold_out = "every-third";
  options.output = folder_.string();
  const auto report = RunCalibrate(MemoryFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->models.back().errors.mape_percent, 2);
  const auto loaded = MemoryFitter().Load(report->written[0]);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const CopyModels& copies = dynamic_cast<const FittedMemory&>(*loaded->second).copies();
  const auto estimate = copies.CopyTime("htod", true, Bytes(1 << 20));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_NEAR(estimate->time.us(), 8 + 1048576 / 2.5e4, 0.5);
  EXPECT_FALSE(copies.CopyTime("dtoh", true, Bytes(1 << 20)).has_value());
}

TEST_F(CalibrateTest, FitsOverheads) {
  std::string text = kHeader;
  for (int i = 0; i < 5; ++i) {
    text +=
        fmt::format("overhead,overhead,-,p,-,name=launch_latency,{},0,9,cuda,run{}\n", 4 + i, i);
  }
  CalibrateOptions options;
  options.tables = {Write("overheads.csv", text)};
  options.output = folder_.string();
  const auto report = RunCalibrate(OverheadFitter(), options);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto loaded = OverheadFitter().Load(report->written[0]);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& overheads = dynamic_cast<const FittedOverheads&>(*loaded->second);
  EXPECT_EQ(overheads.Overhead("launch_latency"), SimTime::FromUs(6));  // median of 4..8
  EXPECT_EQ(overheads.models()[0].spread_us, 1);                        // quartiles 5 and 7
  EXPECT_FALSE(overheads.Overhead("kernel_gap").has_value());
}

}  // namespace
}  // namespace foretrace
