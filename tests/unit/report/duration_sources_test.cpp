#include "simulator/report/duration_sources.h"

#include <gtest/gtest.h>

#include "tests/unit/report/scenario.h"

namespace foretrace {
namespace {

SimTime Of(const DurationSources& sources, EstimateSource source) {
  return sources.by_source[static_cast<size_t>(source)];
}

// Recorded: the GEMMs, 20 + 30 us, and rank 0's 20 us; calibrated: two members of an all-reduce
// that take 20 us from the last arrival on.
TEST(DurationSources, AddUpBySourceAndOp) {
  const Scenario s = MakeScenario();
  const DurationSources d = ComputeDurationSources(*s.table, Classifier(*s.store), s.windows, 10);
  EXPECT_EQ(d.device_time, Us(110));
  EXPECT_EQ(Of(d, EstimateSource::kRecorded), Us(70));
  EXPECT_EQ(Of(d, EstimateSource::kCalibrated), Us(40));
  EXPECT_EQ(d.extrapolated, SimTime());
  EXPECT_EQ(d.missing, 0);
  ASSERT_EQ(d.entries.size(), 3u);
  EXPECT_EQ(s.store->strings().Get(d.entries[0].name), "aten::linear");
  EXPECT_EQ(d.entries[0].recorded, Us(50));
  EXPECT_NEAR(d.entries[0].share, 50.0 / 110, 1e-12);
  EXPECT_EQ(d.entries[1].source, EstimateSource::kCalibrated);
  EXPECT_EQ(d.entries[1].recorded, SimTime());  // holds waiting
}

// The same run told with one kernel without a model and one beyond its range.
TEST(DurationSources, ListWhatIsWeakFirst) {
  Scenario s = MakeScenario();
  EventTable table(*s.store);
  for (RankIndex r = 0; r < 2; ++r) {
    const Scenario::Nodes& n = s.nodes[r];
    const auto tell = [&](NodeIndex node, SimTime start, SimTime end, EstimateSource source,
                          bool extrapolated) {
      NodeEvent e;
      e.node = {r, node};
      e.lane = s.store->ranks()[r].lane(node);
      e.start = e.active_start = start;
      e.end = end;
      e.source = source;
      e.extrapolated = extrapolated;
      table.OnNode(e);
    };
    tell(n.k1, Us(5), Us(45), EstimateSource::kCalibrated, false);
    tell(n.all_reduce, Us(45), Us(55), EstimateSource::kCalibrated, true);
    if (r == 0) tell(n.k2, Us(45), Us(45), EstimateSource::kMissing, false);
  }
  const DurationSources d = ComputeDurationSources(table, Classifier(*s.store), s.windows, 2);
  EXPECT_EQ(d.ops, 3);
  EXPECT_EQ(d.extrapolated, Us(20));
  EXPECT_EQ(d.missing, 1);
  EXPECT_EQ(d.missing_recorded, Us(20));
  // The GEMMs take most of the time, but are within their range: two entries are for the others.
  ASSERT_EQ(d.entries.size(), 2u);
  EXPECT_EQ(d.entries[0].source, EstimateSource::kMissing);
  EXPECT_NEAR(d.entries[0].share, 20.0 / 70, 1e-12);  // of recorded time
  EXPECT_TRUE(d.entries[1].extrapolated);
  EXPECT_NEAR(d.entries[1].share, 20.0 / 100, 1e-12);
}

}  // namespace
}  // namespace foretrace
