#pragma once
// From a row of a benchmark table to the operator that it timed.

#include "absl/status/statusor.h"
#include "simulator/calibrate/csv_table.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

struct BenchmarkOperator {
  OperatorCall op;
  Precision precision = Precision::kFloat32;
  KernelList kernels;  // of `op`, operands lying as the row says
};

// Errors: an operator without a kernel model, a dtype that is not a floating-point type.
absl::StatusOr<BenchmarkOperator> OperatorOfRow(const BenchmarkRow& row);

// Kernels before a GEMM's own that the row's time contains: they make 8 bits of x, which lies in
// 16. Empty: none.
KernelList QuantisationOf(const BenchmarkRow& row);

}  // namespace foretrace
