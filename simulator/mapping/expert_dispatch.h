#pragma once
// What a mapping's devices exchange for experts: tokens on their way to them (dispatch), results on
// their way back (combine), by the mapping's algorithm (ParallelMapping::dispatch).

#include <cstdint>

#include "simulator/cost/collective/expert_exchange.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Multiprocessors that DeepEP's kernels take unless told otherwise (deep_ep/buffer.py, num_sms;
// Megatron Core, moe_deepep_num_sms), as DeepSeek-V3's did (section 3.2.2).
inline constexpr int32_t kDispatchMultiprocessors = 20;
// And Hybrid-EP's as Megatron Bridge's recipes for speed run them (perf_recipes/_common.py,
// moe_hybridep_num_sms; Megatron Core's own default is 16).
inline constexpr int32_t kHybridMultiprocessors = 32;

// DeepEP's kernels, Hybrid-EP's among them, and what a device has for them.
struct DeepEpDevice {
  ExpertExchangeModel kernels;
  ExpertLinks links;
};

// Nodes that a group of devices with different experts is spread over.
int32_t ExpertNodes(const ParallelMapping& mapping, int32_t devices_per_node);

class ExpertDispatcher {
 public:
  // Keeps references to all.
  ExpertDispatcher(const TransformerConfig& model, const ParallelMapping& mapping,
                   const MappedLayer& layer, const ClusterParameters& cluster,
                   const GroupCosts& groups)
      : c_(model), m_(mapping), l_(layer), p_(cluster), groups_(groups) {}

  // One way of one layer, in order. `routed`: what a device sends or receives of tokens routed to
  // experts, one copy for each, in the model's type. `choices`: of the way that tokens go and their
  // gradients come back, on which routers' weights, or theirs, go too where experts weigh their
  // activations (Megatron Core, transformer/moe/token_dispatcher.py, token_dispatch).
  PassExchanges::List Exchange(bool to_experts, Bytes routed, bool choices) const;
  // What the kernels of exchanges hold of a device while they run.
  HeldDevice Held(const PassExchanges::List& exchanges) const;

 private:
  double Busiest(double bytes) const;
  PassExchange AllToAll(bool to_experts, double routed) const;
  PassExchange Choices(double routed) const;
  PassExchange AllGather(bool to_experts) const;
  PassExchange Routes() const;
  PassExchanges::List SentOnce(bool to_experts) const;
  double TokenWidth(bool to_experts) const;  // bytes of a token on its way
  double Tokens() const;                     // of a device

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const MappedLayer& l_;
  const ClusterParameters& p_;
  const GroupCosts& groups_;
};

}  // namespace foretrace
