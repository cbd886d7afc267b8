#include "simulator/mapping/reserved_memory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/caching_allocator.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/layer_walk.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/optimizer_costs.h"
#include "simulator/mapping/sharded_pools.h"

namespace foretrace {
namespace {

using Block = CachingAllocator::Block;

class StageWalk {
 public:
  StageWalk(const TransformerConfig& c, const ParallelMapping& m, int32_t stage)
      : c_(c),
        m_(m),
        stage_(stage),
        memory_(c.expandable_segments),
        layers_(c),
        placeholders_(PlaceholdersOf(layers_, m, stage)),
        walk_(c, m, memory_),
        ledger_(StageMemoryAt(StageMoment::kRoot, layers_, m, stage)) {
    if (c.copies_gathered && HasShardedMasters(c, m)) {
      pools_.emplace(walk_.layer(), m, stage, walk_.Weights(), ledger_.gradients,
                     c.expandable_segments, memory_);
    }
  }

  absl::StatusOr<AllocatorMemory> Run() {
    AllocateStates();
    ParallelMapping some = m_;
    some.global_batch = Simulated() * m_.data * m_.micro_batch;
    FORETRACE_ASSIGN_OR_RETURN(const PassList passes, StagePasses(some, stage_));
    for (int iteration = 0; iteration < 2; ++iteration) {
      for (const Pass& pass : passes) RunPass(pass);
      // Both moments come with the first update.
      for (int i = 0; iteration == 0 && i < 2; ++i) ByLayer(OfStates(MomentBytes(m_)));
    }
    return AllocatorMemory{memory_.peak_allocated(), memory_.reserved(),
                           pools_ ? pools_->reserved() : Bytes()};
  }

 private:
  int32_t Simulated() const {
    if (m_.dual()) return 2 * m_.pipeline;
    const int64_t flight = (ChunksInFlight(m_, stage_) + m_.chunks - 1) / m_.chunks;
    int64_t count = std::min<int64_t>(m_.microbatches(), flight + 2);
    if (m_.returns()) count = std::max<int64_t>(count, 3 * int64_t{m_.pipeline});
    if (m_.chunks > 1 && !m_.returns())
      count = (count + m_.pipeline - 1) / m_.pipeline * m_.pipeline;
    return static_cast<int32_t>(std::min<int64_t>(count, m_.microbatches()));
  }

  // By layer, as weights are made, or in one buffer.
  void ByLayer(double bytes) {
    const auto layers = std::max<int64_t>(StageLayers(c_, m_, stage_), 1);
    for (int64_t i = 0; i < layers; ++i) memory_.Allocate(WholeBytes(bytes / AsDouble(layers)));
  }
  // Distributed optimizers copy weights, which are made one by one, into one buffer (Megatron Core,
  // distributed/param_and_grad_buffer.py).
  void AllocateStates() {
    if (m_.zero == 1 || m_.zero == 2) {
      std::vector<Block> made;
      const auto make = [&](double elements) {
        made.push_back(memory_.Allocate(WholeBytes(elements * AsDouble(ElementSize(c_.dtype)))));
      };
      const bool embeds = HasEmbedding(m_, stage_);
      if (embeds) make(walk_.layer().embedding());
      for (int64_t i = 0; i < StageLayers(c_, m_, stage_); ++i) {
        for (const double elements : walk_.Weights()) make(elements);
      }
      if (HasHead(m_, stage_) && !(IsTied(c_) && embeds)) make(walk_.layer().head());
      memory_.Allocate(ledger_.weights);
      for (const Block block : made) memory_.Free(block);
    } else {
      ByLayer(AsDouble(ledger_.weights.count()));
    }
    if (pools_) {
      // The masters are the weights, gradients the reducing stream's.
      return;
    }
    if (m_.zero < 2) {
      Bytes gradients = ledger_.gradients;
      for (const Bytes placeholder : placeholders_) gradients = gradients - placeholder;
      memory_.Allocate(gradients);
    } else {
      ByLayer(AsDouble(ledger_.gradients.count()));
    }
    if (!HasShardedMasters(c_, m_)) ByLayer(OfStates(4));  // masters
  }
  // The optimizer's states are masters and two moments.
  double OfStates(int64_t bytes) const {
    const int64_t all = (HasShardedMasters(c_, m_) ? 0 : 4) + 2 * MomentBytes(m_);
    return AsDouble(ledger_.optimizer.count()) * AsDouble(bytes) / AsDouble(all);
  }

  // Of layers of which parts run again, or every second one.
  bool Again(int64_t layer) const {
    if (m_.recompute == Recompute::kFull) return false;
    return m_.recompute == Recompute::kAlternate ? layer % 2 == 1
                                                 : m_.recompute != Recompute::kNone;
  }

  void RunPass(const Pass& pass) {
    const bool head = HasHead(m_, stage_, pass.chunk);
    const std::pair<int32_t, int32_t> key = {pass.microbatch, pass.chunk};
    if (pass.kind == PassKind::kForward) {
      ForwardPass(pass, held_[key]);
      if (head) heads_[key] = Loss();
      return;
    }
    // Where weight gradients come later, what they read stays until then.
    if (pass.kind == PassKind::kBackwardInput) return;
    if (!holds_places_) {
      for (const Bytes placeholder : placeholders_) memory_.Allocate(placeholder);
      holds_places_ = true;
    }
    if (head) LossGradient(heads_[key]);
    BackwardPass(pass, held_[key]);
    held_.erase(key);
  }

  Bytes Logits() const { return WholeBytes(AsDouble(ElementSize(c_.dtype)) * LogitsOf(c_, m_)); }
  // Step by step the logits, their cast to 32 bits and the logarithms are there together, backward
  // the gradients of these and of the logits in 32 bits (LogitMemoryOf), one after the other.
  Block Loss() {
    const double kept = LogitMemoryOf(c_, m_).kept;
    if (LossOf(c_, m_) != LossForm::kStepwise) return memory_.Allocate(WholeBytes(kept));
    const Block logits = memory_.Allocate(Logits());
    const Block wide = memory_.Allocate(WholeBytes(kept));
    const Block logarithms = memory_.Allocate(WholeBytes(kept));
    memory_.Free(wide);
    memory_.Free(logits);
    return logarithms;
  }
  void LossGradient(Block kept) {
    const bool two = LossOf(c_, m_) == LossForm::kStepwise;
    const double passing = LogitMemoryOf(c_, m_).passing, once = two ? passing / 2 : passing;
    const Block first = memory_.Allocate(WholeBytes(once));
    const Block second = memory_.Allocate(WholeBytes(passing - once));
    memory_.Free(first);
    memory_.Free(kept);
    if (pools_) {
      const Block logits = memory_.Allocate(Logits());
      memory_.Free(second);
      pools_->AddHeadGradient();
      memory_.Free(logits);
    } else {
      memory_.Free(second);
    }
  }

  void ForwardPass(const Pass& pass, std::vector<HeldTensors>& held) {
    const int64_t layers = LayersOf(c_, m_, stage_, pass.chunk);
    const int64_t frozen = layers - TrainedLayersOf(c_, m_, stage_, pass.chunk);
    held.resize(static_cast<size_t>(layers));
    Block x = memory_.Allocate(walk_.width());
    std::deque<Block> gathered;
    if (pools_) pools_->GatherRoot();
    Gather(gathered);
    for (int64_t i = 0; i < layers; ++i) {
      if (pools_) {
        if (i > 0) pools_->Gather();
        pools_->CopyOut();
      } else if (i + 1 < layers) {
        Gather(gathered);
      }
      HeldTensors& own = held[static_cast<size_t>(i)];
      const bool leads = (i - frozen) % m_.layers_an_input() == 0;
      const bool grouped = InGroup(pass.chunk, i - frozen);
      if (grouped && leads && KeepsWhole()) {
        x = walk_.Forward(x, i >= frozen, true, own);
      } else if (!grouped) {
        x = walk_.Forward(x, i >= frozen, Again(i), own);
      } else {
        if (i >= frozen && leads) own.input = memory_.Allocate(KeptInput());
        x = walk_.Forward(x, false, false, own);
      }
      Drop(gathered);
      // Of the last layer the backward pass makes use at once.
      if (pools_ && i + 1 < layers) pools_->Reshard();
    }
    memory_.Free(x);
  }

  void BackwardPass(const Pass& pass, std::vector<HeldTensors>& held) {
    const auto layers = static_cast<int64_t>(held.size());
    const int64_t frozen = layers - TrainedLayersOf(c_, m_, stage_, pass.chunk);
    Block gradient = memory_.Allocate(walk_.width());
    std::deque<Block> gathered;
    if (!pools_) Gather(gathered);
    for (int64_t i = layers; i-- > frozen;) {
      if (pools_ && i + 1 < layers) pools_->CopyOut();
      if (i > frozen) Gather(gathered);
      const int64_t first = i - (i - frozen) % m_.layers_an_input();
      const bool last = i + 1 == layers || (i + 1 - frozen) % m_.layers_an_input() == 0;
      if (InGroup(pass.chunk, i - frozen) && last) RunAgain(first, i, held);
      gradient = walk_.Backward(gradient, Again(i), held[static_cast<size_t>(i)],
                                pools_ ? &*pools_ : nullptr);
      if (pools_) {
        pools_->Reshard();
        pools_->ReduceLayer();
        continue;
      }
      if (m_.zero >= 3) memory_.Free(memory_.Allocate(WholeBytes(GradientBuffer())));
      Drop(gathered);
    }
    memory_.Free(gradient);
    const Bytes embedding = EmbeddingGradientOf(layers_, m_, stage_);
    if (embedding > Bytes() && HasEmbedding(m_, stage_, pass.chunk)) {
      memory_.Free(memory_.Allocate(embedding));
    }
    if (pools_) pools_->ReduceRoot();
  }

  // Of a chunk's layers with a backward pass; frozen ones are as all recomputed ones are.
  bool InGroup(int32_t chunk, int64_t layer) const {
    if (!m_.recomputes_some()) return m_.recompute == Recompute::kFull;
    return layer >= 0 && RunsAgain(c_, m_, stage_, chunk, layer);
  }
  bool KeepsWhole() const { return m_.input_parts() == 1 && !m_.inputs_on_host; }
  Bytes KeptInput() const {
    return m_.inputs_on_host ? Bytes() : Bytes(walk_.width().count() / m_.input_parts());
  }

  // Layers of which the first one's input is kept.
  void RunAgain(int64_t first, int64_t last, std::vector<HeldTensors>& held) {
    Block x = held[static_cast<size_t>(first)].input;
    if (!KeepsWhole()) {
      const Block part = x;
      x = memory_.Allocate(walk_.width());
      memory_.Free(part);
    }
    for (int64_t i = first; i <= last; ++i) {
      x = walk_.Forward(x, true, false, held[static_cast<size_t>(i)]);
    }
    memory_.Free(x);
  }

  // Elements.
  double LayerWeights() const { return walk_.layer().dense() + walk_.layer().expert(); }
  double GradientBuffer() const {
    return AsDouble(walk_.layer().gradient_bytes()) *
           (walk_.layer().trained() + walk_.layer().trained_expert());
  }
  void Gather(std::deque<Block>& gathered) {
    if (pools_) return pools_->Gather();
    if (m_.zero < 3 || m_.replicas() == 1) return;
    gathered.push_back(
        memory_.Allocate(WholeBytes(AsDouble(ElementSize(c_.dtype)) * LayerWeights())));
  }
  void Drop(std::deque<Block>& gathered) {
    if (gathered.empty()) return;
    memory_.Free(gathered.front());
    gathered.pop_front();
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  int32_t stage_;
  CachingAllocator memory_;
  ModelLayers layers_;
  const std::vector<Bytes> placeholders_;
  LayerWalk walk_;
  MemoryLedger ledger_;
  std::optional<ShardedPools> pools_;  // of FSDP2
  std::map<std::pair<int32_t, int32_t>, std::vector<HeldTensors>> held_;
  std::map<std::pair<int32_t, int32_t>, Block> heads_;
  bool holds_places_ = false;  // of weight gradients, from the first backward pass on
};

}  // namespace

absl::StatusOr<AllocatorMemory> FollowAllocations(const TransformerConfig& model,
                                                  const ParallelMapping& mapping, int32_t stage) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, mapping, 0));
  // Of several kinds one stands for all: layers with experts, else those that are most.
  const size_t kind = model.experts > 0 ? 0 : CommonestKind(model);
  return StageWalk(WithLayerKind(model, kind), mapping, stage).Run();
}

absl::StatusOr<Bytes> ReservedMemoryOf(const TransformerConfig& model,
                                       const ParallelMapping& mapping) {
  Bytes most;
  for (const int32_t s : StagesThatMayBeFullest(model, mapping)) {
    FORETRACE_ASSIGN_OR_RETURN(const AllocatorMemory followed,
                               FollowAllocations(model, mapping, s));
    most = std::max(most, followed.Reserved(StageMemoryOf(model, mapping, s).total()));
  }
  return most;
}

}  // namespace foretrace
