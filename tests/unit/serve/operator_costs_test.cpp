// Steps from measured operators.

#include "simulator/serve/operator_costs.h"

#include <gtest/gtest.h>

#include "simulator/serve/graph_step_model.h"
#include "simulator/serve/layer_kinds.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

// A second for whatever no table has.
class Unknown : public DeviceCosts {
 public:
  Estimate Kernel(const KernelWork&) const override { return One(); }
  Estimate Collective(CollectiveOp, int32_t, Bytes) const override { return One(); }
  Estimate Send(int32_t, Bytes) const override { return One(); }
  std::string Source() const override { return "nothing"; }

 private:
  static Estimate One() { return {SimTime::FromUs(1e6), EstimateSource::kAnalytic, false}; }
};

std::shared_ptr<const DeviceCosts> Costs(std::vector<OperatorTableText> tables) {
  const auto costs =
      WithOperatorTables(std::make_shared<Unknown>(), std::move(tables), DType::kBFloat16);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return costs.ok() ? *costs : nullptr;
}

double GemmUs(const DeviceCosts& costs, int64_t m, int64_t n, int64_t k) {
  KernelWork work;
  work.kind = KernelKind::kGemm;
  work.dtype = DType::kFloat16;
  work.m = m;
  work.n = n;
  work.k = k;
  return costs.Kernel(work).time.us();
}

// n 100 and 300, k 10 and 30, m 1 and 3: time = 1 us + m + n / 100 + k / 10.
TEST(OperatorCosts, GemmsLieBetweenMeasuredOnes) {
  std::string text = "gemm_dtype,n,k,m,latency_ms\nfp8,100,10,1,9\n";
  for (const int n : {100, 300}) {
    for (const int k : {10, 30}) {
      for (const int m : {1, 3}) {
        text +=
            fmt::format("bfloat16,{},{},{},{}\n", n, k, m, 1e-3 * (1 + m + n / 100.0 + k / 10.0));
      }
    }
  }
  const auto costs = Costs({{"gemm.csv", text}});
  EXPECT_NEAR(GemmUs(*costs, 1, 100, 10), 4, 1e-9);
  EXPECT_NEAR(GemmUs(*costs, 2, 100, 10), 5, 1e-9);
  EXPECT_NEAR(GemmUs(*costs, 1, 200, 30), 7, 1e-9);
  EXPECT_NEAR(GemmUs(*costs, 1, 100, 20), 5, 1e-9);
  EXPECT_NEAR(GemmUs(*costs, 1, 200, 20), 6, 1e-9);
  EXPECT_NEAR(GemmUs(*costs, 5, 100, 10), 8, 1e-9);    // along the last two
  EXPECT_NEAR(GemmUs(*costs, 1, 400, 10), 1e6, 1e-3);  // beyond what was measured
}

constexpr const char* kDecodes =
    "attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,head_dim,batch_size,step,latency_ms\n"
    "bfloat16,bfloat16,4,2,16,1,100,0.010\n"
    "bfloat16,bfloat16,4,2,16,1,300,0.030\n"
    "bfloat16,bfloat16,4,2,16,3,100,0.030\n"
    "bfloat16,bfloat16,4,2,16,3,300,0.090\n"
    "bfloat16,fp8,4,2,16,3,300,7\n"
    "bfloat16,bfloat16,8,4,16,1,100,0.018\n"
    "bfloat16,bfloat16,8,4,16,1,300,0.038\n";
// Powers of 1: 1 us a token, of 2 beyond 100 tokens.
constexpr const char* kPrompts =
    "attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,head_dim,batch_size,isl,latency_ms\n"
    "bfloat16,bfloat16,4,2,16,1,1,0.001\n"
    "bfloat16,bfloat16,4,2,16,1,100,0.1\n"
    "bfloat16,bfloat16,4,2,16,1,1000,10\n";

TEST(OperatorCosts, AttentionLiesBetweenMeasuredHeads) {
  const auto costs = Costs({{"decode.csv", kDecodes}, {"prompt.csv", kPrompts}});
  AttentionShape shape;
  shape.decode = true;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.depth = 16;
  shape.sequences = 2;
  shape.tokens = 200;
  EXPECT_NEAR(costs->Attention(shape)->time.us(), 40, 1e-9);
  shape.heads = 6;
  shape.kv_heads = 3;
  shape.sequences = 1;
  EXPECT_NEAR(costs->Attention(shape)->time.us(), 24, 1e-9);
  shape.heads = 16;
  shape.kv_heads = 8;
  EXPECT_FALSE(costs->Attention(shape).has_value());
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.decode = false;
  shape.tokens = 316.22776601683796;  // half way in powers
  EXPECT_NEAR(costs->Attention(shape)->time.us(), 1000, 1e-6);
  shape.window = 128;
  EXPECT_FALSE(costs->Attention(shape).has_value());
}

// Four layers of 4 heads of 16, 2 of keys. Two decodes with 99 and 299 tokens before: as two of 199
// cached. A prompt of 500 after 500: three quarters of the GEMMs of 1,000 less those of 500:
// pairs 500 x 500 + 500 x 501 / 2 of 1,000 x 1,001 / 2; a further one of 100, less a token's own.
TEST(OperatorCosts, StepsTakeThem) {
  TransformerConfig model;
  model.family = TransformerFamily::kLlama;
  model.hidden = 64;
  model.layers = 4;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn = 256;
  model.vocabulary = 1000;
  model.sequence = 4096;
  model.dtype = DType::kBFloat16;
  model = WithDefaults(model);
  const auto steps = MakeGraphStepModel(
      model, {}, SmallEngine(), Costs({{"decode.csv", kDecodes}, {"prompt.csv", kPrompts}}));
  const auto attention = [&](const StepBatch& batch) {
    return steps->Time(batch).parts[static_cast<size_t>(StepPart::kAttention)].us();
  };
  StepBatch batch;
  batch.AddDecode(99), batch.AddDecode(299);
  EXPECT_NEAR(attention(batch), 4 * 39.8, 1e-6);
  batch.Clear();
  batch.prefills = {{500, 500}, {100, 0}};
  const double share = (250'000 + 125'250) / 500'500.0;
  EXPECT_NEAR(attention(batch), 4 * (10'000 * share + 100 - 1), 1e-4);
}

// 2 of 8 experts: 20 us for 10 tokens each routed to two, measured even and of kernels with
// gates alone.
TEST(OperatorCosts, ExpertsAreWhole) {
  const std::string header =
      "kernel_source,moe_dtype,hidden_size,inter_size,num_experts,topk,moe_tp_size,moe_ep_size,"
      "distribution,num_tokens,latency_ms\n";
  const auto costs =
      Costs({{"moe.csv", header + "a,bfloat16,64,128,8,2,1,4,balanced,10,0.02\n"
                                  "a,bfloat16,64,128,8,2,1,4,balanced,30,0.04\n"
                                  "a,bfloat16,64,128,8,2,1,4,power_law_1.2,10,5\n"
                                  "a_nongated,bfloat16,64,128,8,2,1,4,balanced,10,5\n"}});
  EXPECT_NEAR(costs->Experts({64, 128, 8, 2, 1, 4, 20})->time.us(), 30, 1e-9);
  EXPECT_FALSE(costs->Experts({64, 128, 8, 2, 4, 1, 20}).has_value());
}

// Rows of the format that weights are stored in, beside those of the model's precision.
TEST(OperatorCosts, GemmsInTheWeightsFormat) {
  const auto costs = WithOperatorTables(
      std::make_shared<Unknown>(),
      {{"t.csv", "gemm_dtype,n,k,m,latency_ms\nbfloat16,64,32,8,2\nfp8_block,64,32,8,1\n"}},
      DType::kBFloat16, {WeightFormat::kFp8Block});
  ASSERT_TRUE(costs.ok()) << costs.status();
  KernelWork work;
  work.kind = KernelKind::kGemm;
  work.dtype = DType::kBFloat16;
  work.batch = 1, work.m = 8, work.n = 64, work.k = 32;
  EXPECT_EQ((*costs)->Kernel(work).time, SimTime::FromUs(2000));
  EXPECT_EQ((*costs)->Gemm(work, WeightFormat::kFp8Block)->time, SimTime::FromUs(1000));
  EXPECT_FALSE((*costs)->Gemm(work, WeightFormat::kInt4));
}

TEST(OperatorCosts, MistakesAreNamed) {
  const auto message = [](const std::string& text) {
    const auto costs =
        WithOperatorTables(std::make_shared<Unknown>(), {{"t.csv", text}}, DType::kBFloat16);
    return costs.ok() ? "" : std::string(costs.status().message());
  };
  EXPECT_EQ(message("a,b\n1,2\n"), "t.csv:1: is no table of operators");
  EXPECT_EQ(message("gemm_dtype,n,k,m,latency_ms\nfp8,1,1,1,1\n"),
            "t.csv: has no row in the model's precision, bfloat16");
  EXPECT_NE(message("gemm_dtype,n,k,m,latency_ms\nbfloat16,1,1,x,1\n").find("t.csv:2"),
            std::string::npos);
  EXPECT_EQ(message("gemm_dtype,n,k,m,latency_ms\nbfloat16,1,1,1.5,1\n"),
            "t.csv:2: m '1.5' is not a whole number");
  EXPECT_EQ(
      message("attn_dtype,kv_cache_dtype,num_heads,batch_size,isl,latency_ms\n"
              "bfloat16,bfloat16,4,1,1,0.001\n"),
      "t.csv:1: the header has no column 'num_key_value_heads'; needed are attn_dtype, "
      "kv_cache_dtype, num_heads, batch_size, isl, latency_ms, num_key_value_heads, head_dim");
  // Behind provenance the line is still the file's.
  EXPECT_EQ(message("# source: a\n# licence: b\n"
                    "attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,isl,latency_ms\n"
                    "bfloat16,bfloat16,4,4,1,0.001\n")
                .find("t.csv:3: the header has no column 'batch_size'"),
            0u);
}

}  // namespace
}  // namespace foretrace::serve
