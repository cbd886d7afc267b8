#include "simulator/serve/memory_ledger.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace::serve {
namespace {

double GiB(Bytes b) { return static_cast<double>(b.count()) / (1 << 30); }

// Weights of the layers of one stage, and of embedding and output layer, which lie on the first and
// the last: with a pipeline the larger of the two.
Bytes WeightBytes(const TransformerConfig& model, const ServingPlan& plan) {
  const TransformerGraph graph = MakeTransformerGraph(model);
  Binding sizes =
      BindTransformer(graph, model, {.tensor = plan.tensor, .expert = plan.expert_degree()});
  if (plan.expert) {
    sizes.size[static_cast<size_t>(graph.axes.ffn)] = model.ffn;
    if (graph.axes.up != graph.axes.ffn)
      sizes.size[static_cast<size_t>(graph.axes.up)] = 2 * model.ffn;
  }
  Bytes block, before, after;
  const auto add = [&](const GraphOp& op, Bytes& to) {
    for (const TensorId t : op.inputs) {
      if (graph.graph.tensor(t).role == TensorRole::kWeight) to += SizeOf(graph.graph, sizes, t);
    }
  };
  bool reached_blocks = false;
  for (const GraphOp& op : graph.graph.ops()) {
    reached_blocks = reached_blocks || op.in_block;
    add(op, op.in_block ? block : reached_blocks ? after : before);
  }
  if (IsTied(model) && plan.pipeline == 1) after = Bytes(0);
  const int64_t layers = (model.layers + plan.pipeline - 1) / plan.pipeline;
  return block * layers + (plan.pipeline > 1 ? std::max(before, after) : before + after);
}

// Residual stream, normalised input and output of a layer; of its widest part the first and second
// product's results; logits of every sequence, in the model's precision and in 32 bits.
Bytes ActivationBytes(const TransformerConfig& model, const ServingPlan& plan,
                      const EngineConfig& engine) {
  const int64_t width = ElementSize(model.dtype);
  const int64_t visits = model.experts > 0 ? model.top_k : 1;
  const int64_t up =
      (IsGated(model) ? 3 : 2) * model.ffn * visits / (plan.expert ? 1 : plan.tensor);
  const int64_t per_token = (3 * model.hidden + up) * width;
  const int64_t logits = model.vocabulary * (width + 4);
  return Bytes(per_token * engine.max_num_batched_tokens + logits * engine.max_num_seqs);
}

}  // namespace

MemoryLedger MakeLedger(const TransformerConfig& model, const ServingPlan& plan,
                        const EngineConfig& engine, Bytes device) {
  MemoryLedger m;
  m.device = device;
  m.available =
      Bytes(static_cast<int64_t>(static_cast<double>(device.count()) * engine.memory_utilization));
  m.weights = WeightBytes(model, plan);
  if (!engine.reserve_holds_activations) m.activations = ActivationBytes(model, plan, engine);
  m.reserve = engine.reserve;
  m.kv = std::max(Bytes(0), m.available - m.weights - m.activations - m.reserve);
  const int64_t heads = std::max<int64_t>(model.kv_heads / plan.tensor, 1);
  const int64_t layers = (model.layers + plan.pipeline - 1) / plan.pipeline;
  m.kv_per_token = Bytes(2 * heads * model.head_size * layers * ElementSize(model.dtype));
  // Sequences and their positions are spread over `data` and `kv` devices, which the engine fills
  // alike.
  m.blocks = m.kv.count() / (m.kv_per_token.count() * engine.block_tokens) * plan.data * plan.kv;
  m.tokens = m.blocks * engine.block_tokens;
  m.context = engine.max_model_len;
  return m;
}

std::string Verdict(const MemoryLedger& ledger, const TransformerConfig& model,
                    const ServingPlan& plan, const EngineConfig& engine) {
  if (ledger.fits()) {
    return fmt::format("fits: {} tokens of keys and values", ledger.tokens);
  }
  const Bytes needed = ledger.weights + ledger.activations + ledger.reserve;
  std::string text = fmt::format(
      "does not fit: of {:.1f} GiB a device {:.1f} go to weights, activations and reserve, which "
      "leaves room for {} tokens of keys and values; a request may have {}",
      GiB(ledger.available), GiB(needed), ledger.tokens, ledger.context);
  for (ServingPlan more = plan; more.tensor <= model.heads; more.tensor *= 2) {
    if (!more.Fits(model).ok() || !MakeLedger(model, more, engine, ledger.device).fits()) continue;
    return text + fmt::format("; tp{} would fit", more.tensor);
  }
  return text;
}

}  // namespace foretrace::serve
