#include "simulator/mapping/shard_copies.h"

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"

namespace foretrace {
namespace {

// The kernel that casts gradients and puts them rank by rank into the buffer that is reduced
// (aten::_chunk_cat) takes so many times as long as a cast: 1.73 to 1.92 TB/s on an H100 in 17
// recordings (llama-training of traces/captured/h100-sxm5), where logits are cast at 2.85.
constexpr double kChunkCat = 1.6;

}  // namespace

bool ShardCopier::copies() const {
  // Flat parameters of one replica are not divided (torch/distributed/fsdp, NO_SHARD).
  const bool flat = p_.flat_parameters && m_.replicas() > 1;
  return m_.zero >= 3 && (p_.per_parameter_sharding || flat);
}

ShardCopies ShardCopier::Of(double elements, double trained, double own,
                            int64_t weight_bytes) const {
  if (!copies() || elements <= 0) return {};
  const auto n = static_cast<int64_t>(elements);
  const auto changed = static_cast<int64_t>(trained);
  if (p_.flat_parameters) return {0, Call(ElementwiseOp{changed, changed}, l_.dtype())};
  ElementwiseOp gradients{changed, changed};
  if (l_.gradient_bytes() >= 4) gradients.output_dtype = DType::kFloat32;
  const DType gathered = weight_bytes == 1 ? DType::kUInt8 : l_.dtype();
  double weights = Call(ElementwiseOp{n, n}, gathered);
  // Of several replicas each casts its part, on a stream of its own.
  if (m_.replicas() == 1) {
    ElementwiseOp cast{n, n};
    cast.output_dtype = gathered;
    weights += Call(cast, DType::kFloat32);
  }
  if (changed == 0) return {weights, 0};
  return {weights, kChunkCat * Call(gradients, l_.dtype()) + Reduced(changed, own)};
}

// What is left to do of a micro-batch's gradients when they are reduced. NCCL copies what a
// single rank reduces, and what is reduced is added to the sum of the micro-batches before, of
// the own part in 32 bits (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
// foreach_reduce: to_accumulate_grad), here in their mean. Both on a stream of their own, but
// kernels that fill the device run before or after those beside them: in a recording of four
// micro-batches (llama3-8b-l4-s4096-b1-none-x4 of traces/captured/h100-sxm5) they add 44 of its
// 391 ms.
double ShardCopier::Reduced(int64_t gradients, double own) const {
  const DType dtype = l_.gradient_bytes() >= 4 ? DType::kFloat32 : l_.dtype();
  double seconds = m_.replicas() == 1 ? Call(ElementwiseOp{gradients, gradients}, dtype) : 0;
  const double later = 1 - 1 / AsDouble(m_.microbatches());
  const auto n = static_cast<int64_t>(own);
  if (later > 0 && n > 0) seconds += later * Call(ElementwiseOp{n, 2 * n}, dtype);
  return seconds;
}

}  // namespace foretrace
