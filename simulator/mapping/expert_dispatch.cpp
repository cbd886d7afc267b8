#include "simulator/mapping/expert_dispatch.h"

#include <algorithm>

#include "simulator/base/check.h"
#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"

namespace foretrace {

int32_t ExpertNodes(const ParallelMapping& m, int32_t devices_per_node) {
  const int64_t devices = int64_t{m.expert} * m.expert_width();
  const int64_t nodes = (devices + devices_per_node - 1) / devices_per_node;
  return static_cast<int32_t>(std::min<int64_t>(nodes, m.expert));
}

namespace {

int32_t MultiprocessorsOf(ExpertDispatch dispatch) {
  return dispatch == ExpertDispatch::kHybridEp ? kHybridMultiprocessors : kDispatchMultiprocessors;
}

}  // namespace

// All of a pass; one kernel of DeepEP is a list too.
HeldDevice ExpertDispatcher::Held(const PassExchanges::List& exchanges) const {
  SimTime time;
  double bytes = 0;
  for (const PassExchange& e : exchanges) {
    time += SimTime::FromPs(e.time.ps() * e.count);
    bytes += static_cast<double>(e.bytes.count()) * e.count;
  }
  if (exchanges.empty()) return {};
  const CollectiveOp op = SendsOnce(m_.dispatch) ? CollectiveOp::kAllToAll : exchanges.front().op;
  HeldDevice held = groups_.Held(op, groups_.RanksOf(ShardGroup::kExpert), bytes, time);
  if (SendsOnce(m_.dispatch)) held.multiprocessors = MultiprocessorsOf(m_.dispatch);
  return held;
}

double ExpertDispatcher::TokenWidth(bool to_experts) const {
  const int64_t width = ExpertWidth(c_);
  if (to_experts && m_.dispatch_fp8) return Fp8TokenBytes(width).count();
  return TokenBytes(width, ElementSize(c_.dtype)).count();
}

double ExpertDispatcher::Tokens() const {
  return static_cast<double>(l_.sizes().of(l_.axes().stream));
}

PassExchanges::List ExpertDispatcher::Exchange(bool to_experts, Bytes routed, bool choices) const {
  switch (m_.dispatch) {
    case ExpertDispatch::kDeepEp:
      return SentOnce(to_experts);
    case ExpertDispatch::kHybridEp: {
      PassExchanges::List list = SentOnce(to_experts);
      if (to_experts && choices) list.insert(list.begin(), Routes());
      return list;
    }
    case ExpertDispatch::kAllGather:
      return {AllGather(to_experts)};
    default: {
      const auto bytes = static_cast<double>(routed.count());
      PassExchanges::List list = {AllToAll(to_experts, bytes)};
      if (choices && c_.weighs_activations) list.push_back(Choices(bytes));
      return list;
    }
  }
}

// A number of 32 bits for each copy of a token, by a collective of its own.
PassExchange ExpertDispatcher::Choices(double routed) const {
  constexpr double kWeight = 4;
  const Bytes bytes = WholeBytes(Busiest(kWeight * routed / TokenWidth(false)));
  const auto op = CollectiveOp::kAllToAll;
  return {ShardGroup::kExpert, op,
          groups_.Exchange(ShardGroup::kExpert, op, static_cast<double>(bytes.count())), bytes};
}

// With room for all, the device with the busiest experts is given more than it sends.
double ExpertDispatcher::Busiest(double bytes) const {
  return m_.expert_capacity <= 0 ? bytes * m_.expert_load() : bytes;
}

PassExchange ExpertDispatcher::AllToAll(bool to_experts, double routed) const {
  const double bytes = Busiest(routed * TokenWidth(to_experts) / TokenWidth(false));
  const auto op = CollectiveOp::kAllToAll;
  const SimTime time =
      groups_.Exchange(ShardGroup::kExpert, op, static_cast<double>(WholeBytes(bytes).count()));
  return {ShardGroup::kExpert, op, time, WholeBytes(bytes)};
}

// All tokens, whatever their experts.
PassExchange ExpertDispatcher::AllGather(bool to_experts) const {
  const CollectiveOp op = to_experts ? CollectiveOp::kAllGather : CollectiveOp::kReduceScatter;
  const double bytes = m_.expert * Tokens() * TokenWidth(to_experts);
  return {ShardGroup::kExpert, op, groups_.Exchange(ShardGroup::kExpert, op, bytes),
          WholeBytes(bytes)};
}

// A byte for every expert and token of the group, which each device needs all of to know what it
// will be sent; gradients go the ways that are known then (deepseek-ai/DeepEP, hybrid-ep:
// Executor::allgather_routing_map).
PassExchange ExpertDispatcher::Routes() const {
  const double bytes = m_.expert * Tokens() * static_cast<double>(c_.experts);
  const auto op = CollectiveOp::kAllGather;
  return {ShardGroup::kExpert, op, groups_.Exchange(ShardGroup::kExpert, op, bytes),
          WholeBytes(bytes)};
}

// One kernel, which passes on what arrives from other nodes while more does. As exchanges of groups
// it is one among devices of the same place in their nodes, and one within nodes, each with its
// share of the time by what its links take.
PassExchanges::List ExpertDispatcher::SentOnce(bool to_experts) const {
  FORETRACE_CHECK(p_.deep_ep != nullptr);
  const ExpertLinks& links = p_.deep_ep->links;
  ExpertExchange exchange;
  const bool hybrid = m_.dispatch == ExpertDispatch::kHybridEp;
  exchange.algorithm = hybrid ? ExpertAlgorithm::kHybrid : ExpertAlgorithm::kDeduplicated;
  exchange.direction = to_experts ? ExpertDirection::kDispatch : ExpertDirection::kCombine;
  const int32_t nodes = ExpertNodes(m_, p_.devices_per_node), inside = m_.expert / nodes;
  exchange.routing = {c_.experts,
                      c_.top_k,
                      m_.expert,
                      nodes,
                      static_cast<int32_t>(c_.expert_groups),
                      static_cast<int32_t>(c_.chosen_groups)};
  exchange.tokens = Tokens() * m_.expert_load();
  exchange.token_bytes = RealBytes(TokenWidth(to_experts));
  exchange.multiprocessors = MultiprocessorsOf(m_.dispatch);
  const SimTime time = TimeOf(p_.deep_ep->kernels, links, exchange).total() + groups_.Handovers();
  const ExpertCopies copies = ExpectedCopies(exchange.routing);
  const double bytes = exchange.tokens * exchange.token_bytes.count();
  const Bytes to_nodes = WholeBytes(bytes * copies.nodes),
              to_ranks = WholeBytes(bytes * copies.ranks);
  const auto op = CollectiveOp::kAllToAll;
  if (nodes == 1) return {{ShardGroup::kExpert, op, time, to_ranks}};
  if (inside == 1) return {{ShardGroup::kExpert, op, time, to_nodes}};
  const double nic = copies.nodes * (nodes - 1) / nodes / links.nic.bytes_per_second();
  const double nvlink = copies.ranks * (inside - 1) / inside / links.nvlink.bytes_per_second();
  const SimTime across =
      SimTime::FromPs(static_cast<int64_t>(static_cast<double>(time.ps()) * nic / (nic + nvlink)));
  PassExchanges::List both = {{ShardGroup::kExpertNodes, op, across, to_nodes},
                              {ShardGroup::kExpertPeers, op, time - across, to_ranks}};
  if (!to_experts) std::reverse(both.begin(), both.end());
  return both;
}

}  // namespace foretrace
