#include "simulator/mapping/reserved_memory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "simulator/base/dtype.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/caching_allocator.h"
#include "simulator/mapping/kept_activations.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/optimizer_costs.h"

namespace foretrace {
namespace {

using Block = CachingAllocator::Block;
constexpr Block kNothing = -1;

double Num(int64_t n) { return static_cast<double>(n); }
Bytes Whole(double bytes) { return Bytes(static_cast<int64_t>(bytes)); }

// What one layer of one micro-batch holds between its passes, by tensor.
struct Held {
  std::map<TensorId, Block> tensors;
  Block input = kNothing;
};

// Layers of one kind, operator by operator.
class LayerWalk {
 public:
  LayerWalk(const TransformerConfig& c, const ParallelMapping& m, CachingAllocator& memory)
      : m_(m), layer_(c, m), g_(layer_.graph()), memory_(memory) {
    kept_.assign(g_.tensors().size(), false);
    first_reader_.assign(g_.tensors().size(), static_cast<OpId>(g_.ops().size()));
    for (OpId id = 0; static_cast<size_t>(id) < g_.ops().size(); ++id) {
      const GraphOp& op = g_.op(id);
      if (!op.in_block) continue;
      if (op.kind == GraphOpKind::kMatmul && !IsTrained(op, m_) && !IsAdapted(op, m_)) continue;
      for (const TensorId t : KeptBy(op)) {
        kept_[At(t)] = true;
        first_reader_[At(t)] = std::min(first_reader_[At(t)], id);
      }
    }
    for (const GraphOp& op : g_.ops()) {
      if (!op.in_block) continue;
      for (const TensorId t : op.inputs) {
        if (IsInput(t)) entering_ = t;
      }
      leaving_ = op.outputs[0];
    }
    share_ = EverySecondGemm(g_, layer_.sizes()).share;
    light_ = LightOf(g_, m_).kept;
  }

  const MappedLayer& layer() const { return layer_; }
  Bytes width() const { return Size(entering_); }
  // Elements of each weight; those that one GEMM reads side by side are one.
  std::vector<double> Weights() const {
    std::vector<double> weights;
    for (const GraphOp& op : g_.ops()) {
      double table = 0;
      for (const TensorId t : op.inputs) {
        if (!op.in_block || g_.tensor(t).role != TensorRole::kWeight) continue;
        const double elements = Num(Elements(g_, layer_.sizes(), t));
        if (op.kind == GraphOpKind::kMatmul && g_.tensor(t).axes.size() > 1) {
          table += elements;
        } else {
          weights.push_back(elements);
        }
      }
      if (table > 0) weights.push_back(table);
    }
    return weights;
  }

  // Takes the block of what enters; gives that of what leaves. `kept`: whether a backward pass
  // follows; `again`: whether it will run this once more.
  Block Forward(Block input, bool kept, bool again, Held& held) {
    std::map<TensorId, Block> live;
    live[entering_] = input;
    std::vector<size_t> readers(g_.tensors().size());
    for (OpId id = 0; static_cast<size_t>(id) < g_.ops().size(); ++id) {
      const GraphOp& op = g_.op(id);
      if (!op.in_block) continue;
      for (const TensorId t : op.outputs) live[t] = memory_.Allocate(Size(t));
      for (const TensorId t : op.inputs) {
        if (!live.contains(t) || ++readers[At(t)] < InBlock(t) || t == leaving_) continue;
        if (t == entering_ && kept) continue;
        const bool stays = kept && Keeps(t, again);
        const double share = stays ? KeptShare(g_, t, m_) : 1;
        if (stays && share == 1) continue;
        const Block wide = live[t];
        live.erase(t);
        if (stays) live[t] = memory_.Allocate(Whole(share * Num(Size(t).count())));
        memory_.Free(wide);
      }
      // What nothing reads but the backward pass, or nothing at all.
      for (const TensorId t : op.outputs) {
        if (t == leaving_ || InBlock(t) > 0 || (kept && Keeps(t, again))) continue;
        memory_.Free(live[t]);
        live.erase(t);
      }
    }
    const Block output = live[leaving_];
    live.erase(leaving_);
    if (kept) {
      held.input = input;
      live.erase(entering_);
      held.tensors = std::move(live);
    }
    return output;
  }

  // Takes the block of the output's gradient; gives that of the input's. Recomputes first.
  Block Backward(Block gradient, bool again, Held& held) {
    if (again) {
      Held whole;
      for (const auto& [t, block] : held.tensors) memory_.Free(block);
      const Block output = Forward(held.input, true, false, whole);
      memory_.Free(output);
      held = std::move(whole);
    }
    std::map<TensorId, Block> gradients;
    gradients[leaving_] = gradient;
    for (auto id = static_cast<OpId>(g_.ops().size()); id-- > 0;) {
      const GraphOp& op = g_.op(id);
      if (!op.in_block) continue;
      for (const TensorId t : op.inputs) {
        if (g_.tensor(t).role != TensorRole::kActivation) continue;
        const Block made = memory_.Allocate(Size(t));
        // Of what several operators read, the sum is kept.
        if (!gradients.emplace(t, made).second) memory_.Free(made);
      }
      if (IsTrained(op, m_)) WeightGradients(op);
      for (const TensorId t : op.outputs) {
        if (!gradients.contains(t)) continue;
        memory_.Free(gradients[t]);
        gradients.erase(t);
      }
      for (auto t = held.tensors.begin(); t != held.tensors.end();) {
        const OpId reader = first_reader_[At(t->first)];
        const OpId last = std::min(
            reader, g_.tensor(t->first).consumers.empty() ? g_.tensor(t->first).producer : reader);
        if (last < id) {
          ++t;
          continue;
        }
        memory_.Free(t->second);
        t = held.tensors.erase(t);
      }
    }
    const Block passed = gradients[entering_];
    gradients.erase(entering_);
    for (const auto& [t, block] : gradients) memory_.Free(block);
    for (const auto& [t, block] : held.tensors) memory_.Free(block);
    memory_.Free(held.input);
    held = Held();
    return passed;
  }

 private:
  static size_t At(TensorId t) { return static_cast<size_t>(t); }
  Bytes Size(TensorId t) const { return SizeOf(g_, layer_.sizes(), t); }
  bool IsInput(TensorId t) const {
    const GraphTensor& tensor = g_.tensor(t);
    return tensor.role == TensorRole::kActivation &&
           (tensor.producer == kNoOp || !g_.op(tensor.producer).in_block);
  }
  size_t InBlock(TensorId t) const {
    size_t count = 0;
    for (const OpId id : g_.tensor(t).consumers) count += g_.op(id).in_block ? 1 : 0;
    return count;
  }

  bool Keeps(TensorId t, bool again) const {
    if (!again) return kept_[At(t)];
    const OpId producer = g_.tensor(t).producer;
    switch (m_.recompute) {
      case Recompute::kSelective:
        return kept_[At(t)] && !g_.op(producer).attention_core;
      case Recompute::kOperators:
        return g_.op(producer).kind == GraphOpKind::kAttention || share_[At(producer)] > 0;
      case Recompute::kLight:
        return light_[At(t)];
      default:
        return false;
    }
  }

  // Gradients that are no part of what they are added to.
  void WeightGradients(const GraphOp& op) {
    if (m_.zero < 2) return;
    for (const TensorId t : op.inputs) {
      if (g_.tensor(t).role == TensorRole::kWeight) memory_.Free(memory_.Allocate(Size(t)));
    }
  }

  const ParallelMapping& m_;
  MappedLayer layer_;
  const OperatorGraph& g_;
  CachingAllocator& memory_;
  std::vector<bool> kept_;
  std::vector<OpId> first_reader_;  // whose backward pass is the last that needs the tensor
  std::vector<double> share_;
  std::vector<bool> light_;  // by tensor: kept under light recomputation
  TensorId entering_ = -1, leaving_ = -1;
};

class StageWalk {
 public:
  StageWalk(const TransformerConfig& c, const ParallelMapping& m, int32_t stage)
      : c_(c),
        m_(m),
        stage_(stage),
        layers_(c),
        placeholders_(PlaceholdersOf(layers_, m, stage)),
        walk_(c, m, memory_),
        ledger_(StageMemoryOf(c, m, stage)) {}

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
    return AllocatorMemory{memory_.peak_allocated(), memory_.reserved()};
  }

 private:
  int32_t Simulated() const {
    if (m_.dual()) return 2 * m_.pipeline;
    const int64_t flight = (ChunksInFlight(m_, stage_) + m_.chunks - 1) / m_.chunks;
    int64_t count = std::min<int64_t>(m_.microbatches(), flight + 2);
    if (m_.chunks > 1) count = (count + m_.pipeline - 1) / m_.pipeline * m_.pipeline;
    return static_cast<int32_t>(std::min<int64_t>(count, m_.microbatches()));
  }

  // By layer, as weights are made, or in one buffer.
  void ByLayer(double bytes) {
    const auto layers = std::max<int64_t>(StageLayers(c_, m_, stage_), 1);
    for (int64_t i = 0; i < layers; ++i) memory_.Allocate(Whole(bytes / Num(layers)));
  }
  // Distributed optimizers copy weights, which are made one by one, into one buffer (Megatron Core,
  // distributed/param_and_grad_buffer.py).
  void AllocateStates() {
    if (m_.zero == 1 || m_.zero == 2) {
      std::vector<Block> made;
      const auto make = [&](double elements) {
        made.push_back(memory_.Allocate(Whole(elements * Num(ElementSize(c_.dtype)))));
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
      ByLayer(Num(ledger_.weights.count()));
    }
    if (m_.zero < 2) {
      Bytes gradients = ledger_.gradients;
      for (const Bytes placeholder : placeholders_) gradients = gradients - placeholder;
      memory_.Allocate(gradients);
    } else {
      ByLayer(Num(ledger_.gradients.count()));
    }
    ByLayer(OfStates(4));  // masters
  }
  // The optimizer's states are masters and two moments.
  double OfStates(int64_t bytes) const {
    return Num(ledger_.optimizer.count()) * Num(bytes) / Num(4 + 2 * MomentBytes(m_));
  }

  bool Again(int64_t layer) const {
    return m_.recompute == Recompute::kAlternate ? layer % 2 == 1
                                                 : m_.recompute != Recompute::kNone;
  }

  void RunPass(const Pass& pass) {
    const bool head = HasHead(m_, stage_, pass.chunk);
    const std::pair<int32_t, int32_t> key = {pass.microbatch, pass.chunk};
    if (pass.kind == PassKind::kForward) {
      ForwardPass(pass, held_[key]);
      if (head) heads_[key] = memory_.Allocate(Whole(LogitMemoryOf(c_, m_).kept));
      return;
    }
    // Where weight gradients come later, what they read stays until then.
    if (pass.kind == PassKind::kBackwardInput) return;
    if (!holds_places_) {
      for (const Bytes placeholder : placeholders_) memory_.Allocate(placeholder);
      holds_places_ = true;
    }
    if (head) {
      memory_.Free(memory_.Allocate(Whole(LogitMemoryOf(c_, m_).passing)));
      memory_.Free(heads_[key]);
    }
    BackwardPass(pass, held_[key]);
    held_.erase(key);
  }

  void ForwardPass(const Pass& pass, std::vector<Held>& held) {
    const int64_t layers = LayersOf(c_, m_, stage_, pass.chunk);
    const int64_t frozen = layers - TrainedLayersOf(c_, m_, stage_, pass.chunk);
    held.resize(static_cast<size_t>(layers));
    Block x = memory_.Allocate(walk_.width());
    std::deque<Block> gathered;
    Gather(gathered);
    for (int64_t i = 0; i < layers; ++i) {
      if (i + 1 < layers) Gather(gathered);
      x = walk_.Forward(x, i >= frozen, Again(i), held[static_cast<size_t>(i)]);
      Drop(gathered);
    }
    memory_.Free(x);
  }

  void BackwardPass(const Pass& pass, std::vector<Held>& held) {
    const auto layers = static_cast<int64_t>(held.size());
    const int64_t frozen = layers - TrainedLayersOf(c_, m_, stage_, pass.chunk);
    Block gradient = memory_.Allocate(walk_.width());
    std::deque<Block> gathered;
    Gather(gathered);
    for (int64_t i = layers; i-- > frozen;) {
      if (i > frozen) Gather(gathered);
      gradient = walk_.Backward(gradient, Again(i), held[static_cast<size_t>(i)]);
      if (m_.zero >= 3) memory_.Free(memory_.Allocate(Whole(GradientBuffer())));
      Drop(gathered);
    }
    memory_.Free(gradient);
    const Bytes embedding = EmbeddingGradientOf(layers_, m_, stage_);
    if (embedding > Bytes() && HasEmbedding(m_, stage_, pass.chunk)) {
      memory_.Free(memory_.Allocate(embedding));
    }
  }

  double Block1() const { return walk_.layer().dense() + walk_.layer().expert(); }
  double GradientBuffer() const {
    return Num(walk_.layer().gradient_bytes()) *
           (walk_.layer().trained() + walk_.layer().trained_expert());
  }
  void Gather(std::deque<Block>& gathered) {
    if (m_.zero < 3 || m_.replicas() == 1) return;
    gathered.push_back(memory_.Allocate(Whole(Num(ElementSize(c_.dtype)) * Block1())));
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
  std::map<std::pair<int32_t, int32_t>, std::vector<Held>> held_;
  std::map<std::pair<int32_t, int32_t>, Block> heads_;
  bool holds_places_ = false;  // of weight gradients, from the first backward pass on
};

}  // namespace

absl::StatusOr<AllocatorMemory> FollowAllocations(const TransformerConfig& model,
                                                  const ParallelMapping& mapping, int32_t stage) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, mapping, 0));
  const TransformerConfig kind = DenseLayers(model) > 0 ? WithLayersOf(model, false) : model;
  return StageWalk(kind, mapping, stage).Run();
}

absl::StatusOr<Bytes> ReservedMemoryOf(const TransformerConfig& model,
                                       const ParallelMapping& mapping) {
  Bytes most;
  for (const int32_t s : StagesThatMayBeFullest(model, mapping)) {
    FORETRACE_ASSIGN_OR_RETURN(const AllocatorMemory followed,
                               FollowAllocations(model, mapping, s));
    most = std::max(most, StageMemoryOf(model, mapping, s).total() + followed.Fragments());
  }
  return most;
}

}  // namespace foretrace
