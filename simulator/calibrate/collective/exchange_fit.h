#pragma once
// Fits the constants of the kernels that exchange tokens with experts to measured times.

#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/collective/expert_exchange.h"

namespace foretrace {

struct ExchangeSample {
  ExpertExchange exchange;
  ExpertLinks links;
  bool notify = false;  // of what runs before the kernel that moves tokens
  double time_us = 0;   // > 0
};

struct ExchangeFit {
  ExpertExchangeModel model;
  // Numbers of nodes whose deduplicated exchanges took no part: no number of multiprocessors moved
  // half of the share of a NIC that other numbers of nodes reached. What a fabric loses to
  // congestion is its own, not the kernels'.
  std::set<int32_t> congested_nodes;
};

// By logarithms of times, outliers counting little. Constants of kernels between nodes are fitted
// after those within one, whose share of NVLinks they keep; both of kDirect together, as they are
// one kernel. Deterministic. Errors: no samples of a kernel, the solver's.
absl::StatusOr<ExchangeFit> FitExchanges(std::span<const ExchangeSample> samples);

}  // namespace foretrace
