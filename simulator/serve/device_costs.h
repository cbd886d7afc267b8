#pragma once
// What kernels and transfers take on the devices of a deployment, as the step model asks for it.

#include <cstdint>
#include <string>

#include "simulator/base/collective_op.h"
#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace::serve {

// Thread-safe.
class DeviceCosts {
 public:
  virtual ~DeviceCosts() = default;
  virtual Estimate Kernel(const KernelWork& work) const = 0;
  // Among `ranks` neighbours; `bytes` as TransferSpec::bytes defines it. Among one nothing.
  virtual Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const = 0;
  // From a device to one `distance` devices on.
  virtual Estimate Send(int32_t distance, Bytes bytes) const = 0;
  virtual std::string Source() const = 0;
};

}  // namespace foretrace::serve
