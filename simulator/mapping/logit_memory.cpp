#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {
namespace {

// Bytes an element of the logits.
LogitMemory LogitBytes(LossForm loss, double e) {
  switch (loss) {
    case LossForm::kStepwise:
      // Backward the choice's gradient and the softmax's, both in 32 bits, beside what was kept.
      return {4, 8};
    case LossForm::kStepwiseParallel:
      // Backward the choice's gradient, its sum with the softmax, and that times the loss's.
      return {4, 12};
    case LossForm::kFused:
      return {e, e};
    case LossForm::kOverwritten:
      return {e, 0};
    default:
      return {4, e};
  }
}

}  // namespace

double LogitsOf(const TransformerConfig& c, const ParallelMapping& m) {
  return AsDouble(c.sequence) * AsDouble(c.vocabulary) * m.micro_batch / m.context / m.tensor;
}

LogitMemory LogitMemoryOf(const TransformerConfig& c, const ParallelMapping& m) {
  const double logits = LogitsOf(c, m);
  const LogitMemory each = LogitBytes(LossOf(c, m), AsDouble(ElementSize(c.dtype)));
  return {each.kept * logits, each.passing * logits};
}

}  // namespace foretrace
