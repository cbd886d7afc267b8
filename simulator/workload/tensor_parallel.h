#pragma once
// Which operators of a model can be divided by tensor parallelism, found from their shapes.

#include "simulator/workload/workload.h"

namespace foretrace {

// What Operator::stash_tensor of a workload holds of each operator.
enum class Kept : uint8_t { kInputs, kResults };

// Sets tensor_ways, reduces_output and reduces_gradient of operators of one known call, as
// Megatron-LM divides a transformer (Shoeybi et al., 2019, section 3): the results of a GEMM are
// divided by its weights' columns (filters of a convolution), pass through operators that work on
// each part alone (point-wise ones, attention and batched GEMMs by heads, softmax within heads,
// norms and pools of channels), and end in GEMMs whose weights are divided by rows, which are
// summed over the group. A division is taken where every producer and reader of the tensors between
// can take part, the earliest first, since a GEMM is divided on one side alone. Sizes that all
// of them share bound its width; columns of several weights in one (queries, keys, values) are
// counted as permuted. Operators whose division is known already keep it. What is kept of a GEMM
// divided by columns (its inputs) or by rows (its results) stays whole: it moves to stash_sequence.
void FindTensorParallelism(Workload& workload, Kept kept);

// One of `width` devices' part of the calls of an operator that is divided so.
std::vector<OperatorCall> DividedCalls(const Operator& op, int32_t width);

}  // namespace foretrace
