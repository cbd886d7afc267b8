#include "simulator/mapping/ring_attention.h"

#include <algorithm>
#include <variant>

namespace foretrace {
namespace {

constexpr DType kWide = DType::kFloat32;

ElementwiseOp Cast(int64_t n, DType to) {
  ElementwiseOp call{n, n};
  call.output_dtype = to;
  return call;
}

// The sum of n elements of 32 bits and as many of 16.
ElementwiseOp AddNarrow(int64_t n) { return {n, n + n / 2}; }

// Of a pass: after the step that hides it, or waited for.
PassExchange Timed(CollectiveOp op, SimTime time, Bytes bytes) {
  return {ShardGroup::kContext, op, time, bytes};
}

}  // namespace

// Transformer Engine (attention/dot_product_attention/context_parallel.py,
// AttnFuncWithCPAndKVP2P): keys and values are put into one buffer that is passed on, of which a
// step that needs half copies that half; each step's result is rescaled and added to a cleared
// output.
double RingAttention::Forward(const Steps& s) const {
  const int64_t q = s.queries;
  return s.own + Others() * (s.other + Half(s)) + Call(FillOp{q}, s.dtype) +
         m_.context * Call(ElementwiseOp{q, 2 * q}, s.dtype) +
         Call(ElementwiseOp{s.keys, s.keys}, s.dtype);
}

// Keys and values are copied into a buffer that is passed on with their gradients. A step's
// gradients of keys and values, which the kernel makes apart, are put together; the first step's
// are copied to where the others are added, the queries' too. The own part comes last.
double RingAttention::Backward(const Steps& s) const {
  const auto copy = [&](int64_t n) { return Call(ElementwiseOp{n, n}, s.dtype); };
  const auto add = [&](int64_t n) { return Call(ElementwiseOp{n, 2 * n}, s.dtype); };
  const double queries = copy(s.queries) + Others() * add(s.queries);
  const double together = Others() * copy(s.passing) + copy(s.keys);
  const double keys = copy(s.passing) + (Others() - 1) * add(s.passing) + add(s.keys);
  return s.own + Others() * (s.other + Half(s)) + copy(s.keys) + queries + together + keys;
}

double RingAttention::Half(const Steps& s) const {
  return s.passing < s.keys ? Call(ElementwiseOp{s.passing, s.passing}, s.dtype) : 0;
}

// PyTorch (torch/distributed/tensor/experimental/_attention.py, _templated_ring_attention and
// _SDPAMerger): before each but the last step keys and values are packed. Every step's result is
// cast to 32 bits and merged by a difference, its product with a weight, and another difference.
double RingAttention::MergedForward(const Steps& s) const {
  const int64_t q = s.queries;
  const double merge = 2 * Call(ElementwiseOp{q, 2 * q}, kWide) + Call(ElementwiseOp{q, q}, kWide);
  const double packing = Call(ElementwiseOp{s.keys, s.keys}, s.dtype);
  return s.own + Others() * (s.other + merge + packing) +
         m_.context * Call(Cast(q, kWide), s.dtype) + Call(Cast(q, s.dtype), kWide);
}

// As before; gradients are added up in 32 bits, those of keys and values, of which each further
// step has half, in copies that are packed and passed on behind the next step.
double RingAttention::MergedBackward(const Steps& s) const {
  const int64_t q = s.queries, kv = s.keys;
  const auto copy = [&](int64_t n, DType dtype) { return Call(ElementwiseOp{n, n}, dtype); };
  const auto add = [&](int64_t n) { return Call(AddNarrow(n), kWide); };
  return s.own + Others() * (s.other + copy(kv, s.dtype) + add(kv / 2) + copy(kv, kWide)) +
         Call(FillOp{q + kv}, kWide) + add(kv) + m_.context * (copy(kv, kWide) + add(q)) +
         Call(Cast(q + kv, s.dtype), kWide);
}

// The same compiled: what is gathered is packed once, as the later packings are without use; a
// step's result is merged by one kernel.
double RingAttention::CompiledForward(const Steps& s) const {
  return s.own + Others() * (s.other + Call(AddNarrow(s.queries), kWide)) +
         Call(ElementwiseOp{s.keys, s.keys}, s.dtype);
}

// A step's gradients of keys and values, of which each further step has half, are added to those
// that arrived by the kernel that packs them.
double RingAttention::CompiledBackward(const Steps& s) const {
  const int64_t q = s.queries, kv = s.keys;
  const double packing = Call(ElementwiseOp{kv, kv + kv / 4}, kWide);
  return s.own + Others() * (s.other + Call(AddNarrow(q), kWide) + packing) +
         Call(ElementwiseOp{kv, kv}, s.dtype) + Call(Cast(kv, kWide), s.dtype) +
         Call(Cast(kv, s.dtype), kWide);
}

RingCost RingAttention::Cost(OpId id) const {
  const OperatorGraph& g = l_.graph();
  const GraphOp& op = g.op(id);
  AttentionOp own =
      std::get<AttentionOp>(CallsOf(g, l_.sizes(), id, Direction::kForward).front().shape);
  own.skv = own.sq;
  AttentionOp other = own;
  other.causal = false;
  if (own.causal) other.skv = std::max<int64_t>(own.sq / 2, 1);
  Steps s;
  s.dtype = g.tensor(op.inputs[0]).dtype;
  s.queries = Elements(g, l_.sizes(), op.inputs[0]);
  s.keys = p_.forms.repeats_keys ? 2 * s.queries : 2 * own.b * own.kv_heads * own.sq * own.d;
  s.passing = own.causal ? s.keys / 2 : s.keys;
  const bool merged = p_.forms.wide_merges, compiled = merged && p_.forms.compiled;
  const auto pass = [&](Direction direction) {
    s.own = kernels_.Time(Kernels({own, s.dtype, direction}), sources_).seconds();
    s.other = kernels_.Time(Kernels({other, s.dtype, direction}), sources_).seconds();
    const bool forward = direction == Direction::kForward;
    const double kernels = compiled  ? forward ? CompiledForward(s) : CompiledBackward(s)
                            : merged ? forward ? MergedForward(s) : MergedBackward(s)
                            : forward ? Forward(s)
                                     : Backward(s);
    RingPass ring{kernels, s.own, s.other, {}};
    for (const KernelWork& work : Kernels({own, s.dtype, direction})) {
      if (const auto demand = kernels_.Demand(work)) ring.attention.Add(*demand, s.own);
    }
    return ring;
  };
  RingCost cost;
  cost.forward = pass(Direction::kForward);
  cost.backward = pass(Direction::kBackward);
  return cost;
}

// Transformer Engine: while a step runs the next one's keys and values arrive, backward with the
// gradients of those that pass by, in one message, and after the last step once more. PyTorch: all
// keys and values are gathered behind the first step; gradients, in 32 bits and so twice the bytes,
// are passed on behind the step after the one that they are of. What is compiled waits for both.
PassExchanges RingExchanges(const RingCost& cost, const KernelForms& forms, int32_t devices,
                            Bytes part, const GroupCosts& groups) {
  const auto hop = [&](Bytes bytes) {
    return Timed(CollectiveOp::kSendRecv, groups.ContextHop(static_cast<double>(bytes.count())),
                 bytes);
  };
  const PassExchange keys = hop(part), both = hop(part * 2);
  const int32_t others = devices - 1;
  const auto behind = [&](PassExchange exchange, const RingPass& pass, double cover,
                          int32_t count = 1) {
    exchange.beside = true;
    exchange.cover = SimTime::FromSeconds(cover);
    exchange.count = count;
    const HeldDevice held = groups.Held(exchange.op, groups.RanksOf(ShardGroup::kContext),
                                        static_cast<double>(exchange.bytes.count()), exchange.time);
    exchange.slowed = groups.TimesBeside(pass.attention, held);
    return exchange;
  };
  const RingPass &forward = cost.forward, &backward = cost.backward;
  PassExchanges out;
  if (!forms.wide_merges) {
    out.forward = {behind(keys, forward, forward.other, others)};
    out.backward = {behind(both, backward, backward.own),
                    behind(both, backward, backward.other, others)};
    return out;
  }
  const Bytes all = part * devices;
  const PassExchange gather = Timed(CollectiveOp::kAllGather,
                                    groups.Exchange(ShardGroup::kContext, CollectiveOp::kAllGather,
                                                    static_cast<double>(all.count())),
                                    all);
  if (forms.compiled) {
    PassExchange waited = both;
    waited.count = devices;
    out.forward = {gather};
    out.backward = {gather, waited};
    return out;
  }
  out.forward = {behind(gather, forward, forward.own)};
  out.backward = {behind(gather, backward, backward.own),
                  behind(both, backward, backward.other, others), both};
  return out;
}

}  // namespace foretrace
