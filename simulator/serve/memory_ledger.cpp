#include "simulator/serve/memory_ledger.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/real_sizes.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/workload/layer_pattern.h"

namespace foretrace::serve {
namespace {

// Of one device, outside of the layers and of a layer of each kind, as stored.
struct StoredWeights {
  Bytes before, after;
  std::vector<Bytes> layer;  // by ServedKinds
};
StoredWeights WeightsOf(const TransformerConfig& model, const ServingPlan& plan) {
  StoredWeights weights;
  for (const ServedKind& kind : ServedKinds(model, plan)) {
    const OperatorGraph& graph = kind.graph.graph;
    const Binding sizes = BindServing(kind, plan, 1);
    weights.before = weights.after = Bytes(0);
    weights.layer.emplace_back();
    bool reached_blocks = false;
    for (const GraphOp& op : graph.ops()) {
      reached_blocks = reached_blocks || op.in_block;
      Bytes& to = op.in_block      ? weights.layer.back()
                  : reached_blocks ? weights.after
                                   : weights.before;
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
  return weights;
}

// Weights of the fullest stage; those of embedding and output layer lie on the first and the last,
// of which with a pipeline the larger counts.
Bytes WeightBytes(const TransformerConfig& model, const ServingPlan& plan) {
  StoredWeights weights = WeightsOf(model, plan);
  if (IsTied(model) && plan.pipeline == 1) weights.after = Bytes(0);
  const bool alike = weights.layer.size() == 1;  // other kinds have no layers
  const int64_t stage_layers = (model.layers + plan.pipeline - 1) / plan.pipeline;
  Bytes fullest;
  for (int64_t first = 0; first < model.layers; first += stage_layers) {
    Bytes stage;
    for (int64_t i = first; i < std::min(first + stage_layers, model.layers); ++i) {
      stage += weights.layer[alike ? 0 : LayerKindOf(model, i)];
    }
    fullest = std::max(fullest, stage);
  }
  return fullest + (plan.pipeline > 1 ? std::max(weights.before, weights.after)
                                      : weights.before + weights.after);
}

// Of a token in a layer with a mixer: what the first GEMM gives, what is convolved of it, results
// and their norm; steps and their sums, states of its chunk and products within it in 32 bits, and
// states as they are kept (graph/state_scan.h). Of a delta rule (graph/delta_rule.h) step sizes
// come with the GEMM; queries, keys and values are put together and the first two normalised;
// values and, repeated for each of their heads, keys go through the inverse, and values are made
// once more where states take off theirs. The inverse and states by chunk are in the model's type
// (vLLM, model_executor/layers/fla/ops/chunk.py, chunk_gated_delta_rule_fwd).
int64_t ScanBytes(const StateScan& s, int64_t width, int64_t state_width) {
  const int64_t inputs = s.groups * s.width, readers = s.groups * s.state;
  const int64_t convolved = inputs + 2 * readers, of_states = inputs * s.state / s.chunk;
  if (s.delta) {
    const int64_t repeated = s.heads * s.state, inverse = s.heads * s.chunk;
    const int64_t projected = 2 * inputs + 2 * readers + 2 * s.heads;
    const int64_t results = 2 * inputs;
    const int64_t rows = projected + 2 * convolved + 2 * readers + repeated + 2 * inputs + inverse +
                         of_states + results;
    return rows * width + 3 * s.heads * 4;
  }
  const int64_t rows = 2 * inputs + 2 * readers + s.heads + convolved + 2 * inputs;
  return rows * width + 2 * s.heads * 4 + s.groups * s.chunk * 4 + of_states * (4 + state_width);
}

// Residual stream, normalised input and output of a layer; of its widest part the first and second
// GEMM's results, or a scan's; logits of every sequence, in the model's precision and in 32 bits.
// Or what the sampler's warm-up takes, where that is more. Tokens and sequences of a step are
// shared by cache-parallel devices.
Bytes ActivationBytes(const TransformerConfig& model, const ServingPlan& plan,
                      const EngineConfig& engine) {
  const int64_t width = ElementSize(model.dtype);
  const int64_t experts = model.experts > 0 ? model.top_k : 1;
  const int64_t ffn = std::max(model.ffn * experts / (plan.expert ? 1 : plan.tensor),
                               std::max(model.dense_ffn, model.shared_ffn) / plan.tensor);
  int64_t widest = (IsGated(model) ? 3 : 2) * ffn * width;
  if (const auto states = StateLayersOf(model, plan)) {
    widest = std::max(widest, ScanBytes(states->scan, width, StateWidth(model, engine)));
  }
  const int64_t per_token = 3 * model.hidden * width + widest;
  const auto share = [&plan](int64_t of_all) { return (of_all + plan.kv - 1) / plan.kv; };
  const int64_t logits = model.vocabulary * share(engine.max_num_seqs);
  const auto sampler =
      static_cast<int64_t>(static_cast<double>(logits) * engine.sampler_bytes_per_logit);
  return Bytes(
      std::max(per_token * share(engine.max_num_batched_tokens) + logits * (width + 4), sampler));
}

// How layers with a window, or with states, share the cache with those that attend to all (vLLM,
// vllm/v1/core/kv_cache_utils.py, _get_kv_cache_groups_uniform_page_size): groups of as many layers
// as the rarer kind has or, where the other has less than a quarter more, as that one has; the last
// group of a kind is filled up. Layers whose windows are pieces keep all (vllm/config/vllm.py,
// VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE).
struct CacheGroups {
  int64_t group = 0;   // layers
  int64_t global = 0;  // groups of layers that attend to all
  int64_t others = 0;  // and with a window, or with states
};
CacheGroups GroupsOf(const TransformerConfig& model, const ServingPlan& plan, int64_t with_states) {
  const int64_t windowed = model.window_pieces ? 0 : WindowedLayers(model);
  const int64_t attend = AttentionLayers(model), others = windowed + with_states;
  const auto of_stage = [&](int64_t layers) {
    return (layers + plan.pipeline - 1) / plan.pipeline;
  };
  if (others == 0 || windowed == attend) return {of_stage(attend), 1, 0};
  const int64_t with = of_stage(others), without = of_stage(attend - windowed);
  const int64_t least = std::min(with, without), most = std::max(with, without);
  const int64_t group = 4 * most < 5 * least ? most : least;
  return {group, (without + group - 1) / group, (with + group - 1) / group};
}

// Of one device, in so many layers.
Bytes KvBytesPerToken(const TransformerConfig& model, const ServingPlan& plan,
                      const EngineConfig& engine, int64_t layers) {
  const int64_t width =
      engine.kv_cache_width > 0 ? engine.kv_cache_width : ElementSize(model.dtype);
  return Bytes(CacheBytes(model, plan.tensor, width) * layers);
}

// What the ledger has of states; how many layers' lie in blocks of the cache. A block of a layer's
// keys and values is to be as large as a layer's states of a sequence, in whole blocks of the
// engine's own size (vllm/model_executor/models/config.py, HybridAttentionMambaModelConfig). Else
// states have memory of their own (SGLang,
// python/sglang/srt/model_executor/model_runner_kv_cache_mixin.py, mamba_full_memory_ratio).
int64_t TakeStates(const TransformerConfig& model, const ServingPlan& plan,
                   const EngineConfig& engine, MemoryLedger& m) {
  m.block_tokens = engine.block_tokens;
  const auto states = StateLayersOf(model, plan);
  if (!states) return 0;
  const int64_t of_layer = SequenceStateBytes(states->scan, StateWidth(model, engine));
  m.state_per_sequence = Bytes(of_layer * ((states->layers + plan.pipeline - 1) / plan.pipeline));
  if (engine.state_memory_ratio > 0) {
    const Bytes rest = m.kv;
    m.kv = Bytes(
        static_cast<int64_t>(static_cast<double>(rest.count()) / (1 + engine.state_memory_ratio)));
    m.states = rest - m.kv;
    m.most_sequences = m.states.count() / m.state_per_sequence.count();
    return 0;
  }
  const int64_t token = KvBytesPerToken(model, plan, engine, 1).count();
  const int64_t unit = token * engine.block_tokens;
  m.blocks_of_states = std::max<int64_t>((of_layer + unit - 1) / unit, 1);
  m.block_tokens = static_cast<int32_t>(
      std::min(m.blocks_of_states, MemoryLedger::kMostBlocksOfStates) * engine.block_tokens);
  return states->layers;
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
  const int64_t with_states = TakeStates(model, plan, engine, m);
  const CacheGroups groups = GroupsOf(model, plan, with_states);
  m.kv_per_token = KvBytesPerToken(model, plan, engine, groups.group * groups.global);
  if (draft != nullptr) {
    const CacheGroups own = GroupsOf(*draft, plan, 0);
    m.kv_per_token += KvBytesPerToken(*draft, plan, engine, own.group * (own.global + own.others));
  }
  // Positions are spread over `kv` devices, which the engine fills alike.
  m.blocks = m.kv.count() / (m.kv_per_token.count() * m.block_tokens) * plan.kv;
  const double share = static_cast<double>(groups.others) / static_cast<double>(groups.global);
  if (with_states > 0) {
    m.window.states = groups.others;
  } else if (groups.others > 0) {
    m.window = {model.window, share};
  }
  const int64_t windows =
      m.window.Most(engine.max_model_len, engine.max_num_batched_tokens, m.block_tokens);
  m.tokens = std::max<int64_t>(0, m.blocks - windows) * m.block_tokens;
  m.context = engine.max_model_len;
  return m;
}

std::string Verdict(const MemoryLedger& ledger) {
  if (ledger.fits()) {
    return fmt::format("fits: {} tokens of keys and values", ledger.tokens);
  }
  if (ledger.blocks_of_states > MemoryLedger::kMostBlocksOfStates) {
    return fmt::format(
        "does not fit: a layer's states of a sequence are as large as {} of the engine's blocks of "
        "keys and values; at most {} make one",
        ledger.blocks_of_states, MemoryLedger::kMostBlocksOfStates);
  }
  const Bytes needed = ledger.weights + ledger.activations + ledger.reserve;
  if (ledger.states > Bytes() && ledger.most_sequences == 0) {
    return fmt::format(
        "does not fit: of {:.1f} GiB a device {:.1f} go to weights, activations and reserve, and "
        "the {:.2f} for states are less than the {:.2f} of one sequence",
        Gib(ledger.available), Gib(needed), Gib(ledger.states), Gib(ledger.state_per_sequence));
  }
  return fmt::format(
      "does not fit: of {:.1f} GiB a device {:.1f} go to weights, activations and reserve, which "
      "leaves room for {} tokens of keys and values; a request may have {}",
      Gib(ledger.available), Gib(needed), ledger.tokens, ledger.context);
}

}  // namespace foretrace::serve
