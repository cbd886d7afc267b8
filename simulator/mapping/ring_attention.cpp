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

}  // namespace

// Transformer Engine (attention/dot_product_attention/context_parallel.py,
// AttnFuncWithCPAndKVP2P): each step's result is rescaled and added to a cleared output. Meanwhile
// the next keys and values arrive.
double RingAttention::Forward(const Steps& s) const {
  const int64_t q = s.queries;
  return s.own + Others() * s.other + Call(FillOp{q}, s.dtype) +
         m_.context * Call(ElementwiseOp{q, 2 * q}, s.dtype) +
         Others() * (Call(ElementwiseOp{s.keys / 2, s.keys / 2}, s.dtype) +
                     std::max(s.hop - s.other, 0.0));
}

// Each step's gradients are added up. With the next keys and values arrive the gradients of those
// that pass by.
double RingAttention::Backward(const Steps& s) const {
  const auto copy = [&](int64_t n) { return Call(ElementwiseOp{n, n}, s.dtype); };
  const auto add = [&](int64_t n) { return Call(ElementwiseOp{n, 2 * n}, s.dtype); };
  return s.own + Others() * s.other + copy(s.queries) +
         Others() * (add(s.queries) + copy(s.keys) + add(s.keys)) +
         m_.context * std::max(2 * s.hop - s.other, 0.0);
}

// PyTorch (torch/distributed/tensor/experimental/_attention.py, _templated_ring_attention and
// _SDPAMerger): all keys and values are gathered behind the first step; before each but the last
// step they are packed. Every step's result is cast to 32 bits and merged by a difference, its
// product with a weight, and another difference.
double RingAttention::MergedForward(const Steps& s) const {
  const int64_t q = s.queries;
  const double merge = 2 * Call(ElementwiseOp{q, 2 * q}, kWide) + Call(ElementwiseOp{q, q}, kWide);
  const double packing = Call(ElementwiseOp{s.keys, s.keys}, s.dtype);
  return s.own + Others() * (s.other + merge + packing) +
         m_.context * Call(Cast(q, kWide), s.dtype) + Call(Cast(q, s.dtype), kWide) +
         std::max(s.gather - s.own, 0.0);
}

// As before; gradients are added up in 32 bits, those of keys and values, of which each further
// step has half, in copies that are packed and passed on behind the next step.
double RingAttention::MergedBackward(const Steps& s) const {
  const int64_t q = s.queries, kv = s.keys;
  const auto copy = [&](int64_t n, DType dtype) { return Call(ElementwiseOp{n, n}, dtype); };
  const auto add = [&](int64_t n) { return Call(AddNarrow(n), kWide); };
  const double passed = 2 * s.hop;  // twice the bytes
  return s.own + Others() * (s.other + copy(kv, s.dtype) + add(kv / 2) + copy(kv, kWide)) +
         Call(FillOp{q + kv}, kWide) + add(kv) + m_.context * (copy(kv, kWide) + add(q)) +
         Call(Cast(q + kv, s.dtype), kWide) + std::max(s.gather - s.own, 0.0) +
         Others() * std::max(passed - s.other, 0.0) + passed;
}

// The same compiled: what is gathered is packed once, as the later packings are without use, and
// waited for where it starts; a step's result is merged by one kernel.
double RingAttention::CompiledForward(const Steps& s) const {
  return s.own + Others() * (s.other + Call(AddNarrow(s.queries), kWide)) +
         Call(ElementwiseOp{s.keys, s.keys}, s.dtype) + s.gather;
}

// A step's gradients of keys and values, of which each further step has half, are added to those
// that arrived by the kernel that packs them; all that is passed on is waited for.
double RingAttention::CompiledBackward(const Steps& s) const {
  const int64_t q = s.queries, kv = s.keys;
  const double packing = Call(ElementwiseOp{kv, kv + kv / 4}, kWide);
  return s.own + Others() * (s.other + Call(AddNarrow(q), kWide) + packing) +
         Call(ElementwiseOp{kv, kv}, s.dtype) + Call(Cast(kv, kWide), s.dtype) +
         Call(Cast(kv, s.dtype), kWide) + s.gather + m_.context * 2 * s.hop;
}

std::pair<double, double> RingAttention::Seconds(OpId id) const {
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
  const auto bytes = static_cast<double>(s.keys * ElementSize(s.dtype));
  s.hop = groups_.ContextHop(bytes);
  s.gather = groups_.Exchange(ShardGroup::kContext, CollectiveOp::kAllGather, bytes * m_.context);
  const auto pass = [&](Direction direction) {
    s.own = kernels_.Seconds(Kernels({own, s.dtype, direction}), sources_);
    s.other = kernels_.Seconds(Kernels({other, s.dtype, direction}), sources_);
  };
  const bool compiled = p_.forms.wide_merges && p_.forms.compiled;
  pass(Direction::kForward);
  const double forward = compiled               ? CompiledForward(s)
                         : p_.forms.wide_merges ? MergedForward(s)
                                                : Forward(s);
  pass(Direction::kBackward);
  return {forward, compiled               ? CompiledBackward(s)
                   : p_.forms.wide_merges ? MergedBackward(s)
                                          : Backward(s)};
}

}  // namespace foretrace
