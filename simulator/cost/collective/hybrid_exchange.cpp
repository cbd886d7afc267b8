#include "simulator/cost/collective/hybrid_exchange.h"

namespace foretrace {
namespace {

// What a channel of DeepEP's kernels takes before the first token arrives, within a node
// (calibration/h100-sxm5-nvswitch/expert_exchange.yaml).
constexpr double kLatencyUs = 24;
constexpr double kTokenKb = 14.336;  // that of the tables

ExpertKernel Within(double nvlink_share, double copy_us) {
  ExpertKernel kernel;
  kernel.latency_us = kLatencyUs;
  kernel.nvlink_share = nvlink_share;
  kernel.copy_us_per_KB = copy_us / kTokenKb;
  return kernel;
}

// A line through the times of 2, 4 and 8 nodes with 16 multiprocessors.
ExpertKernel Between(const ExpertKernel& within, double latency_us, double nic_share) {
  ExpertKernel kernel = within;
  kernel.latency_us = latency_us;
  kernel.nic_share = nic_share;
  kernel.sharpness = 8;  // links of both kinds are busy at once
  return kernel;
}

}  // namespace

const ExpertKernel& HybridKernel(ExpertDirection direction, int32_t nodes) {
  static const ExpertKernel kDispatch = Within(0.761, 0.0182), kCombine = Within(0.774, 0.0649);
  static const ExpertKernel kDispatchBetween = Between(kDispatch, 230, 0.90),
                            kCombineBetween = Between(kCombine, 450, 0.92);
  if (direction == ExpertDirection::kDispatch) return nodes > 1 ? kDispatchBetween : kDispatch;
  return nodes > 1 ? kCombineBetween : kCombine;
}

}  // namespace foretrace
