#include "simulator/serve/memory_ledger.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/real_sizes.h"
#include "simulator/serve/layer_kinds.h"

namespace foretrace::serve {
namespace {

// Weights of the fullest stage; those of embedding and output layer lie on the first and the last,
// of which with a pipeline the larger counts.
Bytes WeightBytes(const TransformerConfig& model, const ServingPlan& plan) {
  Bytes before, after, dense_layer, other_layer;
  for (const FeedForwardKind& kind : FeedForwardKinds(model)) {
    const OperatorGraph& graph = kind.graph.graph;
    const Binding sizes = BindServing(kind, plan, 1);
    const bool dense = model.experts > 0 && kind.config.experts == 0;
    before = after = Bytes(0);
    bool reached_blocks = false;
    for (const GraphOp& op : graph.ops()) {
      reached_blocks = reached_blocks || op.in_block;
      Bytes& to = !op.in_block ? (reached_blocks ? after : before)
                  : dense      ? dense_layer
                               : other_layer;
      for (const TensorId t : op.inputs) {
        if (graph.tensor(t).role != TensorRole::kWeight) continue;
        const Bytes size = SizeOf(graph, sizes, t);
        const double bits = BitsOf(FormatOf(kind.config, op));
        const double whole = 8.0 * static_cast<double>(ElementSize(model.dtype));
        to +=
            bits > 0 ? Bytes(std::llround(static_cast<double>(size.count()) * bits / whole)) : size;
      }
    }
  }
  if (IsTied(model) && plan.pipeline == 1) after = Bytes(0);
  const int64_t stage_layers = (model.layers + plan.pipeline - 1) / plan.pipeline;
  Bytes fullest;
  for (int64_t first = 0; first < model.layers; first += stage_layers) {
    Bytes stage;
    for (int64_t i = first; i < std::min(first + stage_layers, model.layers); ++i) {
      stage += model.experts > 0 && IsDenseLayer(model, i) ? dense_layer : other_layer;
    }
    fullest = std::max(fullest, stage);
  }
  return fullest + (plan.pipeline > 1 ? std::max(before, after) : before + after);
}

// Residual stream, normalised input and output of a layer; of its widest part the first and second
// GEMM's results; logits of every sequence, in the model's precision and in 32 bits. Or what the
// sampler's warm-up takes, where that is more. Tokens and sequences of a step are shared by
// cache-parallel devices.
Bytes ActivationBytes(const TransformerConfig& model, const ServingPlan& plan,
                      const EngineConfig& engine) {
  const int64_t width = ElementSize(model.dtype);
  const int64_t experts = model.experts > 0 ? model.top_k : 1;
  const int64_t ffn = std::max(model.ffn * experts / (plan.expert ? 1 : plan.tensor),
                               std::max(model.dense_ffn, model.shared_ffn) / plan.tensor);
  const int64_t per_token = (3 * model.hidden + (IsGated(model) ? 3 : 2) * ffn) * width;
  const auto share = [&plan](int64_t of_all) { return (of_all + plan.kv - 1) / plan.kv; };
  const int64_t logits = model.vocabulary * share(engine.max_num_seqs);
  const auto sampler =
      static_cast<int64_t>(static_cast<double>(logits) * engine.sampler_bytes_per_logit);
  return Bytes(
      std::max(per_token * share(engine.max_num_batched_tokens) + logits * (width + 4), sampler));
}

// How layers with a window share the cache with those without (vLLM,
// vllm/v1/core/kv_cache_utils.py, _get_kv_cache_groups_uniform_page_size): groups of as many layers
// as the rarer kind has or, where the other has less than a quarter more, as that one has; the last
// group of a kind is filled up. Layers whose windows are pieces keep all (vllm/config/vllm.py,
// VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE).
struct CacheGroups {
  int64_t group = 0;     // layers
  int64_t global = 0;    // groups of layers without a window
  int64_t windowed = 0;  // and with one
};
CacheGroups GroupsOf(const TransformerConfig& model, const ServingPlan& plan) {
  const int64_t windowed = model.window_pieces ? 0 : WindowedLayers(model);
  const auto of_stage = [&](int64_t layers) {
    return (layers + plan.pipeline - 1) / plan.pipeline;
  };
  if (windowed == 0 || windowed == model.layers) return {of_stage(model.layers), 1, 0};
  const int64_t with = of_stage(windowed), without = of_stage(model.layers - windowed);
  const int64_t least = std::min(with, without), most = std::max(with, without);
  const int64_t group = 4 * most < 5 * least ? most : least;
  return {group, (without + group - 1) / group, (with + group - 1) / group};
}

// Of one device, in so many layers.
Bytes KvBytesPerToken(const TransformerConfig& model, const ServingPlan& plan,
                      const EngineConfig& engine, int64_t layers) {
  const int64_t width =
      engine.kv_cache_width > 0 ? engine.kv_cache_width : ElementSize(model.dtype);
  return Bytes(CacheElements(model, plan.tensor) * layers * width);
}

}  // namespace

MemoryLedger MakeLedger(const TransformerConfig& model, const ServingPlan& plan,
                        const EngineConfig& engine, Bytes device, const TransformerConfig* draft) {
  MemoryLedger m;
  m.device = device;
  m.available = WholeBytes(static_cast<double>(device.count()) * engine.memory_utilization);
  m.weights = WeightBytes(model, plan);
  if (draft != nullptr) m.weights += WeightBytes(*draft, plan);
  if (!engine.reserve_holds_activations) m.activations = ActivationBytes(model, plan, engine);
  m.reserve = engine.reserve;
  m.kv = engine.kv_memory.count() > 0
             ? engine.kv_memory
             : std::max(Bytes(0), m.available - m.weights - m.activations - m.reserve);
  const CacheGroups groups = GroupsOf(model, plan);
  m.kv_per_token = KvBytesPerToken(model, plan, engine, groups.group * groups.global);
  if (draft != nullptr) {
    const CacheGroups own = GroupsOf(*draft, plan);
    m.kv_per_token +=
        KvBytesPerToken(*draft, plan, engine, own.group * (own.global + own.windowed));
  }
  // Positions are spread over `kv` devices, which the engine fills alike.
  m.blocks = m.kv.count() / (m.kv_per_token.count() * engine.block_tokens) * plan.kv;
  if (groups.windowed > 0) {
    m.window = {model.window,
                static_cast<double>(groups.windowed) / static_cast<double>(groups.global)};
  }
  const int64_t windows =
      m.window.Most(engine.max_model_len, engine.max_num_batched_tokens, engine.block_tokens);
  m.tokens = std::max<int64_t>(0, m.blocks - windows) * engine.block_tokens;
  m.context = engine.max_model_len;
  return m;
}

std::string Verdict(const MemoryLedger& ledger) {
  if (ledger.fits()) {
    return fmt::format("fits: {} tokens of keys and values", ledger.tokens);
  }
  const Bytes needed = ledger.weights + ledger.activations + ledger.reserve;
  return fmt::format(
      "does not fit: of {:.1f} GiB a device {:.1f} go to weights, activations and reserve, which "
      "leaves room for {} tokens of keys and values; a request may have {}",
      Gib(ledger.available), Gib(needed), ledger.tokens, ledger.context);
}

}  // namespace foretrace::serve
