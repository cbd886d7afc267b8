#pragma once
// Durations of copies and fills whose size the trace declares.

#include <memory>
#include <optional>
#include <string_view>

#include "simulator/cost/cost_model.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/memcpy/copy_models.h"

namespace foretrace {

// What a link between host and device carries, in GB/s, from the host's side of the GPU's
// generation: PCIe 3.0 x16 for P100, V100, T4 and RTX 20, 4.0 for A100 and A40, 5.0 for H100 and
// H200. 85 % of the link's rate is payload (TLP headers, PCI-SIG).
double HostLinkGbps(const GpuPeaks& device);

// Copies over the link of host and device: measured curves by direction and host memory where the
// calibration has them; else set-up plus bytes over the link, pageable memory through a staging
// buffer that one core fills. Copies within the device and fills are kernels of their bytes.
class CopyCostModel : public CostModel {
 public:
  // `copies` may be null.
  CopyCostModel(std::shared_ptr<const KernelModels> kernels,
                std::shared_ptr<const CopyModels> copies);

  std::string_view name() const override { return "copy"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override;

 private:
  Estimate HostCopy(CopyDirection direction, bool pinned, Bytes bytes) const;

  std::shared_ptr<const KernelModels> kernels_;
  std::shared_ptr<const CopyModels> copies_;
};

}  // namespace foretrace
