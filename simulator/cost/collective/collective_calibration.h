#pragma once
// The calibrated collectives of one platform, and their lookup.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/collective/collective_curve.h"

namespace foretrace {

// One measured sweep over sizes.
struct CollectiveModel {
  CollectiveOp op = CollectiveOp::kUnknown;
  int32_t ranks = 0;
  int32_t nodes = 1;  // 1: all ranks within a node
  bool inplace = false;
  std::string dtype;
  std::string library;  // with version where known
  std::string source;
  Bytes min_bytes;  // measured range
  Bytes max_bytes;
  int64_t points = 0;
  CollectiveCurve curve;

  // "all_reduce ranks=8 nodes=1 inplace vtrain"
  std::string Name() const;
};

class CollectiveEstimator;

// Immutable and thread-safe.
class CollectiveCalibration {
 public:
  // Models earlier in the list win over later ones that cover the same query, save that in-place
  // sweeps come first for all-reduce, reduce and broadcast and out-of-place sweeps for the rest, as
  // frameworks call them.
  CollectiveCalibration(CalibrationHeader header, std::vector<CollectiveModel> models);

  const CalibrationHeader& header() const { return header_; }
  const std::vector<CollectiveModel>& models() const { return models_; }

  // What answers for `op` among `ranks` ranks spread evenly over `nodes` nodes. Measured ranks
  // exactly; else, within a node of a switch and across nodes with the same ranks per node, what
  // grows with the bytes by bus bandwidth and the rest as time, in log ranks between measured ones,
  // and the nearest measured bus bandwidth beyond them, flagged. Not covered otherwise: meshes are
  // not monotone in ranks.
  CollectiveEstimator Resolve(CollectiveOp op, int32_t ranks, int32_t nodes) const;

 private:
  friend class CollectiveEstimator;
  // Sweeps of one (op, ranks, nodes), best first.
  struct Group {
    CollectiveOp op = CollectiveOp::kUnknown;
    int32_t ranks = 0;
    int32_t nodes = 0;
    double bus_factor = 1;
    std::vector<uint32_t> models;
  };
  struct Time {
    RealUs time;
    bool extrapolated = false;
  };
  Time GroupTime(const Group& group, Bytes bytes) const;

  CalibrationHeader header_;
  std::vector<CollectiveModel> models_;
  std::vector<Group> groups_;  // by op, ranks per node (0 within a node), ranks
};

// The resolved lookup for one operation on one set of ranks; resolve once, ask for many sizes. Must
// not outlive its calibration.
class CollectiveEstimator {
 public:
  CollectiveEstimator() = default;
  bool covered() const { return low_ != nullptr; }
  // `bytes` as TransferSpec::bytes defines it. Requires covered(). Empty messages cost what one
  // byte costs.
  Estimate Time(Bytes bytes) const;

 private:
  friend class CollectiveCalibration;
  // By how much time grows with a number of bytes, from half to twice it: 0, all of it is latency,
  // to 1.
  double GrowingShare(const CollectiveCalibration::Group& group, Bytes bytes) const;

  const CollectiveCalibration* calibration_ = nullptr;
  const CollectiveCalibration::Group* low_ = nullptr;
  const CollectiveCalibration::Group* high_ = nullptr;  // null: low_ alone
  double high_weight_ = 0;
  double bus_factor_ = 1;
  bool extrapolated_ranks_ = false;
};

}  // namespace foretrace
