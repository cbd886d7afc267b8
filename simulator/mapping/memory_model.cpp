#include "simulator/mapping/memory_model.h"

#include <algorithm>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

double Num(int64_t n) { return static_cast<double>(n); }
Bytes Rounded(double n) { return Bytes(static_cast<int64_t>(std::min(n, 1e18))); }
double Width(const TransformerConfig& c) {
  return Num(c.head_size > 0 ? c.heads * c.head_size : c.hidden);
}
double KeyValueWidth(const TransformerConfig& c) {
  return Width(c) * Num(c.kv_heads > 0 ? c.kv_heads : c.heads) / Num(c.heads);
}
double FeedForward(const TransformerConfig& c) { return Num(c.ffn > 0 ? c.ffn : 4 * c.hidden); }
bool Gated(const TransformerConfig& c) { return c.family == TransformerFamily::kLlama; }
// Bytes an element of a dropout mask takes; Llama trains without dropout.
double Mask(const TransformerConfig& c) { return Gated(c) ? 0 : 1; }

}  // namespace

LayerParameters LayerParametersOf(const TransformerConfig& c) {
  const double h = Num(c.hidden), width = Width(c), kv = KeyValueWidth(c), ffn = FeedForward(c);
  LayerParameters p;
  p.attention = h * (width + 2 * kv) + width * h;
  p.ffn = (Gated(c) ? 3 : 2) * h * ffn;
  p.copies = c.experts > 0 ? Num(c.experts) : 1;
  // Two norms; biases of the four products, which are in part divided, are counted in full.
  p.replicated = Gated(c) ? 2 * h : 4 * h + width + 2 * kv + 2 * h;
  if (c.experts > 0) p.replicated += h * p.copies;
  return p;
}

double LayerStash(const TransformerConfig& c, const ParallelMapping& m, Recompute recompute) {
  const double e = ElementSize(c.dtype), h = Num(c.hidden);
  const double tokens = Num(c.sequence) * m.micro_batch / m.context;
  const double active = c.experts > 0 ? Num(c.top_k) : 1;
  const double split = m.sequence_parallel ? m.tensor : 1;
  if (recompute == Recompute::kFull) return tokens * h * e / split;
  // As the operators of the layer graph have it: inputs of the norms and products, and masks.
  const double whole =
      2 * h * e + h * e + Mask(c) * h + (c.experts > 0 ? h * e : 0) + active * h * e + Mask(c) * h;
  const double up = (Gated(c) ? 2 : 1) * FeedForward(c);
  const double divided =
      (2 * Width(c) + 2 * KeyValueWidth(c)) * e + active * (up + FeedForward(c)) * e;
  const bool matrix = !c.fused_attention && recompute == Recompute::kNone;
  const double scores = matrix ? Num(c.heads) * Num(c.sequence) * (2 * e + Mask(c)) : 0;
  return tokens * (whole / split + (divided + scores) / m.tensor);
}

MemoryUse StageMemoryOf(const TransformerConfig& c, const ParallelMapping& m, int32_t stage) {
  const double e = ElementSize(c.dtype), h = Num(c.hidden), t = m.tensor;
  const double layers = Num(c.layers) / m.pipeline;
  const LayerParameters layer = LayerParametersOf(c);
  const bool first = stage == 0, last = stage + 1 == m.pipeline;
  // A tied output layer has no weights of its own on a single stage, a copy of the embedding's
  // else.
  const int tables = (first ? 1 : 0) + (last && (Gated(c) || !first) ? 1 : 0);
  const double dense_ffn = c.experts > 0 ? 0 : layer.ffn;
  const double dense = layers * ((layer.attention + dense_ffn) / t + layer.replicated) +
                       tables * Num(c.vocabulary) * h / t;
  const double expert = c.experts > 0 ? layers * layer.ffn * layer.copies / m.expert / t : 0;
  const auto divided = [&](int32_t from) {
    if (m.zero < from) return dense + expert;
    return dense / m.replicas() + expert / (m.replicas() / m.expert);
  };
  MemoryUse use;
  use.weights = Rounded(e * divided(3));
  use.gradients = Rounded(e * divided(2));
  use.optimizer = Rounded((e < 4 ? 12 : 8) * divided(1));
  if (m.zero >= 3) {
    use.gathered = Rounded(
        2 * e *
        ((layer.attention + dense_ffn) / t + layer.replicated + expert / std::max(layers, 1.0)));
  }
  const double chunk_layers = layers / m.chunks;
  use.activations =
      Rounded(Num(ChunksInFlight(m, stage)) * chunk_layers * LayerStash(c, m, m.recompute));
  if (m.recompute != Recompute::kNone) {
    use.recomputed = Rounded(LayerStash(c, m, Recompute::kNone) - LayerStash(c, m, m.recompute));
  }
  // Cross entropy keeps 32-bit logits (Korthikanti et al., section 4.3), of one micro-batch as the
  // last stage's backward pass follows at once, of all under GPipe.
  if (last) {
    const double count = Num(ChunksInFlight(m, stage)) / m.chunks;
    const double held = m.schedule == ScheduleKind::kGPipe ? count : std::min(count, 1.0 * m.k);
    use.logits =
        Rounded(4.0 * held * Num(c.sequence) * Num(c.vocabulary) * m.micro_batch / m.context / t);
  }
  return use;
}

MemoryUse MemoryOf(const TransformerConfig& c, const ParallelMapping& m) {
  const MemoryUse first = StageMemoryOf(c, m, 0);
  if (m.pipeline == 1) return first;
  const MemoryUse last = StageMemoryOf(c, m, m.pipeline - 1);
  return last.total() > first.total() ? last : first;
}

namespace {

// Knobs of which one turn makes the mapping fit.
std::string WhatWouldFit(const TransformerConfig& model, const ParallelMapping& m, Bytes capacity) {
  std::string help;
  const auto suggest = [&](const char* what, bool applies, auto change) {
    if (!applies) return;
    ParallelMapping other = m;
    change(other);
    if (MemoryOf(model, other).total() > capacity) return;
    help += fmt::format("{}{}", help.empty() ? "" : "; or ", what);
  };
  suggest("selective recomputation would fit",
          m.recompute == Recompute::kNone && !model.fused_attention,
          [](ParallelMapping& o) { o.recompute = Recompute::kSelective; });
  suggest("full recomputation would fit", m.recompute != Recompute::kFull,
          [](ParallelMapping& o) { o.recompute = Recompute::kFull; });
  suggest("micro-batches of 1 would fit", m.micro_batch > 1,
          [](ParallelMapping& o) { o.micro_batch = 1; });
  suggest("sequence parallelism would fit", !m.sequence_parallel && m.tensor > 1,
          [](ParallelMapping& o) { o.sequence_parallel = true; });
  suggest("1F1B would fit", m.schedule != ScheduleKind::k1F1B, [](ParallelMapping& o) {
    o.schedule = ScheduleKind::k1F1B;
    o.k = 1;
  });
  suggest("a distributed optimizer (zero1) would fit", m.zero < 1 && m.replicas() > 1,
          [](ParallelMapping& o) { o.zero = 1; });
  suggest("zero3 would fit", m.zero < 3 && m.replicas() > 1,
          [](ParallelMapping& o) { o.zero = 3; });
  if (help.empty()) help = "more tensor or pipeline parallelism, or more devices, are needed";
  return help;
}

}  // namespace

absl::Status CheckMemory(const TransformerConfig& model, const ParallelMapping& m, Bytes capacity) {
  const MemoryUse use = MemoryOf(model, m);
  if (use.total() <= capacity) return absl::OkStatus();
  constexpr double kGiB = 1 << 30;
  const auto gib = [&](Bytes b) { return static_cast<double>(b.count()) / kGiB; };
  return Infeasible(
      "mapping {} needs {:.1f} GiB a device, {:.1f} more than the {:.1f} there are (weights "
      "{:.1f}, "
      "gradients {:.1f}, optimizer {:.1f}, activations {:.1f}, other {:.1f}); {}",
      ToString(m), gib(use.total()), gib(use.total() - capacity), gib(capacity), gib(use.weights),
      gib(use.gradients), gib(use.optimizer), gib(use.activations),
      gib(use.recomputed + use.logits + use.gathered), WhatWouldFit(model, m, capacity));
}

}  // namespace foretrace
