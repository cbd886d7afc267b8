#include "simulator/mapping/mapped_layer.h"

#include <algorithm>
#include <variant>

#include "simulator/base/dtype.h"

namespace foretrace {

namespace {

TransformerShares SharesOf(const ParallelMapping& m, bool gathers_keys = false) {
  TransformerShares shares{m.tensor,      m.context,           m.expert,
                           m.micro_batch, m.sequence_parallel, m.expert_width()};
  shares.sequence = m.ring      ? gathers_keys ? SequenceForm::kGradientRing : SequenceForm::kRing
                    : m.ulysses ? SequenceForm::kHeads
                                : SequenceForm::kGather;
  shares.balance_loss = m.balance_loss;
  shares.arriving = m.expert_load();
  shares.leaving = m.expert_capacity > 0 ? m.expert_load() : 1;
  return shares;
}

}  // namespace

const ShardedGraph& ModelGraph::Sharded(const TransformerConfig& config, const ParallelMapping& m,
                                        bool gathers_keys) const {
  const TransformerShares shares = SharesOf(m, gathers_keys);
  uint32_t key = static_cast<uint32_t>(shares.sequence);
  for (const bool divides : {m.tensor > 1, m.context > 1, m.expert > 1, m.sequence_parallel,
                             m.expert_width() == 1, m.balance_loss}) {
    key = key * 2 + (divides ? 1 : 0);
  }
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const ShardedGraph>& sharded = sharded_[key];
  if (sharded == nullptr) {
    sharded = std::make_unique<const ShardedGraph>(
        ShardGraph(graph, DivisionOf(*this, WithDefaults(config), shares)));
  }
  return *sharded;
}

SharedGraph GraphOf(const TransformerConfig& config) {
  return std::make_shared<const ModelGraph>(MakeTransformerGraph(WithDefaults(config)));
}

LossForm LossOf(const TransformerConfig& c, const ParallelMapping& m) {
  const bool divided = m.tensor > 1 && c.loss == LossForm::kStepwise;
  return divided ? LossForm::kStepwiseParallel : c.loss;
}

MappedLayer::MappedLayer(const TransformerConfig& config, const ParallelMapping& m,
                         const SharedGraph& graph)
    : model_(graph != nullptr ? graph : GraphOf(config)), mapping_(m) {
  const TransformerConfig c = WithDefaults(config);
  sizes_ = BindTransformer(*model_, c, SharesOf(m));
  gradient_bytes_ = GradientBytes(c, m);
  one_root_ = m.pipeline == 1 || m.dual() || m.returns();
  window_ = {c.window, c.window_pieces,
             static_cast<double>(WindowedLayers(c)) / static_cast<double>(c.layers)};
  tied_ = IsTied(config);
  clamped_ = c.clamped;
  dtype_ = c.dtype;
  loss_ = LossOf(c, mapping_);
  const OperatorGraph& g = model_->graph;
  for (OpId id = 0; m.lora > 0 && static_cast<size_t>(id) < g.ops().size(); ++id) {
    if (!IsAdapted(g.op(id), m)) continue;
    for (const OperatorCall& call : CallsOf(g, sizes_, id, Direction::kForward)) {
      const auto* linear = std::get_if<LinearOp>(&call.shape);
      if (linear != nullptr) trained_ += static_cast<double>(m.lora * (linear->n + linear->k));
    }
  }
  const LinearOp join = FurtherTokenJoin(c, 1, m.tensor);
  head_ += static_cast<double>(c.further_tokens * join.n * join.k);
  bool after = false;
  for (const GraphOp& op : g.ops()) {
    after |= op.in_block;
    for (const TensorId id : op.inputs) {
      const GraphTensor& t = g.tensor(id);
      if (t.role != TensorRole::kWeight) continue;
      const auto elements = static_cast<double>(Elements(g, sizes_, id));
      const bool experts =
          std::find(t.axes.begin(), t.axes.end(), model_->axes.experts) != t.axes.end();
      (op.in_block ? experts ? expert_ : dense_ : after ? head_ : embedding_) += elements;
      if (op.in_block && IsTrained(op, m)) (experts ? trained_expert_ : trained_) += elements;
    }
    if (op.kind != GraphOpKind::kMatmul) continue;
    if (op.in_block && IsTrained(op, m)) AddShape(op, trained_shapes_);
    if (!op.in_block && after) AddShape(op, head_shapes_);
  }
}

// Weights that one GEMM reads side by side (queries', keys' and values') are one.
void MappedLayer::AddShape(const GraphOp& op, std::vector<WeightShape>& shapes) const {
  WeightShape shape = {0, 0};
  AxisId summed = -1;
  for (const TensorId id : op.inputs) {
    const GraphTensor& t = model_->graph.tensor(id);
    absl::InlinedVector<AxisId, 4> axes(t.axes.begin(), t.axes.end());
    axes.erase(std::remove(axes.begin(), axes.end(), model_->axes.experts), axes.end());
    if (t.role != TensorRole::kWeight || axes.size() < 2) continue;
    if (summed >= 0 && axes[0] != summed) continue;  // a bias
    summed = axes[0];
    int64_t columns = 1;
    for (size_t i = 1; i < axes.size(); ++i) columns *= sizes_.of(axes[i]);
    shape = {sizes_.of(axes[0]), shape.second + columns};
  }
  if (shape.second == 0 || std::ranges::find(shapes, shape) != shapes.end()) return;
  shapes.push_back(shape);
}

const Stash& MappedLayer::stash() const {
  if (!stash_) {
    stash_ = StashOfBlock(graph(), sizes_, [this](const GraphOp& op) {
      return IsTrained(op, mapping_) || IsAdapted(op, mapping_);
    });
    if (mapping_.ulysses) stash_->whole += stash_->fused;
  }
  return *stash_;
}

std::pair<double, double> MappedLayer::RootWeights() const {
  if (!one_root_) return {embedding_, head_};
  return {embedding_ + (tied_ ? 0 : head_), 0};
}

bool IsAdapted(const GraphOp& op, const ParallelMapping& m) {
  return m.lora > 0 && op.in_block && op.kind == GraphOpKind::kMatmul &&
         (m.lora_everywhere || op.name == "qkv" || op.name == "query up" || op.name == "query" ||
          op.name == "key and value up");
}

bool IsTrained(const GraphOp& op, const ParallelMapping& m) {
  if (m.lora > 0 || (!op.in_block && !m.trains_ends())) return false;
  if (!m.train_attention && !m.train_ffn) return true;
  static constexpr std::string_view kFeedForward[] = {
      "ffn up", "ffn down", "shared up", "shared down", "router", "latent in", "latent out"};
  if (op.kind != GraphOpKind::kMatmul) return false;
  const bool ffn = std::find(std::begin(kFeedForward), std::end(kFeedForward), op.name) !=
                   std::end(kFeedForward);
  return ffn ? m.train_ffn : m.train_attention;
}

int64_t GradientBytes(const TransformerConfig& config, const ParallelMapping& mapping) {
  if (mapping.gradient_bytes > 0) return mapping.gradient_bytes;
  return config.dtype == DType::kBFloat16 ? 4 : ElementSize(config.dtype);
}

}  // namespace foretrace
