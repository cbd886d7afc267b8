#include "simulator/serve/graph_step_model.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "simulator/serve/engine_exchanges.h"
#include "simulator/serve/expert_transfers.h"
#include "simulator/serve/layer_attention.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/layer_profile.h"
#include "simulator/serve/layer_scan.h"
#include "simulator/serve/weighted_gemm.h"
#include "simulator/workload/layer_pattern.h"

namespace foretrace::serve {
namespace {

// The operator of transformer_graph.h that makes keys and values from latents.
constexpr std::string_view kLatentsUp = "key and value up";

// That of mixer_graph.h which multiplies a delta rule's norm by the gate, in the norm's kernel here
// (vLLM, model_executor/layers/fla/ops/layernorm_guard.py).
constexpr std::string_view kMixerGate = "mixer gate";

int64_t Share(int64_t of, int64_t by) { return (of + by - 1) / by; }

TransformerConfig Inference(TransformerConfig model) {
  model.fused_attention = true;
  model.dropout = false;
  return model;
}

// Of what mixes tokens, and of what feeds forward; see AddExchanges.
int SumsOfLayer(const TransformerConfig& c, bool sends) {
  const LayerPart part = PartOf(c);
  const bool mixes = part != LayerPart::kFeedForward && part != LayerPart::kExperts;
  const bool feeds = part == LayerPart::kWhole || !mixes;
  const int branches = part == LayerPart::kParallel ? 2 : mixes ? 1 : 0;
  return branches + (feeds && (!sends || c.shared_ffn > 0) ? 1 : 0);
}

class GraphStepModel : public StepModel {
 public:
  GraphStepModel(const TransformerConfig& model, const ServingPlan& plan,
                 const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs)
      : config_(Inference(model)),
        kinds_(ServedKinds(config_, plan)),
        plan_(plan),
        engine_(engine),
        costs_(std::move(costs)),
        attention_(config_, plan, engine, costs_),
        scan_(config_, plan, engine, costs_),
        width_(ElementSize(config_.dtype)) {}

  StepTime Time(const StepBatch& batch) const override {
    StepTime time = Layers(TokensOf(batch));
    time.Add(Head(static_cast<int32_t>(Share(batch.logits(), plan_.kv))));
    attention_.Add(batch, time);
    scan_.Add(batch, time);
    return time;
  }

  std::string Source() const override { return costs_->Source(); }

 private:
  // Tokens of the data-parallel ranks in a step, of a device each. Without ranks that share the
  // experts there is only the own.
  struct RankTokens {
    int32_t own = 0;
    int32_t most = 0;      // of the fullest
    int64_t all = 0;       // of the devices that share the experts
    bool prompts = false;  // some rank has one
    bool operator==(const RankTokens&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const RankTokens& t) {
      return H::combine(std::move(h), t.own, t.most, t.all, t.prompts);
    }
  };

  // Ranks that share experts replay graphs where all of them can, of the size that the fullest
  // needs (vLLM, vllm/v1/worker/dp_utils.py, coordinate_batch_across_dp). Where the others' are not
  // told they are taken to be alike.
  RankTokens TokensOf(const StepBatch& batch) const {
    RankTokens t;
    t.prompts = !batch.prefills.empty();
    const auto own = static_cast<int32_t>(Share(batch.tokens(), plan_.kv));
    if (!plan_.expert || plan_.data == 1 || batch.peer_tokens.empty()) {
      t.own = t.most = engine_.Padded(own, t.prompts);
      t.all = plan_.expert ? int64_t{t.own} * plan_.data * plan_.kv : t.own;
      return t;
    }
    t.prompts = t.prompts || batch.peer_prompts;
    int64_t all = own;
    t.most = own;
    for (const int32_t tokens : batch.peer_tokens) {
      const auto peer = static_cast<int32_t>(Share(tokens, plan_.kv));
      t.most = std::max(t.most, peer);
      all += peer;
    }
    t.own = own;
    if (engine_.Captured(t.most, t.prompts)) {
      t.own = t.most = engine_.Padded(t.most, t.prompts);
      all = int64_t{t.own} * plan_.data;
    }
    t.all = all * plan_.kv;
    return t;
  }

  // All of the layers but attention; remembered.
  StepTime Layers(const RankTokens& tokens) const {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = layers_.try_emplace(tokens);
    if (fresh) it->second = ComputeLayers(tokens);
    return it->second;
  }
  StepTime Head(int32_t positions) const {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = heads_times_.try_emplace(positions);
    if (fresh) {
      AddOps(kinds_.front(), {positions, positions, positions}, false, 1, it->second);
      AddLogits(positions, it->second);
    }
    return it->second;
  }

  std::optional<Estimate> MeasuredExperts(const TransformerConfig& c,
                                          const RankTokens& tokens) const {
    if (c.experts == 0) return std::nullopt;
    return costs_->Experts({ExpertWidth(c), c.ffn, c.experts, c.top_k,
                            plan_.expert ? 1 : int64_t{plan_.tensor}, plan_.expert_degree(),
                            tokens.all, c.expert_weights});
  }

  // Of experts only those that are activated are read.
  Binding Bind(const ServedKind& kind, const RankTokens& tokens) const {
    Binding sizes = BindServing(kind, plan_, tokens.own);
    const TransformerConfig& c = kind.config;
    if (c.experts == 0) return sizes;
    const TransformerAxes& a = kind.graph.axes;
    const auto set = [&](AxisId axis, int64_t size) {
      sizes.size[static_cast<size_t>(axis)] = size;
    };
    const int64_t all = tokens.all;
    const double activated = ActivatedExperts(
        static_cast<double>(all), static_cast<int32_t>(c.experts), static_cast<int32_t>(c.top_k));
    const int64_t here = std::max<int64_t>(1, std::llround(activated / plan_.expert_degree()));
    const int64_t routed = Share(all * c.top_k, plan_.expert_degree());
    set(a.experts, here);
    set(a.routed, Share(routed, here) * here);
    set(a.stream_routed, sizes.of(a.routed));
    return sizes;
  }

  void AddOps(const ServedKind& kind, const RankTokens& tokens, bool in_block, double times,
              StepTime& time) const {
    const Binding sizes = Bind(kind, tokens);
    const OperatorGraph& graph = kind.graph.graph;
    const auto measured = in_block ? MeasuredExperts(kind.config, tokens) : std::nullopt;
    if (measured) Add(StepPart::kExperts, *measured, times, time);
    for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
      const GraphOp& op = graph.op(id);
      if (op.in_block != in_block || op.kind == GraphOpKind::kAttention ||
          op.kind == GraphOpKind::kStateScan) {
        continue;
      }
      if (op.name == kLatentsUp) continue;  // of prompts alone: LayerAttention
      if (op.name == kMixerGate) continue;  // of the norm before it: LayerScan
      const bool experts = in_block && kind.config.experts > 0 &&
                           (op.name == "ffn up" || op.name == "ffn down" || op.name == "dispatch");
      const bool as_one = measured && (experts || op.name == "activation");
      const StepPart part = experts    ? StepPart::kExperts
                            : in_block ? StepPart::kDense
                                       : StepPart::kHead;
      for (const OperatorCall& call : CallsOf(graph, sizes, id, Direction::kForward)) {
        const WeightFormat format = FormatOf(kind.config, op);
        for (const KernelWork& work : Kernels(call)) {
          const Estimate alone = WeightedGemm(*costs_, work, format);
          time.joules += times * WeightedJoules(*costs_, work, format, alone.time);
          if (!as_one) Add(part, alone, times, time);
        }
      }
    }
  }

  // Each rank has the logits of its part of the vocabulary, and samples from all (vLLM,
  // logits_processor.py; SGLang, logits_processor.py).
  void AddLogits(int64_t positions, StepTime& time) const {
    if (plan_.tensor == 1) return;
    Add(StepPart::kCommunication,
        costs_->Collective(CollectiveOp::kAllGather, plan_.tensor,
                           Bytes(positions * config_.vocabulary * width_)),
        1, time);
  }

  void Add(StepPart part, const Estimate& e, double times, StepTime& time) const {
    time.Add(part, RealUs((e.time + engine_.launch_gap()).us() * times), e.source, e.extrapolated);
  }

  StepTime ComputeLayers(const RankTokens& tokens) const {
    StepTime time;
    const Bytes stream(int64_t{tokens.own} * config_.hidden * width_);
    for (const ServedKind& kind : kinds_) {
      const auto layers = static_cast<double>(kind.layers);
      AddOps(kind, tokens, true, layers, time);
      AddExchanges(kind.config, tokens, layers, time);
    }
    if (plan_.tensor > 1) {  // words that a rank has not are zeros of its embedding
      Add(StepPart::kCommunication, SumOverRanks(engine_, *costs_, plan_.tensor, stream), 1, time);
    }
    if (plan_.kv > 1) {
      AddCacheExchange(tokens.own, static_cast<double>(AttentionLayers(config_)), time);
    }
    if (plan_.pipeline > 1) {
      Add(StepPart::kCommunication, costs_->Send(plan_.stage_devices(), stream), plan_.pipeline - 1,
          time);
    }
    return time;
  }

  // Ranks that share the one group of a mixer's heads sum the squares that its norm takes, in 32
  // bits (vLLM, model_executor/layers/mamba/mamba_mixer2.py, Mixer2RMSNormGated).
  static constexpr int64_t kSquares = 4;
  bool NormsOneGroup(const TransformerConfig& c) const {
    return HasStates(c) && c.state_norm && PartOf(c) != LayerPart::kDelta &&
           config_.state_groups == 1;
  }

  // Sums over the tensor-parallel ranks after attention and the feed-forward part, or the one part
  // that a layer is. Where experts are divided, ranks of one replica have all of its tokens and sum
  // what their experts make of them, as without; what sends tokens to the experts and back instead
  // sums what the experts made that every token is routed to (vLLM, fused_moe/config.py,
  // use_all2all_kernels).
  void AddExchanges(const TransformerConfig& c, const RankTokens& tokens, double layers,
                    StepTime& time) const {
    const bool sends = SendsTokens(c, plan_, engine_.experts.Of(tokens.prompts));
    const int sums = SumsOfLayer(c, sends);
    const Bytes stream(int64_t{tokens.own} * config_.hidden * width_);
    if (plan_.tensor > 1) {
      Add(StepPart::kCommunication, SumOverRanks(engine_, *costs_, plan_.tensor, stream),
          sums * layers, time);
    }
    if (plan_.tensor > 1 && NormsOneGroup(c)) {
      Add(StepPart::kCommunication,
          SumOverRanks(engine_, *costs_, plan_.tensor, Bytes(int64_t{tokens.own} * kSquares)),
          layers, time);
    }
    if (!sends) return;
    const ExpertTransferTimes times = TransferTimes(c, plan_, engine_.experts, *costs_,
                                                    {tokens.most, tokens.all}, tokens.prompts);
    Add(StepPart::kCommunication, times.dispatch, layers, time);
    Add(StepPart::kCommunication, times.combine, layers, time);
    if (plan_.tensor == 1) return;
    // Each rank of a replica has the results of its part of the tokens (vLLM, deepseek_v2.py,
    // tensor_model_parallel_all_gather under is_sequence_parallel).
    Add(StepPart::kCommunication,
        costs_->Collective(CollectiveOp::kAllGather, plan_.tensor, stream), layers, time);
  }

  // Queries, keys and values of all to all; partial results, with maximum and sum of each head's
  // softmax, back (Cache Parallelism, section 4.4).
  void AddCacheExchange(int32_t tokens, double layers, StepTime& time) const {
    const int64_t all = int64_t{tokens} * plan_.kv;
    const int64_t heads = config_.heads / plan_.tensor;
    const bool latent = config_.latent > 0;
    const int64_t query = latent ? config_.latent + config_.rotary_size : config_.head_size;
    const int64_t result = latent ? config_.latent : config_.head_size;
    const Bytes qkv(all * (heads * query + CacheElements(config_, plan_.tensor)) * width_);
    const Bytes partial(all * heads * (result + 2) * width_);
    Add(StepPart::kCommunication, costs_->Collective(CollectiveOp::kAllGather, plan_.kv, qkv),
        layers, time);
    Add(StepPart::kCommunication, costs_->Collective(CollectiveOp::kAllToAll, plan_.kv, partial),
        layers, time);
  }

  const TransformerConfig config_;
  const std::vector<ServedKind> kinds_;
  const ServingPlan plan_;
  const EngineConfig engine_;
  const std::shared_ptr<const DeviceCosts> costs_;
  const LayerAttention attention_;
  const LayerScan scan_;
  const int64_t width_;
  mutable std::mutex mutex_;
  mutable absl::flat_hash_map<RankTokens, StepTime> layers_;
  mutable absl::flat_hash_map<int32_t, StepTime> heads_times_;
};

}  // namespace

std::shared_ptr<const StepModel> MakeGraphStepModel(const TransformerConfig& model,
                                                    const ServingPlan& plan,
                                                    const EngineConfig& engine,
                                                    std::shared_ptr<const DeviceCosts> costs) {
  return std::make_shared<GraphStepModel>(model, plan, engine, std::move(costs));
}

}  // namespace foretrace::serve
