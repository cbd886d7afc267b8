#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <sstream>

#include "simulator/report/prediction_report.h"
#include "simulator/report/report_json.h"
#include "simulator/report/text_report.h"
#include "simulator/report/text_table.h"
#include "simulator/report/time_unit.h"
#include "tests/unit/report/scenario.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

std::vector<std::vector<IterationWindow>> PerRank(const Scenario& s) {
  return {{s.windows[0]}, {s.windows[1]}};
}

TEST(PredictionReport, JsonHoldsTheContract) {
  const Scenario s = MakeScenario();
  const auto report = BuildPredictionReport(*s.table, PerRank(s), {});
  ASSERT_TRUE(report.ok()) << report.status();
  rapidjson::Document d;
  d.Parse(ReportJson(*report, *s.store).c_str());
  ASSERT_FALSE(d.HasParseError());
  EXPECT_DOUBLE_EQ(d["iteration_time_us"].GetDouble(), 60);
  EXPECT_DOUBLE_EQ(d["recorded_iteration_time_us"].GetDouble(), 60);
  EXPECT_DOUBLE_EQ(d["baseline_us"].GetDouble(), 40);
  ASSERT_EQ(d["ranks"].Size(), 2u);
  const auto& rank = d["ranks"][1];
  EXPECT_EQ(rank["rank"].GetInt(), 1);
  EXPECT_DOUBLE_EQ(rank["iteration_time_us"].GetDouble(), 60);
  EXPECT_DOUBLE_EQ(rank["blocked_share"].GetDouble(), 47.0 / 60);
  EXPECT_EQ(rank["streams"].Size(), 2u);
  EXPECT_DOUBLE_EQ(rank["streams"][0]["work_us"]["gemm_forward"].GetDouble(), 30);
  const auto& sources = d["sources"];
  EXPECT_DOUBLE_EQ(sources["calibrated"].GetDouble(), 20.0 / 60);
  EXPECT_NEAR(sources["recorded"].GetDouble() + sources["calibrated"].GetDouble() +
                  sources["analytic"].GetDouble() + sources["missing"].GetDouble(),
              1.0, 1e-12);
  EXPECT_EQ(d["critical_path"]["runs"].Size(), 4u);
  EXPECT_DOUBLE_EQ(d["critical_path"]["total_us"].GetDouble(), 60);
  EXPECT_STREQ(d["communicators"][0]["operation"].GetString(), "all_reduce");
  EXPECT_EQ(d["communicators"][0]["latecomers"][0]["rank"].GetInt(), 1);
}

TEST(PredictionReport, TextNamesTheFigures) {
  const Scenario s = MakeScenario(/*synthetic=*/true);
  ReportOptions options;
  options.notes = {"rank 2 is missing"};
  const auto report = BuildPredictionReport(*s.table, PerRank(s), options);
  ASSERT_TRUE(report.ok());
  const std::string text = TextReport(*report, *s.store, {});
  EXPECT_THAT(text, HasSubstr("SYNTHETIC"));
  EXPECT_THAT(text, HasSubstr("Iteration 5: 60.0 us predicted, 60.0 us recorded (+0.00 %)"));
  EXPECT_THAT(text, HasSubstr("Note: rank 2 is missing"));
  EXPECT_THAT(text, HasSubstr("gemm fwd"));
  EXPECT_THAT(text, HasSubstr("1 (1, 10.0)"));
  EXPECT_THAT(text, HasSubstr("Critical path of rank 0: 60.0 us in 4 runs over 2 ranks"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
}

TEST(PredictionReport, PicksTheMedianOfTheIterationsAllRanksHave) {
  const Scenario s = MakeScenario();
  auto windows = PerRank(s);
  windows[0] = {{1, Us(0), Us(90), {}, {}},
                {2, Us(0), Us(50), {}, {}},
                {3, Us(0), Us(60), {}, {}},
                {4, Us(0), Us(1), {}, {}}};
  windows[1] = {{1, Us(0), Us(10), {}, {}}, {2, Us(0), Us(20), {}, {}}, {3, Us(0), Us(70), {}, {}}};
  auto report = BuildPredictionReport(*s.table, windows, {});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->iterations.size(), 3u);  // slowest ranks: 90, 50, 70
  EXPECT_EQ(report->iteration, 3);
  EXPECT_EQ(report->iteration_time, Us(70));
  EXPECT_EQ(report->critical_path.total, Us(70));
  EXPECT_EQ(report->critical_path.end_rank, 1u);

  // Iterations in which no device starts work do not count: here all but the first.
  for (auto& rank : windows) {
    for (IterationWindow& w : rank) {
      if (w.number == 1) continue;
      w.predicted_start += Us(1000);
      w.predicted_end += Us(1000);
    }
  }
  report = BuildPredictionReport(*s.table, windows, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->iteration, 1);

  ReportOptions options;
  options.iteration = 4;
  const auto absent = BuildPredictionReport(*s.table, windows, options);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("they have 1, 2, 3"));
  windows[1].clear();
  EXPECT_FALSE(BuildPredictionReport(*s.table, windows, {}).ok());
}

TEST(TextTable, AlignsAndCutsNamesToTheWidth) {
  TextTable table({{"us"}, {"name", TextTable::Align::kLeft, true}});
  table.AddRow({"1.0", "short"});
  table.AddRow({"1234.5", std::string(30, 'a') + std::string(30, 'b')});
  EXPECT_EQ(table.Format({.width = 30}),
            "    us  name\n"
            "   1.0  short\n"
            "1234.5  aaaaaaaaaaaaa...bbbbbb\n");
  EXPECT_EQ(table.Format({.width = 100, .colour = true}).substr(0, 4), "\x1b[1m");
}

// Two rows of six columns in 30 characters: rank and name (4 + 2 + 4), then 2 + 8 for every column,
// of which two fit; the others follow below the same keys.
TEST(TextTable, ColumnsThatDoNotFitFollowBelow) {
  TextTable table({{"rank"}, {"name", TextTable::Align::kLeft}, {"column a"}, {"column b"}, {"c"}});
  table.AddRow({"0", "x", "1.0", "2.0", "3.0"});
  table.AddRow({"1", "y", "4.0", "5.0", "6.0"});
  EXPECT_EQ(table.Format({.width = 30}),
            "rank  name  column a  column b\n"
            "   0  x          1.0       2.0\n"
            "   1  y          4.0       5.0\n"
            "\n"
            "rank  name    c\n"
            "   0  x     3.0\n"
            "   1  y     6.0\n");
}

// 4 + 2 * (2 + 8) + 2 + 20 = 46 characters, of which the name gives up 4 and no more: it follows
// below, where there is room for all 20.
TEST(TextTable, NamesAreWholeWhereOtherColumnsFollowBelow) {
  TextTable table({{"rank"}, {"column a"}, {"column b"}, {"name", TextTable::Align::kLeft, true}});
  table.AddRow({"0", "1.0", "2.0", std::string(20, 'n')});
  EXPECT_EQ(table.Format({.width = 30}),
            "rank  column a  column b\n"
            "   0       1.0       2.0\n"
            "\n"
            "rank  name\n"
            "   0  nnnnnnnnnnnnnnnnnnnn\n");
}

TEST(TimeUnit, MillisecondsWhereMicrosecondsHaveSevenDigits) {
  const TimeUnit us(SimTime::FromNs(99'999'900));
  EXPECT_EQ(us.Text(SimTime::FromNs(99'999'900)), "99999.9 us");
  EXPECT_EQ(us.Signed(SimTime::FromNs(-1500)), "-1.5");
  const TimeUnit ms(SimTime::FromNs(622'497'300));
  EXPECT_EQ(ms.Text(SimTime::FromNs(622'497'300)), "622.497 ms");
  EXPECT_EQ(ms.Number(SimTime::FromNs(1500)), "0.002");
}

// The answer, whether to believe it, why, and what it rests on come first, in lines that fit.
TEST(Headline, SaysTheAnswerFirst) {
  const Scenario s = MakeScenario();
  ReportOptions options;
  options.doubt = "replayed unchanged, step 5 takes 2.000 ms instead of the recorded 1.000 ms";
  options.notes = {std::string(50, 'a') + " " + std::string(60, 'b')};
  const auto report = BuildPredictionReport(*s.table, PerRank(s), options);
  ASSERT_TRUE(report.ok());
  const std::string text = TextReport(*report, *s.store, {.style = {.width = 70}});
  EXPECT_EQ(text.rfind("NOT RELIABLE: replayed unchanged, step 5 takes 2.000 ms instead of the\n"
                       "  recorded 1.000 ms\n"
                       "Verdict: the iteration takes 60.0 us, 60.0 us recorded (+0.00 %)\n"
                       "Why: the critical path is ",
                       0),
            0u)
      << text;
  EXPECT_THAT(text,
              HasSubstr("\nRests on: recorded 66.7 %, calibrated 33.3 % of the critical path\n"));
  EXPECT_THAT(text, HasSubstr("\nNote: " + std::string(50, 'a') + "\n  " + std::string(60, 'b')));
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, DisplayWidth(line));
  }
  EXPECT_LE(longest, 70u);
  rapidjson::Document d;
  d.Parse(ReportJson(*report, *s.store).c_str());
  EXPECT_FALSE(d["reliable"].GetBool());
  EXPECT_THAT(d["doubt"].GetString(), HasSubstr("step 5"));
}

TEST(TextTable, KeepsUtf8WholeAndControlCharactersOut) {
  EXPECT_EQ(Shorten("ääääääääääää", 9), "ääää...ää");
  EXPECT_EQ(DisplayWidth("äb"), 2u);
  TextTable table({{"x", TextTable::Align::kLeft}});
  table.AddRow({"a\x1b[2Jb\xff"});
  EXPECT_EQ(table.Format({}), "x\na?[2Jb?\n");
}

}  // namespace
}  // namespace foretrace
