#pragma once
// Measured collectives in the neutral CSV schema (calibration/README.md): rows of kind `collective`
// with shape bytes=;ranks=;nodes=;...

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/real_quantities.h"
#include "simulator/base/units.h"

namespace foretrace {

struct MeasuredCollective {
  CollectiveOp op = CollectiveOp::kUnknown;
  int32_t ranks = 0;
  int32_t nodes = 1;
  Bytes bytes;  // as TransferSpec.bytes
  RealUs time;
  DType dtype = DType::kUnknown;
  bool one_way = false;  // a send/recv of which one rank only sends and the other only receives
};

// Rows of other kinds and of operations that are not collectives are skipped; in-place rows
// too, unless the table holds no others. Errors name file and line.
absl::StatusOr<std::vector<MeasuredCollective>> ReadMeasuredCollectives(const std::string& file);

}  // namespace foretrace
