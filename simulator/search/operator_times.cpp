#include "simulator/search/operator_times.h"

#include <algorithm>
#include <vector>

#include "simulator/mapping/kernel_coster.h"
#include "simulator/workload/scaled_calls.h"
#include "simulator/workload/tensor_parallel.h"

namespace foretrace {

std::optional<RealSeconds> OperatorTimes::Kernels(const Operator& op, int32_t width,
                                                  int64_t samples, Direction pass) const {
  if (op.calls.empty()) return std::nullopt;
  // What has no gradients (indices, constants) has no backward pass.
  if (pass == Direction::kBackward && op.backward_flop == Flop() && op.backward_bytes == Bytes()) {
    return RealSeconds();
  }
  const KernelCoster coster(p_);
  double seconds = 0;
  int64_t kernels = 0;
  for (OperatorCall call : width > 1 ? DividedCalls(op, width) : op.calls) {
    if (!ScaleSamples(w_.call_samples, samples, call)) return std::nullopt;
    call.pass = pass;
    const KernelList list = foretrace::Kernels(call);
    seconds += coster.Time(list, sources_).seconds();
    kernels += static_cast<int64_t>(list.size());
  }
  return RealSeconds(std::max(seconds, p_.issue.seconds() * static_cast<double>(kernels)));
}

}  // namespace foretrace
