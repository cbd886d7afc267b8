// Published studies and their closed forms.

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/serve/cache_parallelism.h"
#include "simulator/serve/deployment_search.h"
#include "simulator/serve/pipelined_decode.h"
#include "simulator/serve/speculation.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

// Scores 0 and ln 2 over values 1 and 4: maximum ln 2, sum 1/2 + 1, mean (1/2 * 1 + 4) / 1.5 = 3.
// Score ln 3 over 8. Together (1 * 1 + 2 * 4 + 3 * 8) / 6 = 5.5.
TEST(CacheParallelism, PartsMergeExactly) {
  const double ln2 = std::log(2.0), ln3 = std::log(3.0);
  const std::vector<double> a_scores = {0, ln2}, b_scores = {ln3};
  const std::vector<std::vector<double>> a_values = {{1}, {4}}, b_values = {{8}};
  const std::vector<PartialAttention> parts = {Attend(a_scores, a_values),
                                               Attend(b_scores, b_values)};
  EXPECT_DOUBLE_EQ(parts[0].maximum, ln2);
  EXPECT_DOUBLE_EQ(parts[0].sum, 1.5);
  EXPECT_DOUBLE_EQ(parts[0].output[0], 3);
  const PartialAttention all = Merge(parts);
  EXPECT_NEAR(all.output[0], 5.5, 1e-14);
  EXPECT_NEAR(all.sum, 2, 1e-14);  // 6 relative to the maximum of 3
  // A device without positions of the sequence changes nothing.
  EXPECT_NEAR(Merge(std::vector<PartialAttention>{parts[0], {}, parts[1]}).output[0], 5.5, 1e-14);
}

// B = 128, E = 4096, H = 32. Tensor, total: 4 (N - 1) B E = 12 * 524,288 for N = 4. Cache, a GPU:
// 3 B E 3/4 + B (E + 64) 3/4 = 1,179,648 + 399,360.
TEST(CacheParallelism, VolumesOfBothForms) {
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kThesis, 128, 4096, 4), 6291456);
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kThesis, 128, 4096, 8), 14680064);
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kPerGpu, 128, 4096, 4), 1572864);
  EXPECT_DOUBLE_EQ(TensorVolume(VolumeForm::kPerGpu, 128, 4096, 8), 1835008);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kThesis, 128, 4096, 32, 4), 1978368);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kThesis, 128, 4096, 32, 8), 3239936);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kPerGpu, 128, 4096, 32, 4), 1579008);
  EXPECT_DOUBLE_EQ(CacheVolume(VolumeForm::kPerGpu, 128, 4096, 32, 8), 1842176);
  // On one basis no advantage: 1 + H / (2 E).
  EXPECT_NEAR(CacheVolume(VolumeForm::kPerGpu, 128, 4096, 32, 4) /
                  TensorVolume(VolumeForm::kPerGpu, 128, 4096, 4),
              1 + 32.0 / 8192, 1e-12);
}

// Kernels at a memory bandwidth of 768 GB/s and 100 TFLOP/s, transfers at 56 GB/s and 10 us.
class A5000Costs : public DeviceCosts {
 public:
  Estimate Kernel(const KernelWork& work) const override {
    const double us =
        std::max(static_cast<double>(work.total_bytes()) / 768e3, work.flop.count() / 100e6);
    return {SimTime::FromUs(2 + us), EstimateSource::kAnalytic, false};
  }
  Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    const double share = (ranks - 1.0) / ranks * (op == CollectiveOp::kAllReduce ? 2 : 1);
    return {SimTime::FromUs(10 + share * static_cast<double>(bytes.count()) / 56e3),
            EstimateSource::kAnalytic, false};
  }
  Estimate Send(int32_t, Bytes) const override { return {}; }
  std::string Source() const override { return "test"; }
};

DecodeScenario LongContext(int64_t batch, int64_t context) {
  DecodeScenario s;
  s.model.family = TransformerFamily::kLlama;
  s.model.hidden = 4096;
  s.model.layers = 1;
  s.model.heads = 32;
  s.model.ffn = 11008;
  s.model.vocabulary = 32000;
  s.model.sequence = 4096;
  s.model = WithDefaults(s.model);
  s.max_batch = batch;
  s.context = context;
  s.spread = 0.3;
  s.kv_memory = Bytes(int64_t{20} << 30);
  s.host_bandwidth = Bandwidth::GBps(25);
  s.table_us_per_1000_blocks = 10;
  s.host_us = 100;
  return s;
}

// Sections 4.5.2 to 4.5.4: over long contexts cache parallelism has the highest throughput and data
// parallelism the lowest; the host's part is largest of data, smallest of cache parallelism;
// compute is nearly equal; past some batch sequences are evicted and the throughput falls.
TEST(CacheParallelism, TrendsOfTheEvaluation) {
  const A5000Costs costs;
  for (const int64_t context : {20'000, 40'000, 80'000}) {
    const DecodeScenario s = LongContext(128, context);
    const DecodeStep cache = DecodeLayer(s, DecodeParallelism::kCache, costs);
    const DecodeStep data = DecodeLayer(s, DecodeParallelism::kData, costs);
    const DecodeStep tensor = DecodeLayer(s, DecodeParallelism::kTensor, costs);
    EXPECT_GE(cache.tokens_per_s(), tensor.tokens_per_s()) << context;
    EXPECT_GT(tensor.tokens_per_s(), data.tokens_per_s()) << context;
    EXPECT_GT(tensor.host_us, cache.host_us);
    EXPECT_NEAR(cache.compute_us / tensor.compute_us, 1, 0.15);
    EXPECT_EQ(data.communication_us, 0);
  }
  const auto throughput = [&](int64_t batch) {
    return DecodeLayer(LongContext(batch, 40'000), DecodeParallelism::kCache, costs).tokens_per_s();
  };
  EXPECT_GT(throughput(64), throughput(8));
  EXPECT_LT(throughput(512), throughput(64));
  const DecodeScenario evicting = LongContext(512, 40'000);
  EXPECT_GT(DecodeLayer(evicting, DecodeParallelism::kData, costs).host_us,
            DecodeLayer(evicting, DecodeParallelism::kTensor, costs).host_us);
}

// Llama3 8B (as that study has it) on 16 SN40L: 1,188 tokens/s with 16-way tensor parallelism, of
// which 1,100 were measured. 13 h^2 weights over 1638.4 GB/s and 16 devices: 16,640 ns; 60 hops of
// 150 ns; 60/16 of 8,192 bytes over 50 GB/s: 614.4 ns.
TEST(DataflowDecode, LlamaOnSixteenDevices) {
  DataflowDecode d;
  d.weights = 13 * 4096 * 4096;
  d.context = 4097;
  d.tensor = 16;
  d.rate = FlopRate::PerSecond(0.9 * 638976.0095214844e9);
  d.memory = Bandwidth::GBps(1638.4000244140625);
  d.link = Bandwidth::GBps(50);
  d.hop = SimTime::FromNs(150);
  const DecodeTerms t = TermsOf(d);
  EXPECT_NEAR(t.memory_us, 16.63999975, 1e-6);
  EXPECT_NEAR(t.latency_us, 9, 1e-12);
  EXPECT_NEAR(t.serialisation_us, 0.6144, 1e-12);
  EXPECT_NEAR(t.compute_us, 0.05478, 1e-4);  // vector operations left out
  EXPECT_NEAR(1e6 / StepUs(d), 1188, 1);
  EXPECT_NEAR(1e6 / StepUs(d) / 1100, 1.08, 0.001);
  // Two stages of eight: 1,221,385 ns, of which 170 from stage to stage.
  d.tensor = 8;
  d.pipeline = 2;
  EXPECT_NEAR(StepUs(d), 1221.385, 0.01);
}

// Four tokens of which each is right with 0.8: 1 + 0.8 + 0.64 + 0.512 + 0.4096.
TEST(Speculation, TokensOfAStep) {
  Speculation s = {DraftShape::kSequence, 4, 1, {0.8}};
  EXPECT_NEAR(s.TokensPerStep(), 3.3616, 1e-12);
  EXPECT_EQ(s.CheckedTokens(), 5);
  // Two candidates a position: 1 - 0.2^2 = 0.96; 1 + 2 + 4 + 8 + 16 tokens are checked.
  s = {DraftShape::kTree, 4, 2, {0.8}};
  EXPECT_NEAR(s.TokensPerStep(), 1 + 0.96 + 0.9216 + 0.884736 + 0.84934656, 1e-12);
  EXPECT_EQ(s.CheckedTokens(), 31);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) sum += s.Draw(static_cast<uint64_t>(i), 7);
  EXPECT_NEAR(sum / 20000, s.TokensPerStep(), 0.03);
  s.window = 40;
  EXPECT_FALSE(s.Validate().ok());
}

// Figure 21: Llama 3 405B with drafts of 68M, 8B and 70B; seconds a step on 16 SN40L.
TEST(Speculation, DraftsOfFigure21) {
  constexpr double k68m = 8.11989204987616e-05, k8b = 8.427357845295114e-04,
                   k70b = 5.754436341044073e-03, k405b = 3.15072690736469e-02;
  const double plain = 1 / k405b;
  for (int32_t window = 1; window < 8; ++window) {
    for (const double right : {0.5, 0.7, 0.9}) {
      for (const double draft : {k68m, k8b}) {
        EXPECT_GT(SequenceRate(window + 1, right, draft, k405b),
                  SequenceRate(window, right, draft, k405b));
        EXPECT_GT(SequenceRate(window, right + 0.05, draft, k405b),
                  SequenceRate(window, right, draft, k405b));
      }
      EXPECT_GT(SequenceRate(window, right, k8b, k405b), SequenceRate(window, right, k70b, k405b));
    }
  }
  // A tree of the smallest draft pays while it is short; of larger ones it soon costs more.
  EXPECT_GT(TreeRate(4, 2, 0.7, k68m, k405b), SequenceRate(4, 0.7, k68m, k405b));
  EXPECT_LT(TreeRate(10, 2, 0.7, k68m, k405b), TreeRate(5, 2, 0.7, k68m, k405b));
  EXPECT_LT(TreeRate(4, 2, 0.7, k70b, k405b), plain);
}

// One request a second of 100 tokens and 10, on engines of 1 and of 4 devices.
TEST(DeploymentSearch, TheBestIsFirst) {
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(At(100 * i, 100, 10));
  const RequestTrace trace = TraceOf(requests);
  ServingPlan one, four;
  four.tensor = 4;
  const std::vector<Candidate> candidates = {{one, 1, 0, 4, 64}, {four, 1, 0, 4, 64}};
  const auto deploy = [](const Candidate& c) -> absl::StatusOr<Deployment> {
    return DeploymentOf(SmallEngine(), 20000.0 / c.plan.tensor, 0);
  };
  ServiceLevel level;
  level.tpot = 0.01;
  const auto outcome =
      SearchDeployments(trace, candidates, deploy, level, [](size_t) { return true; });
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ranked.front().candidate.plan.tensor, 4);
  EXPECT_DOUBLE_EQ(outcome->ranked.front().summary.met_share, 1);
  EXPECT_DOUBLE_EQ(outcome->ranked.back().summary.met_share, 0);
  EXPECT_TRUE(outcome->ranked.front().pareto);  // faster for each user
}

}  // namespace
}  // namespace foretrace::serve
