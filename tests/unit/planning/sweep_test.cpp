#include "simulator/planning/sweep/sweep.h"

#include <gtest/gtest.h>

#include "simulator/hardware/catalog.h"
#include "simulator/planning/sweep/sweep_report.h"
#include "simulator/topology/platform_loader.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

std::vector<std::string> ValuesOf(std::string_view text) {
  const absl::StatusOr<SweepAxis> axis = ParseSweepAxis(text);
  EXPECT_TRUE(axis.ok()) << axis.status();
  return axis.ok() ? axis->values : std::vector<std::string>();
}

TEST(Sweep, ListsAndRanges) {
  using List = std::vector<std::string>;
  EXPECT_EQ(ValuesOf("n=1,2,x"), (List{"1", "2", "x"}));
  EXPECT_EQ(ValuesOf("--n=0,1;2-3"), (List{"0,1", "2-3"}));
  EXPECT_EQ(ValuesOf("n=1:4"), (List{"1", "2", "3", "4"}));
  EXPECT_EQ(ValuesOf("n=0.25:1:0.25"), (List{"0.25", "0.5", "0.75", "1"}));
  EXPECT_EQ(ValuesOf("n=8:64:x2"), (List{"8", "16", "32", "64"}));
  EXPECT_EQ(ValuesOf("n=1:10:x3"), (List{"1", "3", "9"}));  // 27 is over 10
  EXPECT_EQ(ValuesOf("w=name=a:x2"), (List{"name=a:x2"}));  // no numbers: a value
  for (const char* bad :
       {"n", "n=", "=1", "n=1,,2", "n=4:1", "n=1:4:-1", "n=0:4:x2", "n=1:4:x1", "n=0:1e9"}) {
    EXPECT_FALSE(ParseSweepAxis(bad).ok()) << bad;
  }
}

TEST(Sweep, TheLastAxisVariesFastest) {
  const auto swept =
      SweptCommand::Make({"predict", "run/{a}", "--x={a}"},
                         {{"a", {"p", "q"}}, {"top", {"1", "2", "3"}}}, "  --top UINT  entries\n");
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->points(), 6u);
  EXPECT_EQ(swept->Label(0), "a=p, top=1");
  EXPECT_EQ(swept->Label(4), "a=q, top=2");
  const auto arguments = swept->Arguments(4, "");
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(*arguments, (std::vector<std::string>{"predict", "run/q", "--x=q", "--top=2"}));
}

TEST(Sweep, ColumnsOfADocument) {
  const std::string json = R"({"a": {"b": [1, {"c": 2.5}]}, "t": "text", "n": null})";
  const auto values = ReadColumns(json, {"a.b[0]", "a.b[-1].c", "t", "n"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].number, 1.0);
  EXPECT_EQ((*values)[1].number, 2.5);
  EXPECT_EQ((*values)[2].text, "text");
  EXPECT_FALSE((*values)[3].number.has_value());
  for (const char* bad : {"a", "a.b", "a.b[2]", "a.b[x]", "q", "a.b[0"}) {
    EXPECT_FALSE(ReadColumns(json, {bad}).ok()) << bad;
  }
}

TEST(Sweep, JournalLinesComeBack) {
  SweepPoint point;
  point.feasible = true;
  point.values = {{"x", 0.1 + 0.2, ""}, {"y", std::nullopt, "a\tb | c"}};
  SweepPoint back;
  ASSERT_TRUE(Decode(Encode(point), {"x", "y"}, back));
  EXPECT_EQ(back.values[0].number, 0.1 + 0.2);  // to the bit
  EXPECT_EQ(back.values[1].text, "a b   c");    // one field of one line
  EXPECT_FALSE(Decode("ok\tn1", {"x", "y"}, back));
  EXPECT_FALSE(Decode("what", {"x"}, back));
}

// Times 8, 5, 4 at 1, 2, 4 devices. Strong scaling: 8/5/2 = 0.8, 8/4/4 = 0.5; weak: 8/5, 8/4.
TEST(Sweep, Efficiency) {
  const auto swept = SweptCommand::Make({"c", "{n}"}, {{"n", {"1", "2", "4"}}}, "");
  ASSERT_TRUE(swept.ok());
  SweepReport report;
  report.swept = &*swept;
  report.columns = {"t_us"};
  for (const double t : {8., 5., 4.}) report.points.push_back({true, "", {{"t_us", t, ""}}, {}});
  ASSERT_TRUE(AddScaling("strong", report).ok());
  EXPECT_DOUBLE_EQ(*report.points[0].efficiency, 1);
  EXPECT_DOUBLE_EQ(*report.points[1].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(*report.points[2].efficiency, 0.5);
  ASSERT_TRUE(AddScaling("weak", report).ok());
  EXPECT_DOUBLE_EQ(*report.points[2].efficiency, 2);
  report.columns = {"busbw_GBps"};
  EXPECT_FALSE(AddScaling("weak", report).ok());
}

// A board of the same chip, on the same platform, as any point of the sweep may be.
TEST(Sweep, FactsOfAnAccelerator) {
  const TempFolder folder;
  const auto swept = SweptCommand::Make(
      {"search", "w.yaml", "--platform=dgx-h100"},
      {{"accelerator.memory.hbm3.bandwidth_GBps", {"3350", "6700"}}, {"node.devices", {"8"}}}, "");
  ASSERT_TRUE(swept.ok()) << swept.status();
  const auto arguments = swept->Arguments(1, folder.path());
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  ASSERT_EQ(arguments->back(), "--platform=" + folder.path() + "/platform-1.yaml");
  const auto platform = LoadPlatform(folder.path() + "/platform-1.yaml");
  ASSERT_TRUE(platform.ok()) << platform.status();
  const Accelerator& device = platform->node.accelerator;
  EXPECT_DOUBLE_EQ(device.memory_bandwidth().bytes_per_second(), 6.7e12);
  EXPECT_EQ(device.chip, FindAccelerator("h100-sxm5-80gb")->chip);
  EXPECT_EQ(device.multiprocessors(), 132);
  const auto wrong = SweptCommand::Make({"search", "--platform", "dgx-h100"},
                                        {{"accelerator.memory.hbm9.bandwidth_GBps", {"1"}}}, "");
  const std::string said(wrong.status().message());
  EXPECT_NE(said.find("accelerator.memory.hbm3.bandwidth_GBps"), std::string::npos) << said;
}

// Six points over a (2) and b (3): the answer follows b, or is infeasible where b is so, whatever
// a.
TEST(Sweep, AxesThatNothingDependsOn) {
  const auto swept =
      SweptCommand::Make({"c", "{a}", "{b}"}, {{"a", {"1", "2"}}, {"b", {"1", "2", "3"}}}, "");
  ASSERT_TRUE(swept.ok());
  SweepReport report;
  report.swept = &*swept;
  report.columns = {"t_us"};
  for (int p = 0; p < 6; ++p) {
    if (p % 3 == 2) {
      report.points.push_back({false, "no", {}, {}});
    } else {
      report.points.push_back({true, "", {{"t_us", 1.0 + p % 3, ""}}, {}});
    }
  }
  EXPECT_EQ(AxesWithoutEffect(report), std::vector<std::string>{"a"});
  report.points[4].values[0].number = 2.5;
  EXPECT_TRUE(AxesWithoutEffect(report).empty());
}

// Of three points one fails and another's answer is 2, a third's 3. The text and the document,
// which pages carry, say the same.
TEST(Sweep, VerdictIsPartOfTheAnswer) {
  const auto swept = SweptCommand::Make({"c", "{n}"}, {{"n", {"1", "x", "4"}}}, "");
  ASSERT_TRUE(swept.ok());
  SweepReport report;
  report.swept = &*swept;
  report.columns = {"t_us"};
  report.points = {{true, "", {{"t_us", 2, ""}}, {}}, {}, {true, "", {{"t_us", 3, ""}}, {}}};
  report.points[1].failed = true;
  const std::string verdict = "2 of 3 points can be met, 1 failed; t_us from 2 (n=1) to 3 (n=4)";
  EXPECT_TRUE(SweepText(report, TextStyle()).starts_with("Verdict: " + verdict + "\n\n"));
  EXPECT_NE(SweepJson(report).find("\"verdict\":\"" + verdict + "\""), std::string::npos)
      << SweepJson(report);
}

TEST(Sweep, FailedPointsComeBack) {
  SweepPoint failed;
  failed.failed = true;
  failed.why = "ranks: x is no\tnumber";
  SweepPoint back;
  ASSERT_TRUE(Decode(Encode(failed), {"time_us"}, back));
  EXPECT_TRUE(back.failed);
  EXPECT_FALSE(back.feasible);
  EXPECT_EQ(back.why, "ranks: x is no number");
}

// Files that hold one point's platform are gone when the message is read.
TEST(Sweep, MessagesNameWhatWasGiven) {
  const auto swept = SweptCommand::Make({"collective", "--topology=dgx-a100:4"},
                                        {{"links.nvlink3.bandwidth_GBps", {"1", "-1"}}},
                                        "  --topology TEXT  platform\n");
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->InGivenNames("/tmp/s/platform-1.yaml:7: key x: -1 is wrong", "/tmp/s"),
            "dgx-a100:4: key x: -1 is wrong");
  EXPECT_EQ(swept->InGivenNames("/tmp/s/accelerator-12.yaml: no rates", "/tmp/s"),
            "dgx-a100:4: its accelerator: no rates");
  EXPECT_EQ(swept->InGivenNames("/tmp/other/platform-1.yaml", "/tmp/s"),
            "/tmp/other/platform-1.yaml");
}

}  // namespace
}  // namespace foretrace
