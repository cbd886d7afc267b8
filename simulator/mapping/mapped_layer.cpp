#include "simulator/mapping/mapped_layer.h"

#include <algorithm>

#include "simulator/base/dtype.h"

namespace foretrace {

MappedLayer::MappedLayer(const TransformerConfig& config, const ParallelMapping& m) {
  const TransformerConfig c = WithDefaults(config);
  model_ = MakeTransformerGraph(c);
  sizes_ = BindTransformer(model_, c,
                           {m.tensor, m.context, m.expert, m.micro_batch, m.sequence_parallel});
  const OperatorGraph& g = model_.graph;
  bool after = false;
  for (const GraphOp& op : g.ops()) {
    after |= op.in_block;
    for (const TensorId id : op.inputs) {
      const GraphTensor& t = g.tensor(id);
      if (t.role != TensorRole::kWeight) continue;
      const auto elements = static_cast<double>(Elements(g, sizes_, id));
      const bool experts =
          std::find(t.axes.begin(), t.axes.end(), model_.axes.experts) != t.axes.end();
      (op.in_block ? experts ? expert_ : dense_ : after ? head_ : embedding_) += elements;
    }
  }
}

int64_t GradientBytes(const TransformerConfig& config, const ParallelMapping& mapping) {
  if (mapping.gradient_bytes > 0) return mapping.gradient_bytes;
  return config.dtype == DType::kBFloat16 ? 4 : ElementSize(config.dtype);
}

}  // namespace foretrace
