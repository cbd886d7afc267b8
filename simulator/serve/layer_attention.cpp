#include "simulator/serve/layer_attention.h"

#include <algorithm>

#include "simulator/serve/weighted_gemm.h"

namespace foretrace::serve {
namespace {

int64_t Share(int64_t of, int64_t by) { return (of + by - 1) / by; }

// Keys that a fused kernel takes at once (FlashAttention-2, 2023, section 3.3): on the edges of a
// window it computes whole tiles.
constexpr int64_t kTile = 128;

}  // namespace

LayerAttention::LayerAttention(const TransformerConfig& model, const ServingPlan& plan,
                               const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs)
    : model_(model),
      plan_(plan),
      costs_(std::move(costs)),
      kinds_(AttentionKinds(model)),
      sparse_(model, plan, engine, costs_),
      width_(ElementSize(model.dtype)),
      kv_width_(engine.kv_cache_width > 0 ? engine.kv_cache_width : width_),
      heads_(model.heads / plan.tensor),
      kv_heads_(std::max<int64_t>(model.kv_heads / plan.tensor, 1)),
      split_(plan.kv),
      launch_gap_(engine.launch_gap()) {}

void LayerAttention::AddKernel(const Estimate& e, StepPart part, double times,
                               StepTime& time) const {
  time.Add(part, RealUs((e.time + launch_gap_).us() * times), e.source, e.extrapolated);
}

void LayerAttention::Add(const StepBatch& batch, StepTime& time) const {
  if (model_.index_keys > 0) {
    sparse_.Add(batch, time);
  } else {
    for (const AttentionKind& kind : kinds_) {
      AddPrompts(batch, kind, time);
      if (batch.decodes > 0) AddDecodes(batch, kind, time);
    }
  }
  if (model_.latent > 0) AddLatentGemms(batch, time);
}

void LayerAttention::AddCall(const OperatorCall::Shape& shape, StepPart part, double times,
                             StepTime& time, WeightFormat weights) const {
  for (const KernelWork& work : Kernels({shape, model_.dtype, Direction::kForward})) {
    const Estimate alone = WeightedGemm(*costs_, work, weights);
    AddKernel(alone, part, times, time);
    time.joules += times * WeightedJoules(*costs_, work, weights, alone.time);
  }
}

AttentionShape LayerAttention::ShapeOf(const AttentionWindow& window, double tokens) const {
  AttentionShape shape;
  shape.latent = model_.latent == 512 && model_.rotary_size == 64;
  shape.heads = heads_;
  shape.kv_heads = kv_heads_;
  shape.depth = model_.head_size;
  shape.window = window.tokens;
  shape.kv_width = kv_width_;
  shape.tokens = tokens;
  return shape;
}

std::optional<Estimate> LayerAttention::MeasuredPrompt(const PrefillChunk& chunk,
                                                       const AttentionWindow& window) const {
  if (window.pieces) return std::nullopt;
  const int64_t all = int64_t{chunk.cached} + chunk.tokens;
  const auto whole = costs_->Attention(ShapeOf(window, static_cast<double>(all)));
  if (!whole || chunk.cached == 0) return whole;
  const double share = static_cast<double>(window.Pairs(chunk.cached, chunk.tokens)) /
                       static_cast<double>(window.Pairs(0, all));
  const auto alone = costs_->Attention(ShapeOf(window, chunk.tokens));
  const SimTime part = SimTime::FromUs(whole->time.us() * share);
  return Estimate{alone ? std::max(part, alone->time) : part, whole->source, whole->extrapolated};
}

void LayerAttention::AddPrompts(const StepBatch& batch, const AttentionKind& kind,
                                StepTime& time) const {
  const double times = static_cast<double>(kind.layers) / static_cast<double>(split_);
  // Values of latent attention are shorter than queries and keys: the mean of both.
  const int64_t depth =
      model_.latent > 0 ? (model_.head_size + model_.value_size) / 2 : model_.head_size;
  // Chunks share a kernel: what a single token takes counts once.
  const auto floor = costs_->Attention(ShapeOf(kind.window, 1));
  for (const PrefillChunk& chunk : batch.prefills) {
    if (auto measured = MeasuredPrompt(chunk, kind.window)) {
      if (&chunk != &batch.prefills.front() && floor) {
        measured->time = std::max(SimTime(), measured->time - floor->time);
      }
      AddKernel(*measured, StepPart::kAttention, times, time);
      // Of each pair a score and a share of the result, both over the depth.
      const int64_t pairs = kind.window.Pairs(chunk.cached, chunk.tokens);
      time.joules +=
          times * costs_->JoulesAboveIdle(model_.dtype,
                                          GemmFlopOf({BatchedMatmulOp{heads_, pairs, 2, depth}}),
                                          Bytes((int64_t{chunk.cached} + chunk.tokens) *
                                                CacheElements(model_, plan_.tensor) * kv_width_),
                                          measured->time);
      continue;
    }
    AttentionOp op = {1, heads_, kv_heads_, chunk.tokens, chunk.tokens, depth, true, true};
    if (kind.window.Cuts(chunk.cached, chunk.tokens)) {
      const int64_t pairs = kind.window.Pairs(chunk.cached, chunk.tokens);
      op.skv = std::min<int64_t>(Share(pairs, chunk.tokens) + kTile, chunk.cached + chunk.tokens);
      op.causal = false;
      AddCall(op, StepPart::kAttention, times, time);
      continue;
    }
    // Within the chunk causal; over what is cached not.
    AddCall(op, StepPart::kAttention, times, time);
    if (chunk.cached == 0) continue;
    op.skv = chunk.cached;
    op.causal = false;
    AddCall(op, StepPart::kAttention, times, time);
  }
}

void LayerAttention::AddDecodes(const StepBatch& batch, const AttentionKind& kind,
                                StepTime& time) const {
  const auto layers = static_cast<double>(kind.layers);
  const int64_t cached = Share(batch.DecodeCached(kind.window) + batch.decodes, split_);
  const int64_t sequences = batch.decodes;
  const auto add = [&](const Estimate& e, const KernelWork& work) {
    AddKernel(e, StepPart::kAttention, layers, time);
    time.joules += layers * costs_->JoulesAboveIdle(model_.dtype, work.flop,
                                                    Bytes(work.total_bytes()), e.time);
  };
  // One token attends to all: keys and values stream by once, whatever the heads that share them.
  KernelWork work;
  work.kind = KernelKind::kElementwise;
  work.dtype = model_.dtype;
  work.read = Bytes(cached * CacheElements(model_, plan_.tensor) * kv_width_);
  work.written = Bytes(sequences * heads_ * model_.head_size * width_);
  if (batch.tokens_per_decode == 1 && !kind.window.pieces) {
    // Of a window what lies before it costs nothing, and `cached` has left it out.
    AttentionShape shape =
        ShapeOf({}, static_cast<double>(cached) / static_cast<double>(sequences) - 1);
    shape.decode = true;
    shape.sequences = static_cast<double>(sequences);
    shape.tokens = std::max(1.0, shape.tokens);
    if (const auto measured = costs_->Attention(shape)) {
      add(*measured, work);
      return;
    }
  }
  if (model_.latent > 0) {
    work.flop = LatentGemm(batch.tokens_per_decode, cached).flop;
    add(LatentDecodes(sequences, batch.tokens_per_decode, cached), work);
    return;
  }
  add(costs_->Kernel(work), work);
}

// Queries by keys and probabilities by values, as one GEMM whose rows are the heads.
KernelWork LayerAttention::LatentGemm(int64_t tokens_each, int64_t cached) const {
  const int64_t key = model_.latent + model_.rotary_size;
  return Kernels({LinearOp{heads_ * tokens_each, cached, key + model_.latent}, model_.dtype})
      .front();
}

// Latents stream by once; where heads are many the GEMMs take longer. One kernel, split over
// keys so that every multiprocessor has a part of its own.
Estimate LayerAttention::LatentDecodes(int64_t sequences, int64_t tokens_each,
                                       int64_t cached) const {
  const int64_t key = model_.latent + model_.rotary_size, rows = heads_ * tokens_each;
  KernelWork stream;
  stream.kind = KernelKind::kElementwise;
  stream.dtype = model_.dtype;
  stream.read = Bytes(cached * key * kv_width_ + sequences * rows * key * width_);
  stream.written = Bytes(sequences * rows * model_.latent * width_);
  const Estimate memory = costs_->Kernel(stream);
  KernelWork gemm = LatentGemm(tokens_each, cached);
  gemm.read = stream.read;
  gemm.written = stream.written;
  const Estimate compute = costs_->Kernel(gemm);
  return compute.time > memory.time ? compute : memory;
}

void LayerAttention::AddLatentGemms(const StepBatch& batch, StepTime& time) const {
  const auto layers = static_cast<double>(model_.layers);
  const int64_t plain = model_.head_size - model_.rotary_size;
  int64_t own = 0, cached = 0;
  for (const PrefillChunk& chunk : batch.prefills) {
    own += chunk.tokens;
    cached += chunk.cached;
  }
  const bool sparse = model_.index_keys > 0;
  for (const int64_t tokens : {own, cached}) {
    if (tokens == 0 || sparse) continue;
    AddCall(LinearOp{Share(tokens, split_), heads_ * (plain + model_.value_size), model_.latent},
            StepPart::kDense, layers, time, model_.weights);
  }
  const int64_t rows = Share(batch.decodes, split_) * batch.tokens_per_decode + (sparse ? own : 0);
  if (rows == 0) return;
  AddCall(BatchedMatmulOp{heads_, rows, model_.latent, plain}, StepPart::kDense, layers, time);
  AddCall(BatchedMatmulOp{heads_, rows, model_.value_size, model_.latent}, StepPart::kDense, layers,
          time);
}

}  // namespace foretrace::serve
