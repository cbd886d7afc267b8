#pragma once
// What a device's kernels and its links to neighbours take, from calibrations.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "simulator/base/collective_op.h"
#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/kernel/kernels_beside.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Time by where it comes from.
struct CostSources {
  std::array<double, static_cast<size_t>(EstimateSource::kCount)> seconds = {};
  double extrapolated = 0;  // of all of it

  void Add(double s, const Estimate& estimate) {
    seconds[static_cast<size_t>(estimate.source)] += s;
    if (estimate.extrapolated) extrapolated += s;
  }
  double total() const {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum;
  }
  double extrapolated_share() const { return total() > 0 ? extrapolated / total() : 0; }
  double share(EstimateSource source) const {
    return total() > 0 ? seconds[static_cast<size_t>(source)] / total() : 0;
  }
};

// Thread-safe.
class DeviceMeasurements {
 public:
  virtual ~DeviceMeasurements() = default;
  // Of the chain that predicts recorded kernels: calibrated, else by analogy on the device's peaks.
  virtual Estimate KernelTime(const KernelWork& work) const = 0;
  // A collective of a whole buffer among `ranks` neighbours in a node; nullopt: not measured.
  virtual std::optional<Estimate> CollectiveTime(CollectiveOp op, int32_t ranks,
                                                 Bytes bytes) const = 0;
  // Whether sizes were measured that tell how long one of so many bytes takes (MeasuredSizes).
  virtual bool Covers(CollectiveOp /*op*/, int32_t /*ranks*/, Bytes /*bytes*/) const {
    return false;
  }
  // Whether they are fewer than all that were measured among exactly so many ranks.
  virtual bool Below(CollectiveOp /*op*/, int32_t /*ranks*/, Bytes /*bytes*/) const {
    return false;
  }
  // What a kernel needs of what collectives beside it hold; nullopt: not known.
  virtual std::optional<KernelDemand> Demand(const KernelWork& /*work*/) const {
    return std::nullopt;
  }
  virtual SharedDevice Shared() const { return {}; }
  // Where they come from, for reports and to tell searches apart.
  virtual std::string Source() const = 0;
};

}  // namespace foretrace
