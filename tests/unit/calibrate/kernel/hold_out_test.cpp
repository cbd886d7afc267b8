#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "simulator/calibrate/kernel/kernel_fitter.h"

namespace foretrace {
namespace {

// The lines of the rows of which `seed` leaves twenty.
std::set<int64_t> Twenty(const std::vector<BenchmarkRow>& rows, uint64_t seed) {
  const auto split = KernelFitter().Split(rows, "twenty", seed);
  EXPECT_TRUE(split.ok()) << split.status();
  std::set<int64_t> lines;
  for (const BenchmarkRow& row : split->train) lines.insert(row.line);
  EXPECT_EQ(split->test.size(), rows.size() - lines.size());
  return lines;
}

TEST(HoldOut, TwentyAreOthersForEachSeed) {
  std::vector<BenchmarkRow> rows(100);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].op = "linear";
    rows[i].dtype = "float32";
    rows[i].line = static_cast<int64_t>(i);
  }
  std::set<int64_t> all;
  for (uint64_t seed = 1; seed <= 5; ++seed) {  // every fifth row
    const std::set<int64_t> lines = Twenty(rows, seed);
    EXPECT_EQ(lines.size(), 20U);
    all.insert(lines.begin(), lines.end());
  }
  EXPECT_EQ(all.size(), rows.size());
  EXPECT_TRUE(Twenty(rows, 1).contains(0));
  EXPECT_EQ(Twenty(rows, 6), Twenty(rows, 1));
}

// Two releases in one table are one model, which is said.
TEST(KernelFitter, SaysThatStacksAreFittedAsOne) {
  std::vector<BenchmarkRow> rows;
  for (int i = 0; i < 24; ++i) {
    BenchmarkRow& row = rows.emplace_back();
    row.phase = Phase::kForward;
    row.platform = "a100-pcie-40gb";
    row.op = "copy";
    row.dtype = "float32";
    row.shape = *ShapeKeys::Parse(fmt::format("elements={}", int64_t{1000} << i / 2));
    row.time_us = 3 + 8e3 * static_cast<double>(1 << i / 2) / 1.3e6;
    row.library = i % 2 == 0 ? "torch 2.1.0" : "torch 2.5.1";
  }
  const auto fitted = KernelFitter().Fit(rows, {});
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  ASSERT_EQ((*fitted)->Notes().size(), 1u);
  EXPECT_NE(
      (*fitted)->Notes()[0].find("rows of 2 stacks (torch 2.1.0; torch 2.5.1) are fitted as one"),
      std::string::npos);
  std::erase_if(rows, [](const BenchmarkRow& row) { return row.library == "torch 2.5.1"; });
  const auto one = KernelFitter().Fit(rows, {});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE((*one)->Notes().empty());
}

// Of attention whole groups of heads are held out, as of GEMMs whole matrices; every rule that is
// listed is known, and what is not is refused with those that are.
TEST(HoldOut, RulesAreThoseThatAreListed) {
  const KernelFitter fitter;
  const std::vector<std::string_view> rules = fitter.HoldOutRules();
  EXPECT_THAT(rules, testing::Contains("unseen-heads"));
  for (const std::string_view rule : rules) {
    EXPECT_TRUE(fitter.Split({}, rule, 1).ok()) << rule;
  }
  const auto other = fitter.Split({}, "every-third", 1);
  EXPECT_EQ(other.status().message(),
            "unknown hold-out rule 'every-third'; calibrate kernel has random-fifth, unseen-nk, "
            "unseen-heads, twenty");
}

}  // namespace
}  // namespace foretrace
