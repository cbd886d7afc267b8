#include "simulator/serve/graph_step_model.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace::serve {
namespace {

int64_t Share(int64_t of, int64_t by) { return (of + by - 1) / by; }

class GraphStepModel : public StepModel {
 public:
  GraphStepModel(const TransformerConfig& model, const ServingPlan& plan,
                 const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs)
      : config_(Inference(model)),
        graph_(MakeTransformerGraph(config_)),
        plan_(plan),
        engine_(engine),
        costs_(std::move(costs)),
        width_(ElementSize(config_.dtype)),
        heads_(config_.heads / plan.tensor),
        kv_heads_(std::max<int64_t>(config_.kv_heads / plan.tensor, 1)) {}

  StepTime Time(const StepBatch& batch) const override {
    const int32_t split = plan_.data * plan_.kv;
    const auto tokens = static_cast<int32_t>(Share(batch.tokens(), split));
    StepTime time = Layers(engine_.Padded(tokens, !batch.prefills.empty()));
    time.Add(Head(static_cast<int32_t>(Share(batch.sequences(), split))));
    AddAttention(batch, time);
    return time;
  }

  std::string Source() const override { return costs_->Source(); }

 private:
  static TransformerConfig Inference(TransformerConfig model) {
    model.fused_attention = true;
    model.dropout = false;
    return model;
  }

  // All of the layers but attention, for so many tokens of the device; remembered.
  StepTime Layers(int32_t tokens) const {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = layers_.try_emplace(tokens);
    if (fresh) it->second = ComputeLayers(tokens);
    return it->second;
  }
  StepTime Head(int32_t sequences) const {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = heads_times_.try_emplace(sequences);
    if (fresh) it->second = ComputeHead(sequences);
    return it->second;
  }

  Binding Bind(int32_t tokens) const {
    TransformerConfig sized = config_;
    sized.sequence = tokens;
    Binding sizes =
        BindTransformer(graph_, sized, {.tensor = plan_.tensor, .expert = plan_.expert_degree()});
    if (config_.experts == 0) return sizes;
    const TransformerAxes& a = graph_.axes;
    const auto set = [&](AxisId axis, int64_t size) {
      sizes.size[static_cast<size_t>(axis)] = size;
    };
    if (plan_.expert) {
      set(a.ffn, config_.ffn);
      if (a.up != a.ffn) set(a.up, 2 * config_.ffn);
    }
    // Tokens of all devices that share the experts; only experts that are visited are read.
    const int64_t all = plan_.expert ? int64_t{tokens} * plan_.data * plan_.kv : tokens;
    const double visited =
        VisitedExperts(static_cast<double>(all), static_cast<int32_t>(config_.experts),
                       static_cast<int32_t>(config_.top_k));
    const int64_t here = std::max<int64_t>(1, std::llround(visited / plan_.expert_degree()));
    const int64_t visits = Share(all * config_.top_k, plan_.expert_degree());
    set(a.experts, here);
    set(a.visits, Share(visits, here) * here);
    set(a.stream_visits, sizes.of(a.visits));
    return sizes;
  }

  void AddOps(const Binding& sizes, bool in_block, double times, StepTime& time) const {
    for (OpId id = 0; id < static_cast<OpId>(graph_.graph.ops().size()); ++id) {
      const GraphOp& op = graph_.graph.op(id);
      if (op.in_block != in_block || op.kind == GraphOpKind::kAttention) continue;
      const bool experts = in_block && config_.experts > 0 &&
                           (op.name == "ffn up" || op.name == "ffn down" || op.name == "dispatch");
      for (const OperatorCall& call : CallsOf(graph_.graph, sizes, id, Direction::kForward)) {
        AddKernels(call,
                   experts    ? StepPart::kExperts
                   : in_block ? StepPart::kDense
                              : StepPart::kHead,
                   times, time);
      }
    }
  }

  void AddKernels(const OperatorCall& call, StepPart part, double times, StepTime& time) const {
    for (const KernelWork& work : Kernels(call)) {
      Add(part, costs_->Kernel(work), times, time);
    }
  }
  static void Add(StepPart part, const Estimate& e, double times, StepTime& time) {
    time.Add(part, e.time.us() * times, e.source, e.extrapolated);
  }

  StepTime ComputeLayers(int32_t tokens) const {
    StepTime time;
    const auto layers = static_cast<double>(config_.layers);
    AddOps(Bind(tokens), true, layers, time);
    const Bytes stream(int64_t{tokens} * config_.hidden * width_);
    const auto reduce = [&](double times) {
      Add(StepPart::kCommunication,
          costs_->Collective(CollectiveOp::kAllReduce, plan_.tensor, stream), times * layers, time);
    };
    if (plan_.tensor > 1) reduce(plan_.expert ? 1 : 2);
    if (plan_.expert && plan_.expert_degree() > 1) {  // to the experts, and back
      const Bytes sent(stream.count() * config_.top_k);
      Add(StepPart::kCommunication,
          costs_->Collective(CollectiveOp::kAllToAll, plan_.expert_degree(), sent), 2 * layers,
          time);
    }
    if (plan_.kv > 1) AddCacheExchange(tokens, layers, time);
    if (plan_.pipeline > 1) {
      Add(StepPart::kCommunication, costs_->Send(plan_.stage_devices(), stream), plan_.pipeline - 1,
          time);
    }
    return time;
  }

  // Queries, keys and values of all to all; partial results, with maximum and sum of each head's
  // softmax, back (Cache Parallelism, section 4.4).
  void AddCacheExchange(int32_t tokens, double layers, StepTime& time) const {
    const int64_t all = int64_t{tokens} * plan_.kv;
    const Bytes qkv(all * (heads_ + 2 * kv_heads_) * config_.head_size * width_);
    const Bytes partial(all * heads_ * (config_.head_size + 2) * width_);
    Add(StepPart::kCommunication, costs_->Collective(CollectiveOp::kAllGather, plan_.kv, qkv),
        layers, time);
    Add(StepPart::kCommunication, costs_->Collective(CollectiveOp::kAllToAll, plan_.kv, partial),
        layers, time);
  }

  StepTime ComputeHead(int32_t sequences) const {
    StepTime time;
    AddOps(Bind(sequences), false, 1, time);
    return time;
  }

  void AddAttention(const StepBatch& batch, StepTime& time) const {
    const auto layers = static_cast<double>(config_.layers);
    const int32_t split = plan_.data * plan_.kv;
    for (const PrefillChunk& chunk : batch.prefills) {
      // Within the chunk causal; over what is cached not. Chunks are shared over replicas.
      const double share = 1.0 / split;
      AttentionOp op = {1,    heads_, kv_heads_, chunk.tokens, chunk.tokens, config_.head_size,
                        true, true};
      AddKernels({op, config_.dtype, Direction::kForward}, StepPart::kAttention, layers * share,
                 time);
      if (chunk.cached == 0) continue;
      op.skv = chunk.cached;
      op.causal = false;
      AddKernels({op, config_.dtype, Direction::kForward}, StepPart::kAttention, layers * share,
                 time);
    }
    if (batch.decodes == 0) return;
    // One token attends to all: keys and values stream by once, whatever the heads that share them.
    const int64_t cached = Share(batch.decode_cached + batch.decodes, split);
    KernelWork work;
    work.kind = KernelKind::kElementwise;
    work.dtype = config_.dtype;
    work.read = Bytes(cached * 2 * kv_heads_ * config_.head_size * width_);
    work.written = Bytes(Share(batch.decodes, plan_.data) * heads_ * config_.head_size * width_);
    Add(StepPart::kAttention, costs_->Kernel(work), layers, time);
  }

  const TransformerConfig config_;
  const TransformerGraph graph_;
  const ServingPlan plan_;
  const EngineConfig engine_;
  const std::shared_ptr<const DeviceCosts> costs_;
  const int64_t width_, heads_, kv_heads_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<int32_t, StepTime> layers_, heads_times_;
};

}  // namespace

std::shared_ptr<const StepModel> MakeGraphStepModel(const TransformerConfig& model,
                                                    const ServingPlan& plan,
                                                    const EngineConfig& engine,
                                                    std::shared_ptr<const DeviceCosts> costs) {
  return std::make_shared<GraphStepModel>(model, plan, engine, std::move(costs));
}

}  // namespace foretrace::serve
