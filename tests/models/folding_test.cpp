// The folded evaluator of searches equals the engine's replay of the generated traces, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "simulator/engine/replay.h"
#include "simulator/mapping/trace_generation.h"

namespace foretrace {
namespace {

// Durations as the iteration model has them.
class GivenNetwork : public NetworkModel {
 public:
  explicit GivenNetwork(const PassTimes& passes) : passes_(passes) {}
  std::string_view name() const override { return "given"; }
  bool contends() const override { return false; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override {
    SimTime time = passes_.tensor_reduction;
    if (spec.point_to_point) {
      time = passes_.transfer;
    } else if (spec.bytes == passes_.gradient_bytes) {
      time = passes_.gradient_reduction;
    }
    return Estimate{time, EstimateSource::kAnalytic, false};
  }
  absl::StatusOr<TransferHandle> Start(const TransferSpec&, SimTime) override {
    return absl::UnimplementedError("does not contend");
  }
  absl::StatusOr<std::optional<Completion>> Next(SimTime) override { return std::nullopt; }

 private:
  PassTimes passes_;
};

TEST(FoldingTest, EqualsReplayOfGeneratedTraces) {
  TransformerConfig model;
  model.hidden = 512;
  model.layers = 8;
  model.heads = 8;
  model.vocabulary = 1000;
  model.sequence = 128;
  std::mt19937 rng(5);
  int compared = 0;
  for (int round = 0; round < 200 && compared < 25; ++round) {
    ParallelMapping m;
    m.tensor = 1 << rng() % 3;
    m.pipeline = 1 << rng() % 3;
    m.data = 1 << rng() % 2;
    m.chunks = 1 + static_cast<int32_t>(rng() % 2);
    m.micro_batch = 1 + static_cast<int32_t>(rng() % 2);
    m.global_batch = m.data * m.micro_batch * 4 * (1 + static_cast<int32_t>(rng() % 2));
    m.recompute = static_cast<Recompute>(rng() % 3);
    m.sequence_parallel = rng() % 2 == 0;
    m.schedule = rng() % 4 == 0 ? ScheduleKind::kGPipe : ScheduleKind::k1F1B;
    const auto folded = EstimateIteration(model, m, {});
    if (!folded.ok()) continue;
    ++compared;
    auto traces = GenerateTraces(model, m, folded->passes);
    ASSERT_TRUE(traces.ok()) << traces.status();
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
    for (auto& t : *traces) {
      EXPECT_TRUE(t.diagnostics.empty());
      ranks.emplace_back(std::move(t.trace), std::move(t.strings));
    }
    const auto store = TraceStore::Assemble(std::move(ranks), {});
    ASSERT_TRUE(store.ok()) << store.status();
    GivenNetwork network(folded->passes);
    const auto prediction = Predict(*store, {}, &network);
    ASSERT_TRUE(prediction.ok()) << ToString(m) << ": " << prediction.status();
    SimTime end;
    for (const auto& rank : prediction->ranks) {
      end = std::max(end, rank.iterations.back().predicted_end);
    }
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " " << Name(m.schedule);
  }
  EXPECT_EQ(compared, 25);
}

}  // namespace
}  // namespace foretrace
