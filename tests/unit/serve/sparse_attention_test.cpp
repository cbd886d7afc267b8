// Sparse attention by hand: a microsecond for each byte of a stream and each FLOP of a GEMM.
#include <gtest/gtest.h>

#include "simulator/serve/graph_step_model.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/sparse_attention.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

// One layer of 16 heads over latents of 512 elements and 64 rotated; two keys of a token chosen by
// 4 heads of 8, whose keys take 8 bytes and a scale of 4.
TransformerConfig Sparse(int64_t keys) {
  TransformerConfig c;
  c.name = "small";
  c.family = TransformerFamily::kLlama;
  c.hidden = 64;
  c.layers = 1;
  c.heads = c.kv_heads = 16;
  c.head_size = 192;
  c.rotary_size = 64;
  c.value_size = 128;
  c.latent = 512;
  c.query_latent = 32;
  c.index_heads = 4;
  c.index_size = 8;
  c.index_keys = keys;
  c.ffn = 256;
  c.vocabulary = 1000;
  c.sequence = 4096;
  c.dtype = DType::kBFloat16;
  return WithDefaults(c);
}

double Attention(const TransformerConfig& model, const StepBatch& batch, int32_t kv_width = 2,
                 int32_t tensor = 1) {
  EngineConfig engine = SmallEngine();
  engine.kv_cache_width = kv_width;
  ServingPlan plan;
  plan.tensor = tensor;
  StepTime time;
  SparseAttention(model, plan, engine, std::make_shared<CountingCosts>()).Add(batch, time);
  return Part(time, StepPart::kAttention);
}

// Four tokens have 10 pairs, of which two keys each leave 1 + 3 x 2 = 7.
// Scores: attention of 4 heads over 4 tokens and 10 / 4 = 2 keys of half of 8 elements, 4 x 4 x 4 x
// 2 x 4 = 512, more than 4 x 12 + 4 x 4 x 12 + 10 x 4 = 280 bytes. What chooses reads 80 and writes
// 28. Latents of 4 tokens (1,152 bytes), queries and results of 64 heads, to which 16 are filled up
// (4 x 64 x (1,152 + 1,024)), are more than 2 x 256 x 1 x 1,088 FLOP.
TEST(SparseAttentionTest, Prompt) {
  StepBatch batch;
  batch.prefills = {{.tokens = 4, .cached = 0}};
  const double latents = 4 * 1152 + 4 * 64 * (1152 + 1024);
  ASSERT_GT(latents, 2 * 256 * 1088);
  EXPECT_NEAR(Attention(Sparse(2), batch), 512 + 80 + 28 + latents, 1e-6);
  EXPECT_NEAR(Attention(Sparse(2), batch, 2, 4), 512 + 80 + 28 + latents, 1e-6);
}

// Sequences of 11 and 3,001 tokens, their own included: 3,012 keys, of which 11 + 1,000 are chosen.
// Scores read these of 12 bytes and two tokens' queries of 4 x 12, and write 4 bytes each; what
// chooses reads 8 and writes 4 of the chosen. The GEMM of 2 x 64 rows, 1,011 / 2 = 505 latents and
// 576 + 512 elements takes longest; over 8 bits 640 / 410 times as long.
TEST(SparseAttentionTest, Decodes) {
  StepBatch batch;
  batch.AddDecode(10);
  batch.AddDecode(3000);
  const double scores = 3012 * 12 + 2 * 4 * 12 + 4 * 3012, choose = 8 * 3012 + 4 * 1011;
  const double gemm = 2.0 * 128 * 505 * 1088;
  EXPECT_NEAR(Attention(Sparse(1000), batch), scores + choose + gemm, 1e-3);
  EXPECT_NEAR(Attention(Sparse(1000), batch, 1), scores + choose + gemm * 640 / 410, 1);
}

// Beyond what is chosen attention takes no longer, but for scores.
TEST(SparseAttentionTest, LongerSequencesTakeScoresAlone) {
  StepBatch of_4000, of_8000;
  of_4000.AddDecode(3999);
  of_8000.AddDecode(7999);
  EXPECT_NEAR(Attention(Sparse(1000), of_8000) - Attention(Sparse(1000), of_4000),
              4000 * (12 + 4 + 8), 1e-3);
}

// 576 elements of 2 bytes; or 512 of 8 bits with 4 scales and 64 in 16 bits, 656 as published; and
// a key of the index.
TEST(SparseAttentionTest, CacheOfAToken) {
  TransformerConfig model = Sparse(2048);
  model.index_size = 128;
  EXPECT_EQ(CacheBytes(model, 8, 2), 1152 + 132);
  EXPECT_EQ(CacheBytes(model, 1, 1), 656 + 132);
  model.index_heads = model.index_size = model.index_keys = 0;
  EXPECT_EQ(CacheBytes(model, 1, 1), 576);
}

// Queries of prompts go through the keys' matrix, and results through the values', head by head, as
// those of decodes do; cached tokens have no keys and values to be made again.
TEST(SparseAttentionTest, PromptsAttendToLatents) {
  StepBatch batch;
  batch.prefills = {{.tokens = 4, .cached = 100}};
  EngineConfig engine = SmallEngine();
  const auto dense = [&](const TransformerConfig& model) {
    const auto step =
        MakeGraphStepModel(model, ServingPlan(), engine, std::make_shared<CountingCosts>());
    return Part(step->Time(batch), StepPart::kDense);
  };
  TransformerConfig all = Sparse(2048);
  all.index_heads = all.index_size = all.index_keys = 0;
  // Of the index: queries from 32, a key and 4 weights from 64 elements; rotated 4 x (32 + 8)
  // elements, and a normalised key.
  const double latents = 2.0 * 16 * 4 * 512 * (128 + 128);
  const double made = 2.0 * 104 * 16 * (128 + 128) * 512;
  const double index = 2.0 * 4 * (32 * 32 + 64 * 8 + 64 * 4);
  EXPECT_NEAR(dense(Sparse(2048)) - dense(all), latents - made + index, 2000);
}

}  // namespace
}  // namespace foretrace::serve
