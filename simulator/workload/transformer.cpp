#include "simulator/workload/transformer.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// T5's relative position biases: 32 buckets per head, in the first layer of each stack.
constexpr int64_t kRelativeBuckets = 32;
constexpr int64_t kAnyWidth = 0;  // of Operator::tensor_ways

// Appends operators one after another; `previous` is the operator whose output is read next.
class Builder {
 public:
  explicit Builder(const TransformerConfig& config)
      : c_(config), dense_(WithLayersOf(config, true)), e_(ElementSize(config.dtype)) {
    w_.name = c_.name;
    w_.dtype = c_.dtype;
    w_.sequence_length = c_.sequence;
    w_.hidden = c_.hidden;
  }

  Workload Build() {
    const bool t5 = c_.family == TransformerFamily::kT5;
    Embedding(t5 ? "encoder embedding" : "embedding", true);
    for (int64_t i = 0; i < c_.layers; ++i) {
      Block(i == 0 && t5, false);
    }
    if (HasFinalNorm()) Norm("final norm", -1);
    if (t5) Decoder();
    Head();
    return std::move(w_);
  }

 private:
  // Of what attention passes on, and of queries and keys.
  int64_t width() const { return c_.heads * (c_.latent > 0 ? c_.value_size : c_.head_size); }
  int64_t kv_width() const { return c_.kv_heads * c_.head_size; }
  int64_t HeadWays() const { return c_.latent > 0 ? c_.heads : std::gcd(c_.heads, c_.kv_heads); }
  bool HasFinalNorm() const { return c_.family != TransformerFamily::kBert; }
  int64_t NormParameters() const { return HasNormBiases(c_) ? 2 * c_.hidden : c_.hidden; }
  Bytes PerToken(int64_t elements) const { return Bytes(elements * c_.sequence * e_); }
  // Keeps for dropout masks, one byte an element, where the family trains with dropout.
  Bytes Mask(int64_t elements) const { return Drops(c_) ? Bytes(elements * c_.sequence) : Bytes(); }

  int32_t Append(Operator op, std::initializer_list<int32_t> inputs) {
    const auto index = static_cast<int32_t>(w_.operators.size());
    for (const int32_t from : inputs) {
      if (from >= 0) w_.edges.push_back({from, index, w_.operators[from].output_bytes});
    }
    w_.operators.push_back(std::move(op));
    return index;
  }
  int32_t Append(Operator op) { return last_ = Append(std::move(op), {last_}); }

  OperatorCall Call(const OperatorCall::Shape& shape) const { return {shape, c_.dtype}; }

  // A matrix product of every token with a [in, out] weight.
  Operator Linear(std::string name, int64_t in, int64_t out, int32_t block) const {
    Operator op;
    op.name = std::move(name);
    op.kind = OperatorKind::kLinear;
    op.block = block;
    op.parameters = in * out + (HasBiases(c_) ? out : 0);
    op.active_parameters = op.parameters;
    const double flop =
        2.0 * static_cast<double>(in) * static_cast<double>(out) * static_cast<double>(c_.sequence);
    op.forward_flop = Flop(flop);
    op.backward_flop = Flop(2 * flop);
    op.forward_bytes = PerToken(in + out);
    op.backward_bytes = PerToken(2 * (in + out));
    op.output_bytes = PerToken(out);
    op.calls = {Call(LinearOp{c_.sequence, out, in, HasBiases(c_)})};
    return op;
  }

  void Embedding(const char* name, bool first) {
    Operator op;
    op.name = name;
    op.kind = OperatorKind::kEmbedding;
    op.tensor_ways = kAnyWidth;  // the vocabulary is padded
    op.reduces_output = true;
    if (first) op.parameters = c_.vocabulary * c_.hidden;
    if (LearnsPositions(c_)) op.parameters += c_.positions * c_.hidden;
    if (c_.embedding_norm) op.parameters += NormParameters();
    if (c_.family == TransformerFamily::kBert) op.parameters += 2 * c_.hidden + NormParameters();
    op.active_parameters = op.parameters;
    op.forward_bytes = PerToken(2 * c_.hidden);
    op.backward_bytes = PerToken(2 * c_.hidden);
    op.stash_sequence = Mask(c_.hidden);
    op.output_bytes = PerToken(c_.hidden);
    op.calls = {Call(IndexOp{c_.sequence * c_.hidden, c_.sequence, c_.vocabulary * c_.hidden})};
    last_ = Append(std::move(op), {});
  }

  void Norm(std::string name, int32_t block) {
    Operator op;
    op.name = std::move(name);
    op.kind = OperatorKind::kNorm;
    op.block = block;
    op.parameters = op.active_parameters = NormParameters();
    op.forward_bytes = PerToken(2 * c_.hidden);
    op.backward_bytes = PerToken(3 * c_.hidden);
    op.stash_sequence = PerToken(c_.hidden);
    op.output_bytes = PerToken(c_.hidden);
    op.calls = {Call(LayerNormOp{c_.sequence, c_.hidden})};
    Append(std::move(op));
  }

  // Products down to the latents, their norms, and products up to the heads.
  void Latent(Operator& qkv) const {
    const int64_t q = c_.heads * c_.head_size;
    const int64_t up = c_.heads * (c_.head_size - c_.rotary_size + c_.value_size);
    const int64_t from = c_.query_latent > 0 ? c_.query_latent : c_.hidden;
    const int64_t weights = (c_.query_latent > 0 ? c_.hidden * c_.query_latent : 0) + from * q +
                            c_.hidden * (c_.latent + c_.rotary_size) + c_.latent * up;
    qkv.parameters = weights + c_.query_latent + c_.latent;
    const double flop = 2.0 * static_cast<double>(weights) * static_cast<double>(c_.sequence);
    qkv.forward_flop = Flop(flop);
    qkv.backward_flop = Flop(2 * flop);
    const int64_t passing = 2 * (c_.query_latent + c_.latent) + c_.rotary_size + q + up;
    qkv.forward_bytes = PerToken(c_.hidden + passing);
    qkv.backward_bytes = PerToken(2 * (c_.hidden + passing));
    qkv.output_bytes = PerToken(q + up);
  }

  // `memory` >= 0: keys and values come from that operator's output (cross attention).
  void Attention(const std::string& prefix, int32_t block, bool relative_bias, int32_t memory) {
    const double s = static_cast<double>(c_.sequence);
    Operator qkv = Linear(prefix + "qkv", c_.hidden, width() + 2 * kv_width(), block);
    if (c_.latent > 0) Latent(qkv);
    if (HasQkvBiases(c_) && !HasBiases(c_)) qkv.parameters += width() + 2 * kv_width();
    if (c_.qk_norm) qkv.parameters += 2 * c_.head_size;
    qkv.active_parameters = qkv.parameters;
    qkv.tensor_ways = HeadWays();
    qkv.reduces_gradient = true;
    qkv.stash_sequence = PerToken(c_.hidden);
    if (memory >= 0) {
      qkv.stash_sequence += PerToken(c_.hidden);
      last_ = Append(std::move(qkv), {last_, memory});
    } else {
      Append(std::move(qkv));
    }

    Operator core;
    core.name = prefix + "attention";
    core.kind = OperatorKind::kAttention;
    core.block = block;
    core.tensor_ways = HeadWays();
    core.parameters = core.active_parameters = relative_bias ? kRelativeBuckets * c_.heads : 0;
    // Scores and weighted sum; no saving for causal masks (Korthikanti et al., appendix A).
    const int64_t keys = c_.latent > 0 ? c_.heads * c_.head_size : width();
    const double flop = 2.0 * s * s * static_cast<double>(width() + keys);
    core.forward_flop = Flop(flop);
    core.backward_flop = Flop(2 * flop);
    const Bytes matrix(c_.heads * c_.sequence * c_.sequence * e_);
    core.forward_bytes = PerToken(2 * width() + 2 * kv_width());
    core.backward_bytes = PerToken(4 * width() + 4 * kv_width());
    core.stash_tensor = PerToken(width() + 2 * kv_width());
    if (!c_.fused_attention) {
      // Scores written and read by softmax, its result by dropout, and that by the second product:
      // six passes forward; backward reads them and writes as many gradients.
      core.forward_bytes += matrix * 6;
      core.backward_bytes += matrix * 10;
      // Softmax output, dropout output, and the mask at one byte: 5 a s^2 b for two-byte types.
      core.stash_selective =
          matrix * 2 + (Mask(1) > Bytes() ? Bytes(c_.heads * c_.sequence * c_.sequence) : Bytes());
      core.stash_tensor += core.stash_selective;
    }
    core.output_bytes = PerToken(width());
    core.calls = {Call(AttentionOp{1, c_.heads, c_.kv_heads, c_.sequence, c_.sequence, c_.head_size,
                                   false, c_.fused_attention})};
    Append(std::move(core));

    Operator out = Linear(prefix + "projection", width(), c_.hidden, block);
    out.stash_tensor = PerToken(width());
    out.stash_sequence = Mask(c_.hidden);
    out.tensor_ways = HeadWays();
    out.reduces_output = true;
    // Residual addition and dropout.
    out.forward_bytes += PerToken(3 * c_.hidden) + Mask(c_.hidden);
    out.backward_bytes += PerToken(3 * c_.hidden) + Mask(c_.hidden);
    Append(std::move(out));
  }

  void FeedForward(const std::string& prefix, int32_t block) {
    const TransformerConfig& f = IsDenseLayer(c_, block) ? dense_or_own() : c_;
    const bool gated = IsGated(c_);
    const int64_t copies = f.experts > 0 ? f.experts : 1;
    const int64_t active = f.experts > 0 ? f.top_k : 1;
    if (f.experts > 0) {
      Operator router = Linear(prefix + "router", c_.hidden, f.experts, block);
      router.kind = OperatorKind::kRouter;
      router.parameters = router.active_parameters = c_.hidden * f.experts;
      router.stash_sequence = PerToken(c_.hidden);
      router.output_bytes = PerToken(c_.hidden);
      Append(std::move(router));
    }
    const int64_t up_width = gated ? 2 * f.ffn : f.ffn;
    Operator up = Linear(prefix + "ffn up", c_.hidden, up_width, block);
    Operator act;
    act.name = prefix + "activation";
    act.kind = OperatorKind::kElementwise;
    act.block = block;
    up.reduces_gradient = true;
    act.forward_bytes = PerToken(up_width + f.ffn) * active;
    act.backward_bytes = PerToken(2 * up_width + f.ffn) * active;
    act.stash_tensor = PerToken(up_width) * active;
    act.output_bytes = PerToken(f.ffn) * active;
    act.calls = {
        Call(ElementwiseOp{f.ffn * c_.sequence * active, up_width * c_.sequence * active})};
    act.function = "gelu";
    Operator down = Linear(prefix + "ffn down", f.ffn, c_.hidden, block);
    up.tensor_ways = act.tensor_ways = down.tensor_ways = std::gcd(f.ffn, f.shared_ffn);
    for (Operator* op : {&up, &down}) {
      op->active_parameters = op->parameters * active;
      std::get<LinearOp>(op->calls.front().shape).m *= active;
      op->parameters *= copies;
      op->forward_flop = Flop(op->forward_flop.count() * static_cast<double>(active));
      op->backward_flop = Flop(op->backward_flop.count() * static_cast<double>(active));
      op->forward_bytes = op->forward_bytes * active;
      op->backward_bytes = op->backward_bytes * active;
      if (f.experts > 0) {
        op->kind = OperatorKind::kExperts;
        op->expert_parallel = true;
      }
    }
    up.output_bytes = PerToken(up_width) * active;
    up.stash_sequence = PerToken(c_.hidden) * active;
    down.stash_tensor = PerToken(f.ffn) * active;
    down.stash_sequence = Mask(c_.hidden);
    down.reduces_output = true;
    down.forward_bytes += PerToken(3 * c_.hidden) + Mask(c_.hidden);
    down.backward_bytes += PerToken(3 * c_.hidden) + Mask(c_.hidden);
    if (f.shared_ffn > 0) AddShared(up, act, down);
    Append(std::move(up));
    Append(std::move(act));
    Append(std::move(down));
  }

  // Experts that every token visits run beside the chosen ones.
  void AddShared(Operator& up, Operator& act, Operator& down) const {
    const int64_t up_width = (IsGated(c_) ? 2 : 1) * c_.shared_ffn;
    const auto add = [](Operator& to, const Operator& more) {
      to.parameters += more.parameters;
      to.active_parameters += more.parameters;
      to.forward_flop += more.forward_flop;
      to.backward_flop += more.backward_flop;
      to.forward_bytes += more.forward_bytes;
      to.backward_bytes += more.backward_bytes;
    };
    add(up, Linear("", c_.hidden, up_width, up.block));
    add(down, Linear("", c_.shared_ffn, c_.hidden, down.block));
    act.forward_bytes += PerToken(up_width + c_.shared_ffn);
    act.backward_bytes += PerToken(2 * up_width + c_.shared_ffn);
    act.stash_tensor += PerToken(up_width);
    down.stash_tensor += PerToken(c_.shared_ffn);
  }

  void Block(bool relative_bias, bool cross, int32_t memory = -1) {
    const int32_t block = w_.blocks++;
    const std::string prefix = fmt::format("block {} ", block);
    Norm(prefix + "norm 1", block);
    Attention(prefix, block, relative_bias, -1);
    if (cross) {
      Norm(prefix + "cross norm", block);
      Attention(prefix + "cross ", block, false, memory);
    }
    Norm(prefix + "norm 2", block);
    FeedForward(prefix, block);
  }

  void Decoder() {
    const int32_t memory = last_;
    Embedding("decoder embedding", false);
    for (int64_t i = 0; i < c_.decoder_layers; ++i) Block(i == 0, true, memory);
    Norm("decoder final norm", -1);
  }

  void Head() {
    if (c_.family == TransformerFamily::kBert) {
      Operator pooler = Linear("pooler", c_.hidden, c_.hidden, -1);
      pooler.forward_flop = Flop(pooler.forward_flop.count() / static_cast<double>(c_.sequence));
      pooler.backward_flop = Flop(pooler.backward_flop.count() / static_cast<double>(c_.sequence));
      pooler.stash_sequence = Bytes(c_.hidden * e_);
      pooler.output_bytes = PerToken(c_.hidden);
      pooler.calls = {Call(LinearOp{1, c_.hidden, c_.hidden, HasBiases(c_)})};
      Append(std::move(pooler));
    }
    Operator head = Linear("output layer", c_.hidden, c_.vocabulary, -1);
    head.parameters = IsTied(c_) ? 0 : c_.hidden * c_.vocabulary;
    head.active_parameters = head.parameters;
    head.tensor_ways = kAnyWidth;
    head.reduces_gradient = true;
    head.stash_sequence = PerToken(c_.hidden);
    Append(std::move(head));
    Operator loss;
    loss.name = "loss";
    loss.kind = OperatorKind::kLoss;
    loss.tensor_ways = kAnyWidth;
    // Cross entropy in 32 bits keeps the logits (Korthikanti et al., section 4.3).
    loss.stash_tensor = Bytes(4 * c_.sequence * c_.vocabulary);
    loss.forward_bytes = Bytes(12 * c_.sequence * c_.vocabulary);
    loss.backward_bytes = Bytes(8 * c_.sequence * c_.vocabulary);
    loss.output_bytes = Bytes(4);
    loss.calls = {Call(SoftmaxOp{c_.sequence, c_.vocabulary})};
    Append(std::move(loss));
  }

  const TransformerConfig& dense_or_own() const { return c_.experts > 0 ? dense_ : c_; }

  const TransformerConfig& c_;
  TransformerConfig dense_;
  int64_t e_;
  Workload w_;
  int32_t last_ = -1;
};

}  // namespace

absl::StatusOr<Workload> BuildTransformer(const TransformerConfig& config) {
  if (config.head_size == 0 && config.heads > 0 && config.hidden % config.heads != 0) {
    return InvalidInput("workload '{}': hidden {} is not a multiple of heads {}; give head_size",
                        config.name, config.hidden, config.heads);
  }
  const TransformerConfig c = WithDefaults(config);
  FORETRACE_RETURN_IF_ERROR(CheckTransformer(c));
  Workload workload = Builder(c).Build();
  FORETRACE_RETURN_IF_ERROR(workload.Validate());
  return workload;
}

}  // namespace foretrace
