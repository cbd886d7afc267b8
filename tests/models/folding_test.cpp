// The folded evaluator of searches equals the engine's replay of the generated traces, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "simulator/engine/replay.h"
#include "simulator/mapping/trace_generation.h"

namespace foretrace {
namespace {

TEST(FoldingTest, EqualsReplayOfGeneratedTraces) {
  TransformerConfig model;
  model.hidden = 512;
  model.layers = 8;
  model.heads = 8;
  model.vocabulary = 1000;
  model.sequence = 128;
  std::mt19937 rng(5);
  int compared = 0;
  for (int round = 0; round < 400 && compared < 40; ++round) {
    ParallelMapping m;
    m.tensor = 1 << rng() % 3;
    m.pipeline = 1 << rng() % 3;
    m.data = 1 << rng() % 2;
    m.chunks = 1 + static_cast<int32_t>(rng() % 2);
    m.micro_batch = 1 + static_cast<int32_t>(rng() % 2);
    m.global_batch = m.data * m.micro_batch * 4 * (1 + static_cast<int32_t>(rng() % 6));
    m.recompute = static_cast<Recompute>(rng() % 3);
    m.sequence_parallel = rng() % 2 == 0;
    const ScheduleKind schedules[] = {ScheduleKind::k1F1B, ScheduleKind::kGPipe, ScheduleKind::kKFKB,
                                      ScheduleKind::kZeroBubbleH1};
    m.schedule = schedules[rng() % 4];
    if (m.schedule == ScheduleKind::kKFKB) m.k = 1 << rng() % 3;
    m.context = 1 << rng() % 2;
    m.zero = static_cast<int32_t>(rng() % 4);
    m.overlap_gradients = rng() % 2 == 0;
    model.experts = rng() % 2 == 0 ? 8 : 0;
    model.top_k = model.experts > 0 ? 2 : 0;
    if (model.experts > 0) m.expert = 1 << rng() % 2;
    const auto folded = EstimateIteration(model, m, {});
    if (!folded.ok()) continue;
    ++compared;
    auto traces = GenerateTraces(model, m, folded->passes, {});
    ASSERT_TRUE(traces.ok()) << traces.status();
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
    for (auto& t : *traces) {
      EXPECT_TRUE(t.diagnostics.empty());
      ranks.emplace_back(std::move(t.trace), std::move(t.strings));
    }
    const auto store = TraceStore::Assemble(std::move(ranks), {});
    ASSERT_TRUE(store.ok()) << store.status();
    const auto prediction = Predict(*store, {}, nullptr);
    ASSERT_TRUE(prediction.ok()) << ToString(m) << ": " << prediction.status();
    SimTime end;
    for (const auto& rank : prediction->ranks) {
      end = std::max(end, rank.iterations.back().predicted_end);
    }
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " " << Name(m.schedule);
  }
  EXPECT_EQ(compared, 40);
}

}  // namespace
}  // namespace foretrace
