#pragma once
// Measured curves of a platform's calibration, as FittedNetwork asks for them.

#include <memory>

#include "simulator/cost/collective/collective_calibration.h"
#include "simulator/network/fitted_network.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// Answers by operation, number of members, and the nodes that the topology places them on; the
// message size is TransferSpec::bytes, which for unequal all-to-all splits is the largest row or
// column sum (multi-GPU paper, section IV-A). Curves are measured on ranks spread evenly over
// nodes: other placements are answered and flagged as extrapolated, as are sizes up to four times
// beyond the measured ones. What the calibration does not cover is left to the analytic models of
// the topology. `topology` must outlive the function, which is not thread-safe.
FittedNetwork::Measured CalibratedTransfers(
    std::shared_ptr<const CollectiveCalibration> calibration, const Topology& topology);

}  // namespace foretrace
