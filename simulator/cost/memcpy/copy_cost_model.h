#pragma once
// Durations of copies and fills whose size the trace declares.

#include <memory>
#include <optional>
#include <string_view>

#include "simulator/cost/cost_model.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/memcpy/copy_models.h"

namespace foretrace {

// Copies over the link of host and device: measured curves by direction and host memory where the
// calibration has them; else set-up plus bytes over the link, pageable memory through a staging
// buffer that one core fills, as the device's file states them. Copies within the device and fills
// are kernels of their bytes.
class CopyCostModel : public CostModel {
 public:
  // `copies` may be null.
  CopyCostModel(std::shared_ptr<const KernelModels> kernels,
                std::shared_ptr<const CopyModels> copies);

  std::string_view name() const override { return "copy"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override;

 private:
  std::optional<Estimate> HostCopy(CopyDirection direction, bool pinned, Bytes bytes) const;
  // To another device: by the links to others, else as to the host.
  std::optional<Estimate> PeerCopy(Bytes bytes) const;
  // Within the host's memory.
  std::optional<Estimate> ByCore(Bytes bytes) const;

  std::shared_ptr<const KernelModels> kernels_;
  std::shared_ptr<const CopyModels> copies_;
};

}  // namespace foretrace
