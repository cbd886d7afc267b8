#pragma once
// Time of one collective as a function of its message size: the closed forms, and the measured
// shape on top of them.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/collective_op.h"
#include "simulator/base/real_quantities.h"

namespace foretrace {

// Bytes that cross the busiest link per byte of message: bus bandwidth = factor x bytes / time, as
// nccl-tests defines it. all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all, gather,
// scatter (n-1)/n; others 1. `ranks` is at least 1.
double BusFactor(CollectiveOp op, int64_t ranks);

// The sigmoid of the multi-GPU paper (equation 7) of x = log2(bytes): its value is log10 of the bus
// bandwidth in GB/s.
struct BandwidthSigmoid {
  double height = 0;    // L
  double midpoint = 0;  // x0
  double slope = 0;     // k
  double offset = 0;    // b
  double operator()(double log2_bytes) const;
};
// Largest slope for which m / 10^sigmoid(log2 m) never decreases with m: bandwidth may at most
// double when the size doubles, so height x slope / 4 x ln 10 <= ln 2.
double MaxMonotoneSlope(double height);

enum class CurveForm : uint8_t {
  // t = start_up + factor m / 10^sigmoid(log2 m): 5 parameters, plus knots.
  kCurve,
  // The paper's equation 5 with 8 parameters, made continuous: constant up to m1, factor m /
  // 10^sigmoid(log2 m) up to m2, then start_up + factor m / bandwidth.
  kThreeRegion,
  kCount,
};
std::string_view Name(CurveForm form);
// kCount when there is no such form.
CurveForm ParseCurveForm(std::string_view name);

struct CurveKnot {
  double log2_bytes = 0;
  double log_residual = 0;  // ln(measured time / closed form)
};

// Numbers of the unit that their names say, as files have them and fits move and round them.
struct CurveSpec {
  CurveForm form = CurveForm::kCurve;
  double bus_factor = 1;
  double start_up_us = 0;
  BandwidthSigmoid sigmoid;
  // Three-region form only.
  double m1_bytes = 0;
  double m2_bytes = 0;
  double max_bandwidth_gbps = 0;
  // Ascending in size. Empty: the closed form alone.
  std::vector<CurveKnot> knots;
};

// The closed form without knots; `bytes` of at least 1. Does not check the parameters.
RealUs ClosedForm(const CurveSpec& spec, RealBytes bytes, double log2_bytes);

// Continuous and non-decreasing in the message size. Between knots, log time is interpolated
// linearly in log of the closed form, so that the measured shape keeps the form's bend; outside
// them the closed form is scaled to meet the outermost knot.
class CollectiveCurve {
 public:
  // Errors: parameters that are not finite or break monotonicity, knots out of order.
  static absl::StatusOr<CollectiveCurve> Create(CurveSpec spec);

  const CurveSpec& spec() const { return spec_; }
  // `bytes` of at least 1; smaller counts as 1.
  RealUs Time(RealBytes bytes) const;

 private:
  struct Knot {
    double log2_bytes = 0;
    double log_form = 0;  // ln of the closed form there
    double log_time = 0;
  };
  CurveSpec spec_;
  std::vector<Knot> knots_;
};

}  // namespace foretrace
