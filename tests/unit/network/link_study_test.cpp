#include "simulator/network/link_study.h"

#include <gtest/gtest.h>

#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

PlatformSpec Pair() {
  const auto spec = ParsePlatform(
      "name: pair\nlinks:\n  l: {class: nvlink, bandwidth_GBps: 100, latency_us: 1, source: t}\n"
      "node: {devices: 2, interconnect: {kind: switch, link: l}}\n",
      "pair.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

// All-reduces of two at half the platform's bandwidth: twice its time and no latency.
std::vector<StudyTable> Tables() {
  std::vector<MeasuredCollective> rows;
  for (int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2) {
    MeasuredCollective row;
    row.op = CollectiveOp::kAllReduce;
    row.ranks = 2;
    row.bytes = bytes;
    row.time_us = static_cast<double>(bytes) / 50e3;
    rows.push_back(row);
  }
  return MakeTables(rows, 1 << 20);
}

TEST(LinkStudy, FitsWhatWasMeasured) {
  std::vector<StudyTable> tables = Tables();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_FALSE(tables[0].held_out);
  int64_t last = -1;
  const auto fitted = FitLinks(Pair(), {}, tables, {.links = true},
                               [&](std::string_view, int64_t done, int64_t total) {
                                 EXPECT_GE(done, last);
                                 EXPECT_LE(done, total);
                                 last = done;
                                 return true;
                               });
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_GT(last, 3);
  EXPECT_NEAR(fitted->links[0].efficiency, 0.5, 0.02);
  ASSERT_TRUE(PredictTables(*fitted, NetworkTier::kFitted, {}, tables).ok());
  EXPECT_LT(tables[0].errors.gmae_percent, 2);
}

TEST(LinkStudy, CanBeInterrupted) {
  std::vector<StudyTable> tables = Tables();
  const StudyProgress stop = [](std::string_view, int64_t done, int64_t) { return done < 1; };
  EXPECT_TRUE(absl::IsCancelled(PredictTables(Pair(), NetworkTier::kFluid, {}, tables, stop)));
  EXPECT_TRUE(absl::IsCancelled(FitLinks(Pair(), {}, tables, {.links = true}, stop).status()));
}

}  // namespace
}  // namespace foretrace
