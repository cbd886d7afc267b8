#include "simulator/mapping/layer_walk.h"

#include <algorithm>
#include <utility>

#include "simulator/base/real_sizes.h"
#include "simulator/graph/differentiate.h"
#include "simulator/mapping/kept_activations.h"
#include "simulator/mapping/recomputed_modules.h"

namespace foretrace {

LayerWalk::LayerWalk(const TransformerConfig& c, const ParallelMapping& m, CachingAllocator& memory)
    : m_(m),
      layer_(c, m),
      g_(layer_.graph()),
      memory_(memory),
      eager_(c.eager),
      singly_(WholeBytes(KeptSingly(layer_, c.eager, c.repeats_keys))) {
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
  AlternateGemms gemms = EverySecondGemm(g_, layer_.sizes());
  share_ = std::move(gemms.share);
  followed_ = std::move(gemms.followed);
  in_parts_ = PartsAgain(g_, m_).kept;
}

std::vector<double> LayerWalk::Weights() const {
  std::vector<double> weights;
  for (const GraphOp& op : g_.ops()) {
    double table = 0;
    for (const TensorId t : op.inputs) {
      if (!op.in_block || g_.tensor(t).role != TensorRole::kWeight) continue;
      const double elements = AsDouble(Elements(g_, layer_.sizes(), t));
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

bool LayerWalk::IsInput(TensorId t) const {
  const GraphTensor& tensor = g_.tensor(t);
  return tensor.role == TensorRole::kActivation &&
         (tensor.producer == kNoOp || !g_.op(tensor.producer).in_block);
}

size_t LayerWalk::InBlock(TensorId t) const {
  size_t count = 0;
  for (const OpId id : g_.tensor(t).consumers) count += g_.op(id).in_block ? 1 : 0;
  return count;
}

bool LayerWalk::Keeps(TensorId t, bool again) const {
  if (!again) return kept_[At(t)];
  const OpId producer = g_.tensor(t).producer;
  switch (m_.recompute) {
    case Recompute::kSelective:
      return kept_[At(t)] && !g_.op(producer).attention_core;
    case Recompute::kOperators:
      // A compiler keeps what is read alone (EverySecondGemm).
      if (!eager_ && !followed_[At(t)]) return false;
      return g_.op(producer).kind == GraphOpKind::kAttention || share_[At(producer)] > 0;
    case Recompute::kLight:
    case Recompute::kModules:
      return in_parts_[At(t)];
    default:
      return false;
  }
}

// Of GEMMs that stand for several, what every second one of these gave.
double LayerWalk::ShareKept(TensorId t, bool again) const {
  const double share = KeptShare(g_, t, m_);
  const OpId producer = g_.tensor(t).producer;
  if (!again || m_.recompute != Recompute::kOperators || producer == kNoOp) return share;
  const double of_gemm = share_[At(producer)];
  return g_.op(producer).kind == GraphOpKind::kMatmul ? share * of_gemm : share;
}

// Gradients that are no part of what they are added to.
void LayerWalk::WeightGradients(const GraphOp& op, ShardedPools* pools) {
  if (m_.zero < 2) return;
  for (const TensorId t : op.inputs) {
    if (g_.tensor(t).role != TensorRole::kWeight) continue;
    if (pools != nullptr) {
      pools->AddGradient(Size(t));
    } else {
      memory_.Free(memory_.Allocate(Size(t)));
    }
  }
}

LayerWalk::Block LayerWalk::Forward(Block input, bool kept, bool again, HeldTensors& held) {
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
      const double share = stays ? ShareKept(t, again) : 1;
      if (stays && share == 1) continue;
      const Block wide = live[t];
      live.erase(t);
      if (stays) live[t] = memory_.Allocate(WholeBytes(share * AsDouble(Size(t).count())));
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
    if (!again) held.singly = memory_.Allocate(singly_);
    live.erase(entering_);
    held.tensors = std::move(live);
  }
  return output;
}

LayerWalk::Block LayerWalk::Backward(Block gradient, bool again, HeldTensors& held,
                                     ShardedPools* pools) {
  if (again) {
    HeldTensors whole;
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
    if (IsTrained(op, m_)) WeightGradients(op, pools);
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
  memory_.Free(held.singly);
  memory_.Free(held.input);
  held = HeldTensors();
  return passed;
}

}  // namespace foretrace
