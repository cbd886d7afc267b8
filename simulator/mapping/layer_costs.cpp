#include "simulator/mapping/layer_costs.h"

#include <algorithm>
#include <variant>

#include "simulator/base/real_sizes.h"
#include "simulator/mapping/expert_kernels.h"
#include "simulator/mapping/expert_loop.h"
#include "simulator/mapping/kept_activations.h"
#include "simulator/mapping/kernel_coster.h"
#include "simulator/mapping/operand_casts.h"
#include "simulator/mapping/partwise_gemms.h"
#include "simulator/mapping/recomputed_modules.h"
#include "simulator/mapping/scan_kernels.h"
#include "simulator/mapping/shard_copies.h"
#include "simulator/mapping/unfused_kernels.h"

namespace foretrace {
namespace {

class OpCoster {
 public:
  OpCoster(const MappedLayer& layer, const ParallelMapping& mapping,
           const ClusterParameters& cluster, const GroupCosts& groups, CostSources& sources)
      : l_(layer),
        m_(mapping),
        p_(cluster),
        kernels_(cluster),
        unfused_(layer, cluster),
        experts_(layer, mapping, cluster),
        loop_(layer, mapping, cluster),
        partwise_(layer, mapping, cluster, groups, sources),
        casts_(layer, mapping, cluster, sources),
        copier_(layer, mapping, cluster, sources),
        alternate_(EverySecondGemm(layer.graph(), layer.sizes())),
        again_(PartsAgain(layer.graph(), mapping).again),
        sources_(sources) {}

  const std::vector<bool>& again() const { return again_; }
  const ShardCopier& copier() const { return copier_; }

  void Add(OpId id, PassCost& cost) const {
    const GraphOp& op = l_.graph().op(id);
    OpTimes times = TimesOf(id, op, cost);
    const RegionEdge edge = EdgeOf(l_, op);
    cost.alternate += times.forward * alternate_.share[static_cast<size_t>(id)];
    const double alone = times.forward;
    AddAll(times.of_forward, times.forward, cost.of_forward);
    AddAll(times.of_input, times.input, cost.of_backward);
    AddAll(times.of_weight, times.weight, cost.of_backward);
    if (RunsBesideForward(edge, m_)) {
      const double longer = partwise_.Forward(id, edge, times.forward) - times.forward;
      cost.beside += longer;
      times.forward += longer;
    }
    if (RunsBesideBackward(edge, m_)) times.input = partwise_.Backward(id, times.input);
    if (again_[static_cast<size_t>(id)]) {
      // What modules exchange again nothing hides (exchange_costs.cpp).
      cost.again += m_.recompute == Recompute::kModules ? alone : times.forward;
      cost.again_kernels += times.forward_kernels;
    }
    cost.forward += times.forward;
    cost.weight += times.weight;
    cost.backward += times.input + times.weight;
    cost.forward_kernels += times.forward_kernels;
    cost.backward_kernels += times.backward_kernels;
    if (op.kind == GraphOpKind::kAttention) cost.attention += times.forward;
    if (edge == RegionEdge::kEnters) {
      cost.columns.push_back({id, times.input, times.weight, times.of_input, times.of_weight});
    }
    if (op.attention_core || op.kind == GraphOpKind::kAttention ||
        op.kind == GraphOpKind::kContext) {
      cost.attention_core += times.forward;
    }
  }

 private:
  // Of one operator, in seconds, before its kernels run beside exchanges.
  struct OpTimes {
    double forward = 0, input = 0, weight = 0;
    PassKernels of_forward, of_input, of_weight;
    KernelStarts forward_kernels, backward_kernels;
  };

  // What is of the layer as a whole (the ring of attention) goes to `cost`.
  OpTimes TimesOf(OpId id, const GraphOp& op, PassCost& cost) const {
    const OperatorGraph& g = l_.graph();
    KernelList list = ForwardWork(g, l_.sizes(), id);
    BackwardWork work = Differentiate(g, l_.sizes(), id, TableGradients());
    unfused_.Apply(id, list, work);
    if (op.kind == GraphOpKind::kStateScan && m_.context > 1) {
      for (const KernelWork& copy : ScanCopies(l_, op)) {
        list.push_back(copy);
        work.input.push_back(copy);
      }
    }
    experts_.Apply(op, list, work);
    const ExpertLoop::Each each = loop_.Apply(op, list, work.input);
    const bool trained = IsTrained(op, m_);
    if (!trained && op.kind == GraphOpKind::kNorm) DropScales(work.input);
    OpTimes t;
    double &forward = t.forward, &input = t.input;
    forward = Seconds(op, list, false, t.of_forward);
    input = Seconds(op, work.input, true, t.of_input);
    AddEach(op, each, t);
    if (op.kind == GraphOpKind::kAttention && m_.ring) {
      cost.ring = RingAttention(l_, m_, p_, sources_).Cost(id);
      forward = cost.ring.forward.kernels;
      input = cost.ring.backward.kernels;
    }
    if (op.kind == GraphOpKind::kAttention && m_.ulysses) OfOwnHeads(id, forward, input);
    if (op.kind == GraphOpKind::kAttention && m_.context == 1) Windowed(id, forward, input);
    if (op.name == "dispatch") SortByExpert(op, forward, input);
    // The gradient of a table of rows is of its weights alone.
    if (op.kind == GraphOpKind::kGather && !trained && !op.in_block) input = 0;
    if (trained) t.weight = WeightGradients(op, work.weights, t.of_weight);
    if (op.kind == GraphOpKind::kMatmul && op.in_block) {
      const CastTimes casts = TakesCasts(op) ? casts_.Of(op, trained) : CastTimes();
      forward += casts.forward;
      input += casts.backward;
      if (IsAdapted(op, m_)) AddAdapter(id, forward, input);
    }
    if (m_.keeps_eight && op.in_block) AddKept(op, forward, input);
    t.forward_kernels.all += std::ssize(list);
    t.backward_kernels.all += std::ssize(work.input) + (trained ? std::ssize(work.weights) : 0);
    return t;
  }

  // What every expert runs by itself.
  void AddEach(const GraphOp& op, const ExpertLoop::Each& each, OpTimes& t) const {
    if (each.experts == 0) return;
    const auto experts = AsDouble(each.experts);
    PassKernels forward, input;
    t.forward += experts * Seconds(op, each.forward, false, forward) + each.waits;
    t.input += experts * Seconds(op, each.backward, true, input);
    t.of_forward.Add(forward, experts);
    t.of_input.Add(input, experts);
    const auto starts = [&each](const KernelList& list, int64_t further) {
      return KernelStarts{each.experts * std::ssize(list), each.experts * further};
    };
    t.forward_kernels += starts(each.forward, each.forward_further);
    t.backward_kernels += starts(each.backward, each.backward_further);
  }

  // A table's gradient is added to none where it is the only one and has no buffer, or where
  // gradients are divided over replicas: every micro-batch's is reduced by itself.
  TableGradient TableGradients() const {
    const bool wider = l_.gradient_bytes() > ElementSize(l_.dtype());
    const bool alone = !p_.fused_accumulation && !wider && m_.microbatches() == 1;
    return {m_.zero < 2 && !alone, l_.gradient_bytes()};
  }

  // What arrives from other devices lies by sender; where several experts are at home it is copied
  // into the order of the experts, and results back; backward their gradients (Megatron Core,
  // transformer/moe/token_dispatcher.py, sort_chunks_by_idxs).
  void SortByExpert(const GraphOp& op, double& forward, double& backward) const {
    if (m_.expert == 1 || l_.sizes().of(l_.axes().experts) < 2) return;
    if (LoopsOverExperts(l_, p_)) return;  // finds them where they lie
    // DeepEP's tokens are copied for their experts where they arrive, gathered ones are chosen
    // there: either is the operator's own gathering.
    if (m_.dispatch != ExpertDispatch::kAllToAll) return;
    const OperatorGraph& g = l_.graph();
    const int64_t gathered = m_.sequence_parallel ? m_.expert_width() : 1;
    const int64_t n = Elements(g, l_.sizes(), op.outputs[0]) * gathered;
    const double copy = Call(ElementwiseOp{n, n}, g.tensor(op.outputs[0]).dtype);
    forward += 2 * copy;
    backward += 2 * copy;
  }

  // Attention of the layers that have a window: over pieces of the sequence, each by itself, or of
  // every query over the keys before it.
  void Windowed(OpId id, double& forward, double& backward) const {
    const LayerWindow& window = l_.window();
    const OperatorGraph& g = l_.graph();
    AttentionOp call =
        std::get<AttentionOp>(CallsOf(g, l_.sizes(), id, Direction::kForward).front().shape);
    if (window.share <= 0 || window.tokens <= 0 || window.tokens >= call.sq) return;
    if (window.pieces) {
      call.b = (call.b * call.sq + window.tokens - 1) / window.tokens;
      call.sq = window.tokens;
    } else {
      call.causal = false;
    }
    call.skv = window.tokens;
    const DType dtype = g.tensor(g.op(id).inputs[0]).dtype;
    const auto mix = [&](double& whole, Direction pass) {
      const double own = kernels_.Time(Kernels({call, dtype, pass}), sources_).seconds();
      whole = window.share * own + (1 - window.share) * whole;
    };
    mix(forward, Direction::kForward);
    mix(backward, Direction::kBackward);
  }

  // Whole sequences of a part of the heads. What is exchanged is copied by receiver, and what
  // arrives into the order of the sequence (Transformer Engine, AttnFuncWithCPAndQKVOA2A,
  // flash_attn_a2a_communicate).
  void OfOwnHeads(OpId id, double& forward, double& backward) const {
    const OperatorGraph& g = l_.graph();
    AttentionOp call =
        std::get<AttentionOp>(CallsOf(g, l_.sizes(), id, Direction::kForward).front().shape);
    const DType dtype = g.tensor(g.op(id).inputs[0]).dtype;
    const int64_t queries = call.b * call.heads * call.sq * call.d;
    const int64_t both = 2 * queries + 2 * call.b * call.kv_heads * call.sq * call.d;
    call.heads = std::max<int64_t>(call.heads / m_.context, 1);
    call.kv_heads = std::max<int64_t>(call.kv_heads / m_.context, 1);
    call.sq = call.skv;
    const double copies = 2 * Call(ElementwiseOp{both, both}, dtype);
    const auto pass = [&](Direction direction) {
      return kernels_.Time(Kernels({call, dtype, direction}), sources_).seconds() + copies;
    };
    forward = pass(Direction::kForward);
    backward = pass(Direction::kBackward);
  }

  bool IsNarrow(const GraphOp& op, const KernelWork& work) const {
    return m_.narrow() && TakesCasts(op) && work.m > 0;
  }

  // The sums down the rows, which are of a norm's own weights.
  static void DropScales(KernelList& list) {
    const auto end = std::remove_if(list.begin(), list.end(),
                                    [](const KernelWork& work) { return work.across_rows; });
    list.erase(end, list.end());
  }

  double Seconds(const GraphOp& op, const KernelWork& work, bool backward) const {
    const bool narrow = IsNarrow(op, work);
    const GemmForm form{narrow && !m_.nvfp4, narrow && m_.nvfp4, backward};
    return std::max(kernels_.Time(work, sources_, form).seconds(),
                    DecayGemmSeconds(l_, op, work, p_));
  }
  // Adds to `kernels` those that it times.
  double Seconds(const GraphOp& op, const KernelList& list, bool backward,
                 PassKernels& kernels) const {
    double sum = 0;
    for (const KernelWork& work : list) sum += Seconds(op, work, backward, kernels);
    return sum;
  }
  double Seconds(const GraphOp& op, const KernelWork& work, bool backward,
                 PassKernels& kernels) const {
    const double seconds = Seconds(op, work, backward);
    if (const auto demand = kernels_.Demand(work)) kernels.Add(*demand, seconds);
    return seconds;
  }
  // What an operator takes, as if all of it were like its own kernels.
  static void AddAll(const PassKernels& own, double seconds, PassKernels& all) {
    if (!own.empty()) all.Add(own, seconds / own.seconds());
  }
  double Call(const OperatorCall::Shape& shape, DType dtype) const {
    return kernels_.CallSeconds(shape, dtype, sources_);
  }

  // Weight gradients are added to the buffer that they accumulate in by the GEMM itself
  // (Megatron-LM's gradient_accumulation_fusion), which reads and writes it; of the first
  // micro-batch it only writes (Transformer Engine, pytorch/module/linear.py,
  // accumulate_wgrad_into_param_main_grad). Gradients that are divided over replicas are written
  // anew for every micro-batch, as only the own part accumulates, after their reduction. Adding is
  // a tile's last work, for which its block has no GEMMs left to hide it behind: on a B200
  // (SimuMax, efficiency_matmul of b200_bf16_ceperm.json, 131 shapes) gradients accumulated in 32
  // bits take 1.1 times the extra bytes at the memory's peak longer than the forward GEMM, in the
  // median.
  double WeightGradients(const GraphOp& op, const KernelList& list, PassKernels& kernels) const {
    const double bytes = AsDouble(l_.gradient_bytes());
    double seconds = 0;
    for (const KernelWork& work : list) {
      seconds += Seconds(op, work, true, kernels);
      if (p_.fused_accumulation && copier_.copies()) continue;
      if (!p_.fused_accumulation) {
        seconds += Accumulation(work);
        continue;
      }
      const double results = AsDouble(work.batch) * AsDouble(work.m) * AsDouble(work.n);
      const bool added = m_.zero < 2 && m_.microbatches() > 1;
      const double moved = (added ? 2 : 1) * bytes * results;
      const double extra = results > 0 ? moved - AsDouble(work.written.count()) : 0;
      if (extra <= 0) continue;
      const SimTime exposed = SimTime::FromSeconds(extra / p_.peak_memory.bytes_per_second());
      sources_.Add(exposed.seconds(), {exposed, EstimateSource::kAnalytic, true});
      seconds += exposed.seconds();
    }
    return seconds;
  }

  // The kernel that adds a gradient to what it accumulates in: a buffer of more bits, which is
  // there from the start, or the first micro-batch's gradient itself.
  double Accumulation(const KernelWork& work) const {
    const bool wider = l_.gradient_bytes() > ElementSize(work.dtype);
    if (!wider && m_.microbatches() == 1) return 0;
    const int64_t n = work.written.count() / std::max<int64_t>(ElementSize(work.dtype), 1);
    ElementwiseOp call{n, 2 * n};
    if (!wider) return Call(call, work.dtype);
    call.read_elements = n + n * ElementSize(work.dtype) / l_.gradient_bytes();
    return Call(call, DType::kFloat32);
  }

  // What is kept in fewer bits and no GEMM took so is cast for it: what a gated activation took;
  // what attention gave, in 12 bits, which is cast again backward, to scales down the columns.
  void AddKept(const GraphOp& op, double& forward, double& input) const {
    const OperatorGraph& g = l_.graph();
    const bool attention = op.kind == GraphOpKind::kAttention;
    if (!attention && (op.kind != GraphOpKind::kElementwise || op.function != "silu")) return;
    const TensorId t = attention ? op.outputs[0] : op.inputs[0];
    const int64_t n = Elements(g, l_.sizes(), t);
    ElementwiseOp cast{n, n};
    cast.output_dtype = DType::kUInt8;
    if (attention) {
      // Read in 12 bits: three quarters of 16.
      cast.read_elements = n * 3 / 4;
      input += Call(cast, g.tensor(t).dtype);
      cast.read_elements = n;
      cast.elements = n * 3 / 2;
    }
    forward += Call(cast, g.tensor(t).dtype);
  }

  // Two GEMMs of the adapter's rank and the addition of their result; backward their gradients,
  // twice as much, and the addition of the input's.
  void AddAdapter(OpId id, double& forward, double& input) const {
    const OperatorGraph& g = l_.graph();
    const DType dtype = g.tensor(g.op(id).inputs[0]).dtype;
    for (const OperatorCall& call : CallsOf(g, l_.sizes(), id, Direction::kForward)) {
      const auto* linear = std::get_if<LinearOp>(&call.shape);
      if (linear == nullptr) continue;
      const double both = Call(LinearOp{linear->m, m_.lora, linear->k}, dtype) +
                          Call(LinearOp{linear->m, linear->n, m_.lora}, dtype);
      const int64_t out = linear->m * linear->n, in = linear->m * linear->k;
      forward += both + Call(ElementwiseOp{out, 2 * out}, dtype);
      input += 2 * both + Call(ElementwiseOp{in, 2 * in}, dtype);
    }
  }

  const MappedLayer& l_;
  const ParallelMapping& m_;
  const ClusterParameters& p_;
  KernelCoster kernels_;
  UnfusedKernels unfused_;
  ExpertKernels experts_;
  ExpertLoop loop_;
  PartwiseGemms partwise_;
  OperandCasts casts_;
  ShardCopier copier_;
  AlternateGemms alternate_;
  std::vector<bool> again_;  // by operator: PartsAgain's
  CostSources& sources_;
};

}  // namespace

KernelStarts RepeatedKernels(const ParallelMapping& mapping, const PassCost& layer) {
  switch (mapping.recompute) {
    case Recompute::kFull:
    case Recompute::kOperators:
      return layer.forward_kernels;
    case Recompute::kAlternate:
      return {layer.forward_kernels.all / 2, layer.forward_kernels.further / 2};
    default:
      return layer.again_kernels;
  }
}

OpCosts CostOps(const MappedLayer& layer, const ParallelMapping& mapping,
                const ClusterParameters& cluster, const GroupCosts& groups, CostSources& sources) {
  const OpCoster coster(layer, mapping, cluster, groups, sources);
  OpCosts costs;
  const OperatorGraph& g = layer.graph();
  bool passed = false;
  for (OpId id = 0; static_cast<size_t>(id) < g.ops().size(); ++id) {
    const bool in_block = g.op(id).in_block;
    passed |= in_block;
    coster.Add(id, in_block ? costs.layer : passed ? costs.after : costs.before);
  }
  if (mapping.recompute == Recompute::kModules) costs.layer.parts_again = coster.again();
  const bool eight = mapping.fp8 && cluster.eight_bit_gathers;
  const auto [first, last] = layer.RootWeights();
  const int64_t width = ElementSize(layer.dtype());
  const double shards = mapping.shards();
  costs.layer_copies = coster.copier().Of(
      layer.dense() + layer.expert(), layer.trained() + layer.trained_expert(),
      layer.trained() / shards + layer.trained_expert() / mapping.expert_shards(),
      eight ? 1 : width);
  const double ends = mapping.trains_ends() ? 1 : 0;
  costs.first_copies = coster.copier().Of(first, ends * first, ends * first / shards, width);
  costs.last_copies = coster.copier().Of(last, ends * last, ends * last / shards, width);
  // No backward pass goes below the layers where nothing there is trained.
  if (!mapping.trains_ends()) costs.before.backward = 0;
  return costs;
}

}  // namespace foretrace
