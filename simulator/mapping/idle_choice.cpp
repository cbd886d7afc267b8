#include "simulator/mapping/idle_choice.h"

#include <fmt/format.h>

namespace foretrace {

std::string IdleChoice(const ParallelMapping& m) {
  // A host keeps the gradients of zero 2 whether or not replicas divide them, and zero 3 gathers
  // weights layer by layer.
  const bool divides = m.zero == 1 || (m.zero == 2 && !m.offload);
  if (m.copies() == 1 && divides) {
    return fmt::format("zero{}: there is one replica (dp * cp), so nothing is divided", m.zero);
  }
  if (m.copies() == 1 && m.overlap_gradients) {
    return "overlap: there is one replica (dp * cp), so no gradients are reduced";
  }
  if (m.hybrid > 0 && m.hybrid == m.replicas()) {
    return fmt::format("hsdp{}: zero{} divides over all {} replicas by itself", m.hybrid, m.zero,
                       m.replicas());
  }
  if (m.zero == 3 && m.second_shards > 0 && m.second_shards == m.replicas()) {
    return fmt::format("hpz{}: zero3 gathers from all {} replicas by itself", m.second_shards,
                       m.replicas());
  }
  if (m.tensor == 1 && !m.overlap_tensor) {
    return "tp-exposed: tp1 has no reductions to expose";
  }
  if (m.recomputed_layers == 0) return "block0: no layer is recomputed; none says it";
  if (m.recomputed_every == 1) return "every1: all layers are recomputed; full says it";
  if (m.recomputed_together == 1) return "uniform1: each layer is recomputed by itself anyway";
  if (m.expert == 1 && (m.dispatch != ExpertDispatch::kAllToAll || m.dispatch_fp8)) {
    return "dispatch: ep1 has all experts on every device, so that no token goes anywhere";
  }
  if (m.expert == 1 && m.overlap_experts) return "ep-overlap: ep1 exchanges no tokens";
  if (m.overlap_experts && !HasOppositePasses(m)) {
    return "ep-overlap: with so few micro-batches none goes forward while another goes backward";
  }
  if (m.pipeline == 1 && (m.zero_bubble() || m.returns())) {
    return fmt::format("{}: pp1 has no bubble to fill", Name(m.schedule));
  }
  return "";
}

std::string IdleWord(const std::string& words, bool shards) {
  static constexpr std::string_view kNone[] = {"last",     "lora", "uniform", "imbalance",
                                               "capacity", "hsdp", "every",   "hpz"};
  for (const std::string_view word : kNone) {
    if (shards && word == "hsdp") continue;
    if (NumberOf(word, words) == 0) return fmt::format("{}0: as without it; leave it out", word);
  }
  return "";
}

bool HasOppositePasses(const ParallelMapping& m) { return m.alternates() && m.microbatches() > 1; }

}  // namespace foretrace
