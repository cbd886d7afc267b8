#include "simulator/plan/line_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "simulator/plan/pipeline_timing.h"

namespace foretrace {
namespace {

constexpr int32_t kMostStages = 9;

// The same as lists of passes, which TimePipeline runs one by one.
TimedPipeline ListsOf(const LinePipeline& line) {
  TimedPipeline out;
  out.mini_batch = line.microbatches;
  for (int32_t s = 0; s < line.stages; ++s) {
    TimedStage stage;
    stage.passes = line.chunks > 1
                       ? *InterleavedSchedule(line.microbatches, line.stages, s, line.chunks)
                       : KFKBSchedule(line.microbatches, line.k,
                                      static_cast<int32_t>(line.in_flight[static_cast<size_t>(s)]));
    for (int32_t c = 0; c < line.chunks; ++c) {
      const auto chunk = static_cast<size_t>(c * line.stages + s);
      stage.forward.push_back(line.forward[chunk]);
      stage.backward.push_back(line.backward[chunk]);
      if (s > 0) out.edges.push_back({s - 1, c, s, c, line.transfer, line.transfer});
      if (s == 0 && c > 0) {
        out.edges.push_back({line.stages - 1, c - 1, 0, c, line.transfer, line.transfer});
      }
    }
    out.stages.push_back(std::move(stage));
  }
  return out;
}

void ExpectEqual(const LinePipeline& line, const std::string& what) {
  const TimedPipeline lists = ListsOf(line);
  const auto expected = TimePipeline(lists);
  ASSERT_TRUE(expected.ok()) << what << ": " << expected.status();
  const LineTiming timing = TimeLine(line);
  EXPECT_EQ(timing.end.ps(), expected->end.ps()) << what;
  for (size_t s = 0; s < lists.stages.size(); ++s) {
    EXPECT_EQ(timing.stage_end[s].ps(), expected->stage_end[s].ps()) << what << " stage " << s;
    const PassList& passes = lists.stages[s].passes;
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      if (pass.kind != PassKind::kBackward || pass.microbatch + 1 != line.microbatches) continue;
      const size_t chunk = static_cast<size_t>(pass.chunk) * lists.stages.size() + s;
      EXPECT_EQ(timing.last_backward[chunk].ps(), expected->pass_start[s][i].ps())
          << what << " stage " << s << " chunk " << pass.chunk;
    }
  }
}

// Durations of stages that are alike but for the ends, or all different; transfers from none to
// ones that make the way there and back the bottleneck.
void Draw(std::mt19937& rng, LinePipeline& line) {
  const size_t chunks = static_cast<size_t>(line.stages) * static_cast<size_t>(line.chunks);
  const auto time = [&](uint32_t most) { return SimTime::FromPs(1 + rng() % most); };
  const bool alike = rng() % 2 == 0;
  const SimTime forward = time(1000), backward = time(2000);
  for (size_t c = 0; c < chunks; ++c) {
    line.forward.push_back(alike ? forward : time(1000));
    line.backward.push_back(alike ? backward : time(2000));
  }
  line.forward.front() += time(300);
  line.backward.back() += time(300);
  line.transfer = rng() % 3 == 0 ? SimTime() : time(rng() % 2 == 0 ? 50 : 3000);
}

std::string Describe(const LinePipeline& line) {
  return "p" + std::to_string(line.stages) + " v" + std::to_string(line.chunks) + " k" +
         std::to_string(line.k) + " of " + std::to_string(line.microbatches);
}

// 1F1B is k = 1; in flight is what ChunksInFlight says of kFkB, or all (GPipe).
TEST(LineTimingTest, GroupedSchedulesEqualListsOfPasses) {
  std::mt19937 rng(3);
  for (int round = 0; round < 1500; ++round) {
    LinePipeline line;
    line.stages = 1 + static_cast<int32_t>(rng() % kMostStages);
    line.k = 1 + static_cast<int32_t>(rng() % 4);
    line.microbatches = 1 + static_cast<int32_t>(rng() % (rng() % 2 == 0 ? 12 : 200));
    const bool all = rng() % 5 == 0;
    for (int32_t s = 0; s < line.stages; ++s) {
      const int32_t flying = line.k + std::min(line.k, 2) * (line.stages - s - 1);
      line.in_flight.push_back(all ? line.microbatches : std::min(line.microbatches, flying));
    }
    Draw(rng, line);
    ExpectEqual(line, Describe(line));
  }
}

TEST(LineTimingTest, InterleavedSchedulesEqualListsOfPasses) {
  std::mt19937 rng(4);
  for (int round = 0; round < 1500; ++round) {
    LinePipeline line;
    line.stages = 2 + static_cast<int32_t>(rng() % (kMostStages - 1));
    line.chunks = 2 + static_cast<int32_t>(rng() % 5);
    line.microbatches = line.stages * (1 + static_cast<int32_t>(rng() % (rng() % 2 == 0 ? 4 : 30)));
    Draw(rng, line);
    ExpectEqual(line, Describe(line));
  }
}

// Of 1,000,000 micro-batches all but a few are counted: two stages of 1 and 2 us are bound by the
// second, which works without a pause once the first micro-batch came to it, after 1 us.
TEST(LineTimingTest, ManyMicroBatchesAreCounted) {
  LinePipeline line;
  line.stages = 2;
  line.microbatches = 1'000'000;
  line.in_flight = {2, 1};
  line.forward = {SimTime::FromUs(1), SimTime::FromUs(2)};
  line.backward = line.forward;
  // The first stage's last backward pass follows the second's.
  EXPECT_EQ(TimeLine(line).end, SimTime::FromUs(1 + 4e6 + 1));
}

}  // namespace
}  // namespace foretrace
