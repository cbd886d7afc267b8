#include "simulator/mapping/exchange_costs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulator/base/real_sizes.h"
#include "simulator/mapping/expert_dispatch.h"
#include "simulator/mapping/partwise_gemms.h"

namespace foretrace {
namespace {

class ExchangeCoster {
 public:
  ExchangeCoster(const TransformerConfig& model, const ParallelMapping& mapping,
                 const MappedLayer& layer, const ClusterParameters& cluster,
                 const GroupCosts& groups, const PassCost& kernels)
      : m_(mapping),
        l_(layer),
        p_(cluster),
        groups_(groups),
        kernels_(kernels),
        forms_(cluster.forms),
        dispatcher_(model, mapping, layer, cluster, groups),
        sharded_(layer.model().Sharded(model, mapping, cluster.forms.wide_merges)),
        sizes_(sharded_.Bind(layer.sizes(), {{m_.tensor, m_.context, m_.expert}})) {}

  void Set(PassTimes& times) {
    bool passed = false;
    for (const PlacedExchange& placed : sharded_.exchanges) {
      const GroupExchange& exchange = sharded_.graph.op(placed.op).exchange;
      const bool in_block = l_.graph().op(placed.of).in_block;
      passed |= in_block;
      if (exchange.backward == CollectiveOp::kSendRecv) {
        OfRing(placed, times);
      } else if (in_block) {
        OfLayer(placed, exchange, times);
      } else {
        OfEnd(placed, exchange, passed ? times.head_exchanges : times.embedding_exchanges);
      }
    }
    PassExchanges& all = times.layer_exchanges;
    if (SendsOnce(m_.dispatch)) {
      times.expert_nodes = ExpertNodes(m_, p_.devices_per_node);
    }
    Repeat(all.backward);
    for (const bool forward : {true, false}) HideExperts(forward);
    for (const bool forward : {true, false}) {
      const PassExchanges::List& beside = beside_.of(forward);
      PassExchanges::List& list = all.of(forward);
      list.insert(list.begin(), beside.begin(), beside.end());
    }
  }

 private:
  // Whether an exchange of that operator is repeated at all.
  bool MayRepeat(OpId of) const {
    return m_.recompute != Recompute::kModules || kernels_.parts_again[static_cast<size_t>(of)];
  }

  // Queries, keys and values that go to other devices for whole sequences are exchanged one after
  // the other (Transformer Engine, context_parallel.py, flash_attn_a2a_communicate), and so is what
  // a scan of states takes (Megatron Core, ssm/mamba_context_parallel.py, pre_conv_ssm); all others
  // together.
  std::vector<PassExchange> Each(const PlacedExchange& placed, CollectiveOp op) {
    const GraphOp& exchanged = sharded_.graph.op(placed.op);
    const bool scan = l_.graph().op(placed.of).kind == GraphOpKind::kStateScan;
    if (exchanged.exchange.group != ShardGroup::kContext || !(m_.ulysses || scan)) {
      return {Timed(placed, op, ExchangedBytes(sharded_.graph, sizes_, placed.op))};
    }
    std::vector<PassExchange> each;
    for (const TensorId t : exchanged.inputs) {
      each.push_back(Timed(placed, op, SizeOf(sharded_.graph, sizes_, t)));
    }
    return each;
  }

  PassExchange Timed(const PlacedExchange& placed, CollectiveOp op, Bytes bytes) {
    const GroupExchange& exchange = sharded_.graph.op(placed.op).exchange;
    if (op == CollectiveOp::kAllGather && exchange.group == ShardGroup::kTensor) {
      const RegionEdge edge = EdgeOf(l_, l_.graph().op(placed.of));
      const double share = GatheredShare(edge, l_.dtype(), m_, p_);
      bytes = WholeBytes(share * static_cast<double>(bytes.count()));
    }
    for (const PassExchange& e : known_) {
      if (e.group != exchange.group || e.op != op || e.bytes != bytes) continue;
      PassExchange same = e;
      same.count = exchange.count;
      return same;
    }
    const SimTime time = groups_.Exchange(exchange.group, op, static_cast<double>(bytes.count()));
    known_.push_back({exchange.group, op, time, bytes, exchange.count});
    return known_.back();
  }

  void OfEnd(const PlacedExchange& placed, const GroupExchange& exchange, PassExchanges& out) {
    if (exchange.forward != CollectiveOp::kUnknown) {
      for (const PassExchange& e : Each(placed, exchange.forward)) out.forward.push_back(e);
    }
    for (const CollectiveOp op : BackwardExchanges(exchange)) {
      // The sum of the output layer's input gradient runs behind its weight gradient.
      const bool hidden = m_.overlap_tensor && !placed.after && op == exchange.backward;
      if (hidden) continue;
      for (const PassExchange& e : Each(placed, op)) out.backward.push_back(e);
    }
  }

  // Tokens go to experts before their GEMMs, and gradients of results.
  void OfExperts(const PlacedExchange& placed, PassTimes& times) {
    const Bytes routed = ExchangedBytes(sharded_.graph, sizes_, placed.op);
    for (const bool forward : {true, false}) {
      PassExchanges::List& list = times.layer_exchanges.of(forward);
      for (const PassExchange& e :
           dispatcher_.Exchange(forward != placed.after, routed, !placed.after)) {
        if (forward && MayRepeat(placed.of)) Join(again_, e);
        if (m_.overlap_experts) {
          experts_.of(forward).push_back(e);
        } else {
          Join(list, e);
        }
      }
    }
  }

  // Beside a layer's forward pass of one micro-batch the backward pass of another one exchanges,
  // and the other way round. Which has more to hide is not told apart: each pass hides as much of
  // its own as it has kernels left. Those lose the multiprocessors that exchanges take.
  void HideExperts(bool forward) {
    PassExchanges::List& experts = experts_.of(forward);
    if (experts.empty()) return;
    PassExchanges::List& beside = beside_.of(forward);
    const bool split = !forward && m_.zero_bubble();
    double left = forward ? kernels_.forward : kernels_.backward - (split ? kernels_.weight : 0);
    for (const PassExchange& e : beside) {
      if (!e.goes_on) left -= e.cover.seconds() * e.count;
    }
    SimTime all;
    for (PassExchange& e : experts) {
      e.beside = true;
      e.goes_on = &e != &experts.front();
      all += e.time;
    }
    const PassKernels& kernels = forward ? kernels_.of_forward : kernels_.of_backward;
    const double times = groups_.TimesBeside(kernels, dispatcher_.Held(experts));
    experts.front().cover = std::min(SimTime::FromSeconds(std::max(left, 0.0) * times), all);
    experts.front().slowed = times;
    beside.insert(beside.end(), experts.begin(), experts.end());
  }

  void OfLayer(const PlacedExchange& placed, const GroupExchange& exchange, PassTimes& times) {
    if (exchange.group == ShardGroup::kExpert) return OfExperts(placed, times);
    const bool tensor = exchange.group == ShardGroup::kTensor;
    const RegionEdge edge = tensor ? EdgeOf(l_, l_.graph().op(placed.of)) : RegionEdge::kNone;
    if (exchange.forward != CollectiveOp::kUnknown) {
      for (const PassExchange& timed : Each(placed, exchange.forward)) {
        if (MayRepeat(placed.of)) Join(again_, timed);
        if (!RunsBesideForward(edge, m_)) Join(times.layer_exchanges.forward, timed);
      }
    }
    if (RunsBesideBackward(edge, m_)) return;
    const PassCost::Column* column = ColumnOf(placed.of, edge);
    const auto ops = BackwardExchanges(exchange);
    for (const CollectiveOp op : ops) {
      for (PassExchange timed : Each(placed, op)) {
        if (column == nullptr) {
          Join(times.layer_exchanges.backward, timed);
          continue;
        }
        timed.beside = true;
        timed.goes_on = op != ops.front();
        const bool gathers = ops.size() > 1;
        timed.cover = SimTime::FromSeconds(column->weight + (gathers ? column->input : 0));
        PassKernels cover = column->weight_kernels;
        if (gathers) cover.Add(column->input_kernels);
        const SpacedGroup ranks = groups_.RanksOf(exchange.group);
        const auto bytes = static_cast<double>(timed.bytes.count());
        timed.slowed = groups_.TimesBeside(cover, groups_.Held(op, ranks, bytes, timed.time));
        beside_.backward.push_back(timed);
      }
    }
  }

  // Keys and values that are passed on, or whose gradients are. Where they are copied for every
  // head before, the copies are.
  void OfRing(const PlacedExchange& placed, PassTimes& times) {
    double part = 0;
    for (const TensorId t : sharded_.graph.op(placed.op).inputs) {
      part += static_cast<double>(SizeOf(sharded_.graph, sizes_, t).count());
    }
    if (forms_.repeats_keys) {
      const TransformerAxes& axes = l_.axes();
      part *= static_cast<double>(sizes_.of(axes.heads)) /
              static_cast<double>(sizes_.of(axes.kv_heads));
    }
    const PassExchanges ring =
        RingExchanges(kernels_.ring, forms_, m_.context, WholeBytes(part), groups_);
    for (const bool forward : {true, false}) {
      PassExchanges::List& list = times.layer_exchanges.of(forward);
      for (const PassExchange& e : ring.of(forward)) {
        if (forward && MayRepeat(placed.of)) again_.push_back(e);
        (e.beside ? beside_.of(forward) : list).push_back(e);
      }
    }
  }

  // Of a GEMM by columns the kernels that hide what its input exchanges backward: its weight
  // gradient the reduction of its input's, and that one the gathering of its input. Nothing where
  // weights' gradients come later, if only in some passes.
  const PassCost::Column* ColumnOf(OpId op, RegionEdge edge) const {
    const bool hides = m_.overlap_tensor && !m_.zero_bubble() && !m_.paired();
    if (!hides || edge != RegionEdge::kEnters) return nullptr;
    const auto it = std::find_if(kernels_.columns.begin(), kernels_.columns.end(),
                                 [&](const PassCost::Column& c) { return c.op == op; });
    return it != kernels_.columns.end() ? &*it : nullptr;
  }

  static void Join(PassExchanges::List& list, const PassExchange& exchange) {
    for (PassExchange& e : list) {
      if (e.group != exchange.group || e.op != exchange.op || e.bytes != exchange.bytes ||
          e.time != exchange.time) {
        continue;
      }
      e.count += exchange.count;
      return;
    }
    list.push_back(exchange);
  }

  // What runs again exchanges again: all of a layer, or of every second one, or of a ring with its
  // attention, or of modules what their operators exchange, without keys and values that are not
  // passed on in a ring. Of recomputation by operator what experts and parts of sequences exchanged
  // is kept.
  void Repeat(PassExchanges::List& backward) {
    const auto add = [&](const PassExchange& e) {
      if (e.beside) {
        beside_.backward.push_back(e);
      } else {
        Join(backward, e);
      }
    };
    for (PassExchange again : again_) {
      const bool tensor = again.group == ShardGroup::kTensor;
      const bool ring = again.group == ShardGroup::kContext && m_.ring;
      switch (m_.recompute) {
        case Recompute::kFull:
          break;
        case Recompute::kOperators:
          if (!tensor) again.count = 0;
          break;
        case Recompute::kAlternate:
          // In the mean of two layers half as many; of one alone, half.
          if (again.count % 2 == 1) {
            PassExchange half = again;
            half.time = SimTime::FromPs(again.time.ps() / 2);
            half.cover = SimTime::FromPs(again.cover.ps() / 2);
            half.bytes = Bytes(again.bytes.count() / 2);
            half.count = 1;
            add(half);
          }
          again.count /= 2;
          break;
        case Recompute::kSelective:
          if (!ring) again.count = 0;
          break;
        case Recompute::kModules:
          if (again.group == ShardGroup::kContext && !ring) again.count = 0;
          break;
        default:
          again.count = 0;
      }
      if (again.count > 0) add(again);
    }
  }

  const ParallelMapping& m_;
  const MappedLayer& l_;
  const ClusterParameters& p_;
  const GroupCosts& groups_;
  const PassCost& kernels_;
  const KernelForms& forms_;
  ExpertDispatcher dispatcher_;
  const ShardedGraph& sharded_;
  Binding sizes_;
  std::vector<PassExchange> known_;  // timed already
  PassExchanges::List again_;        // of a layer's forward pass, all
  PassExchanges beside_;             // of a layer, those that kernels hide
  PassExchanges experts_;            // of these, for experts, until all others are known
};

}  // namespace

void SetGraphExchanges(const TransformerConfig& model, const ParallelMapping& mapping,
                       const MappedLayer& layer, const ClusterParameters& cluster,
                       const GroupCosts& groups, const PassCost& kernels, PassTimes& times) {
  ExchangeCoster(model, mapping, layer, cluster, groups, kernels).Set(times);
}

}  // namespace foretrace
