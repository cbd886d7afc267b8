#pragma once
// Operators of kernels that PyTorch's compiler generates and whose calls have no shapes.

#include <cstdint>
#include <optional>

#include "simulator/cost/kernel/generated_kernels.h"
#include "simulator/cost/operator/trace_operator.h"
#include "simulator/cost/traced/launch_flow.h"

namespace foretrace {

// They read and write what their names list: tensors of as many elements as their blocks have, rows
// of norms and losses, or, of sums of a whole tensor, what the next point-wise one is given, which
// needs the sum. Given kernels in the order of the flow.
class GeneratedCalls {
 public:
  // Keeps a reference to what it is given. `element`: of what the job computes in.
  GeneratedCalls(const LaunchFlow& flow, const RankTrace& rank, Bytes element)
      : flow_(flow), rank_(rank), element_(element) {}

  bool Is(size_t i) const { return KernelAt(i).has_value(); }
  // `classes`: columns of the logits that the last layer made. nullopt: its sizes are not known.
  std::optional<TracedOperator> Next(size_t i, int64_t classes);

 private:
  std::optional<GeneratedKernel> KernelAt(size_t i) const;
  int64_t ResultsBefore(size_t i) const;
  int64_t ElementsBehind(size_t i) const;

  const LaunchFlow& flow_;
  const RankTrace& rank_;
  Bytes element_;
  double left_ = 0;  // tensors of norms whose weights' gradients no kernel has made
};

}  // namespace foretrace
