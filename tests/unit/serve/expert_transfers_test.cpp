#include "simulator/serve/expert_transfers.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "simulator/serve/engine_config.h"
#include "simulator/serve/graph_step_model.h"

namespace foretrace::serve {
namespace {

// 64 experts of which a token goes to 4, in two of eight groups; 128 values of two bytes.
TransformerConfig Experts() {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 128;
  c.layers = 1;
  c.heads = 4;
  c.kv_heads = 4;
  c.ffn = 64;
  c.experts = 64;
  c.top_k = 4;
  c.expert_groups = 8;
  c.chosen_groups = 2;
  c.vocabulary = 1000;
  c.sequence = 256;
  c.dtype = DType::kBFloat16;
  c.expert_weights = WeightFormat::kFp8Block;
  return WithDefaults(c);
}

// Remembers what it was asked.
class AskedCosts : public DeviceCosts {
 public:
  explicit AskedCosts(bool deep = true) : deep_(deep) {}
  Estimate Kernel(const KernelWork&) const override { return One(); }
  Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    if (op != CollectiveOp::kAllReduce) collectives.push_back({op, ranks, bytes.count()});
    return One();
  }
  std::optional<Estimate> ExpertTransfer(const ExpertExchange& x) const override {
    if (!deep_) return std::nullopt;
    exchanges.push_back(x);
    return One();
  }
  Estimate Send(int32_t, Bytes) const override { return One(); }
  std::string Source() const override { return "asked"; }

  struct Asked {
    CollectiveOp op;
    int32_t ranks;
    int64_t bytes;
    bool operator==(const Asked&) const = default;
  };
  mutable std::vector<Asked> collectives;
  mutable std::vector<ExpertExchange> exchanges;

 private:
  static Estimate One() { return {SimTime::FromUs(1), EstimateSource::kAnalytic, false}; }
  bool deep_;
};

ServingPlan Plan(const char* text) { return *ParseServingPlan(text); }
ExpertTransfers By(const char* name) {
  ExpertTransfers transfers;
  EXPECT_TRUE(SetExpertTransfers(name, transfers));
  return transfers;
}

// Eight replicas of 10 tokens: 80 tokens of 128 values and 64 logits of two bytes are gathered, and
// 80 of 128 values summed and scattered; or each rank's 10 tokens go to 4 experts each.
TEST(ExpertTransfers, CollectivesOfAllTokensOrOfCopies) {
  const AskedCosts gather, each;
  const ServingPlan plan = Plan("dp8 ep");
  TransferTimes(Experts(), plan, By("allgather"), gather, {10, 80}, true);
  EXPECT_EQ(gather.collectives,
            (std::vector<AskedCosts::Asked>{{CollectiveOp::kAllGather, 8, 80 * (128 + 64) * 2},
                                            {CollectiveOp::kReduceScatter, 8, 80 * 128 * 2}}));
  TransferTimes(Experts(), plan, By("alltoall"), each, {10, 80}, true);
  EXPECT_EQ(each.collectives,
            (std::vector<AskedCosts::Asked>{{CollectiveOp::kAllToAll, 8, 10 * 4 * 128 * 2}}));
}

// Out in 8 bits with a float for 128 values, back in two bytes; each of the two ranks of a replica
// sends half of its 10 tokens.
TEST(ExpertTransfers, DeepEpByPhase) {
  const AskedCosts costs;
  TransferTimes(Experts(), Plan("tp2 dp4 ep"), By("deepep"), costs, {10, 40}, true);
  TransferTimes(Experts(), Plan("tp2 dp4 ep"), By("deepep"), costs, {10, 40}, false);
  ASSERT_EQ(costs.exchanges.size(), 4u);
  const auto& prompts = costs.exchanges[0];
  EXPECT_EQ(prompts.algorithm, ExpertAlgorithm::kDeduplicated);
  EXPECT_EQ(prompts.direction, ExpertDirection::kDispatch);
  EXPECT_EQ(prompts.routing.ranks, 8);
  EXPECT_EQ(prompts.routing.groups_of_token, 2);
  EXPECT_EQ(prompts.tokens, 5);
  EXPECT_EQ(prompts.token_bytes, RealBytes(128 + 4));
  EXPECT_EQ(costs.exchanges[1].token_bytes, RealBytes(256));
  EXPECT_EQ(costs.exchanges[2].algorithm, ExpertAlgorithm::kDirect);
  TransformerConfig wide = Experts();
  wide.expert_weights = WeightFormat::kModel;
  TransferTimes(wide, Plan("dp8 ep"), By("deepep-normal"), costs, {10, 40}, false);
  EXPECT_EQ(costs.exchanges[4].token_bytes, RealBytes(256));
  EXPECT_EQ(costs.exchanges[4].algorithm, ExpertAlgorithm::kDeduplicated);
}

// Ranks of one replica sum what their experts make; with DeepEP they send.
TEST(ExpertTransfers, WhoSends) {
  const TransformerConfig model = Experts();
  EXPECT_FALSE(SendsTokens(model, Plan("tp8 ep"), ExpertAlgorithm::kAllGather));
  EXPECT_TRUE(SendsTokens(model, Plan("tp8 ep"), ExpertAlgorithm::kDirect));
  EXPECT_TRUE(SendsTokens(model, Plan("tp2 dp4 ep"), ExpertAlgorithm::kAllToAll));
  EXPECT_FALSE(SendsTokens(model, Plan("dp8"), ExpertAlgorithm::kDirect));
}

TEST(ExpertTransfers, DeepEpNeedsLinks) {
  const AskedCosts without(false);
  EXPECT_TRUE(CheckExpertTransfers(Experts(), Plan("dp8 ep"), By("allgather"), without).ok());
  const absl::Status status =
      CheckExpertTransfers(Experts(), Plan("dp8 ep"), By("deepep"), without);
  EXPECT_NE(status.message().find("NVLinks"), std::string::npos) << status;
}

// A step with a prompt and one without are timed each by its own algorithm, whichever comes first.
TEST(ExpertTransfers, StepsByWhatTheyHold) {
  const auto costs = std::make_shared<AskedCosts>();
  EngineConfig engine;
  engine.name = "test";
  engine.experts = By("deepep");
  const auto steps = MakeGraphStepModel(Experts(), Plan("dp8 ep"), engine, costs);
  StepBatch decodes, prompt;
  for (int i = 0; i < 8; ++i) decodes.AddDecode(10);
  prompt.prefills.push_back({8, 0});
  steps->Time(decodes);
  steps->Time(prompt);
  ASSERT_EQ(costs->exchanges.size(), 4u);
  EXPECT_EQ(costs->exchanges[0].algorithm, ExpertAlgorithm::kDirect);
  EXPECT_EQ(costs->exchanges[2].algorithm, ExpertAlgorithm::kDeduplicated);
}

TEST(ExpertTransfers, EnginesGatherUnlessTold) {
  for (const char* name : {"vllm-0.19", "sglang-0.5"}) {
    const auto engine = LoadEngine(name);
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(engine->experts.prompts, ExpertAlgorithm::kAllGather);
    EXPECT_EQ(engine->experts.decodes, ExpertAlgorithm::kAllGather);
  }
}

// One rank with 8 tokens beside seven with one each: 15 tokens are gathered, not 8 on every rank.
// Dense models have no peers: a prompt of 8 takes the same on one of eight ranks as alone.
TEST(ExpertTransfers, TokensOfTheOtherRanks) {
  class Flops : public AskedCosts {
   public:
    Estimate Kernel(const KernelWork& work) const override {
      return {SimTime::FromUs(work.flop.count()), EstimateSource::kAnalytic, false};
    }
  };
  const auto costs = std::make_shared<Flops>();
  EngineConfig engine;
  engine.experts = By("allgather");
  StepBatch prompt;
  prompt.prefills.push_back({8, 0});
  prompt.peer_tokens.assign(7, 1);
  MakeGraphStepModel(Experts(), Plan("dp8 ep"), engine, costs)->Time(prompt);
  ASSERT_FALSE(costs->collectives.empty());
  EXPECT_EQ(costs->collectives.front(),
            (AskedCosts::Asked{CollectiveOp::kAllGather, 8, 15 * (128 + 64) * 2}));
  TransformerConfig dense = Experts();
  dense.experts = dense.top_k = dense.expert_groups = dense.chosen_groups = 0;
  prompt.peer_tokens.clear();
  EXPECT_EQ(MakeGraphStepModel(dense, Plan("dp8"), engine, costs)->Time(prompt).us(),
            MakeGraphStepModel(dense, Plan("tp1"), engine, costs)->Time(prompt).us());
}

}  // namespace
}  // namespace foretrace::serve
