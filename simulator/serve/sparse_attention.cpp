#include "simulator/serve/sparse_attention.h"

#include <algorithm>

#include "simulator/base/real_sizes.h"
#include "simulator/serve/attention_window.h"
#include "simulator/serve/layer_kinds.h"

namespace foretrace::serve {
namespace {

// Kernels of it take whole blocks of so many heads (deepseek-ai/FlashMLA, README: H in {64, 128}),
// to which vLLM fills up a rank's (vllm/v1/attention/backends/mla/flashmla_sparse.py).
constexpr int64_t kHeadBlock = 64;
// Decodes bring latents of 8 bits to 16 on the way: 410 TFLOP/s on an H800, prompts 640 (as above).
constexpr double kUnpacking = 640.0 / 410;
// A score of each pair.
constexpr int64_t kScoreBytes = 4;

}  // namespace

SparseAttention::SparseAttention(const TransformerConfig& model, const ServingPlan& plan,
                                 const EngineConfig& engine,
                                 std::shared_ptr<const DeviceCosts> costs)
    : model_(model),
      costs_(std::move(costs)),
      width_(ElementSize(model.dtype)),
      kv_width_(engine.kv_cache_width > 0 ? engine.kv_cache_width : width_),
      heads_((model.heads / plan.tensor + kHeadBlock - 1) / kHeadBlock * kHeadBlock),
      launch_gap_(engine.launch_gap()) {}

void SparseAttention::Add(const StepBatch& batch, StepTime& time) const {
  const AttentionWindow all, chosen{model_.index_keys};
  for (const PrefillChunk& chunk : batch.prefills) {
    AddLayers({chunk.tokens, int64_t{chunk.cached} + chunk.tokens,
               all.Pairs(chunk.cached, chunk.tokens), chosen.Pairs(chunk.cached, chunk.tokens)},
              time);
  }
  if (batch.decodes == 0) return;
  const int64_t each = batch.tokens_per_decode;
  const int64_t keys = batch.DecodeCached(all) + batch.decodes;
  AddLayers({batch.decodes * each, keys, keys * each,
             (batch.DecodeCached(chosen) + batch.decodes) * each, true},
            time);
}

KernelWork SparseAttention::Stream(int64_t read, int64_t written) const {
  KernelWork work;
  work.kind = KernelKind::kElementwise;
  work.dtype = model_.dtype;
  work.read = Bytes(read);
  work.written = Bytes(written);
  return work;
}

void SparseAttention::AddKernel(const Estimate& e, const KernelWork& work, StepTime& time) const {
  const auto layers = static_cast<double>(model_.layers);
  time.Add(StepPart::kAttention, RealUs((e.time + launch_gap_).us() * layers), e.source,
           e.extrapolated);
  time.joules +=
      layers * costs_->JoulesAboveIdle(model_.dtype, work.flop, Bytes(work.total_bytes()), e.time);
}

void SparseAttention::AddLayers(const Pairs& pairs, StepTime& time) const {
  KernelWork work;
  const Estimate scores = Scores(pairs, work);
  AddKernel(scores, work, time);
  const KernelWork choose = Stream(2 * kScoreBytes * pairs.all, kScoreBytes * pairs.chosen);
  AddKernel(costs_->Kernel(choose), choose, time);
  const Estimate attends = Attend(pairs, work);
  AddKernel(attends, work, time);
}

// One kernel over keys of 8 bits (DeepGEMM's fp8_mqa_logits): a GEMM for each head whose results
// are cut off at zero, weighted and added up. Of prompts as long as attention whose two GEMMs are
// as much, by half where the device multiplies 8 bits; of decodes keys stream by once.
Estimate SparseAttention::Scores(const Pairs& pairs, KernelWork& work) const {
  const int64_t key = IndexBytes(model_), heads = model_.index_heads;
  work = Stream(pairs.keys * key + pairs.tokens * heads * key, kScoreBytes * pairs.all);
  const Estimate memory = costs_->Kernel(work);
  work.flop = Flop(2.0 * AsDouble(heads) * AsDouble(model_.index_size) * AsDouble(pairs.all));
  if (pairs.decode) return memory;
  const AttentionOp op = {
      .b = 1,
      .heads = heads,
      .kv_heads = 1,
      .sq = pairs.tokens,
      .skv = std::max<int64_t>(pairs.all / std::max<int64_t>(pairs.tokens, 1), 1),
      .d = std::max<int64_t>(model_.index_size / 2, 1)};
  Estimate compute = costs_->Kernel(Kernels({op, model_.dtype, Direction::kForward}).front());
  if (costs_->Multiplies(WeightFormat::kFp8Block)) compute.time = compute.time.ScaledBy(0.5);
  return compute.time > memory.time ? compute : memory;
}

// Queries by latents and probabilities by latents, as one GEMM whose rows are the heads. Tokens of
// a prompt find most of their latents in the cache, as neighbours choose alike; those of decodes
// read their own.
Estimate SparseAttention::Attend(const Pairs& pairs, KernelWork& work) const {
  const int64_t key = model_.latent + model_.rotary_size, rows = pairs.tokens * heads_;
  const int64_t latents = pairs.decode ? pairs.chosen : std::min(pairs.keys, pairs.chosen);
  work = Stream(latents * LatentBytes(model_, kv_width_) + rows * key * width_,
                rows * model_.latent * width_);
  const Estimate memory = costs_->Kernel(work);
  const LinearOp op{rows, std::max<int64_t>(pairs.chosen / std::max<int64_t>(pairs.tokens, 1), 1),
                    key + model_.latent};
  const KernelWork gemm = Kernels({op, model_.dtype, Direction::kForward}).front();
  work.flop = gemm.flop;
  Estimate compute = costs_->Kernel(gemm);
  if (pairs.decode && kv_width_ == 1) compute.time = compute.time.ScaledBy(kUnpacking);
  return compute.time > memory.time ? compute : memory;
}

}  // namespace foretrace::serve
