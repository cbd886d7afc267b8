#pragma once
// Fits the constants of the kernels that exchange tokens with experts to measured times.

#include <array>
#include <cstdint>
#include <map>
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
  // What transfers take on that fabric, by number of nodes and ExpertDirection: no part of the
  // model. What runs before them waits for ranks, not for the fabric.
  std::map<int32_t, std::array<ExpertKernel, 2>> congested;

  // Of transfers, on the fabric that was measured.
  const ExpertKernel& KernelOf(const ExpertExchange& exchange) const;
  // Kernels that there were no rows of: "direct combines between nodes".
  std::vector<std::string> Missing() const;
};

inline bool IsFitted(const ExpertKernel& kernel) { return kernel.most_tokens > 0; }

// By logarithms of times, outliers counting little. Constants of kernels between nodes are fitted
// after those within one, whose share of NVLinks they keep; both of kDirect together, as they are
// one kernel; what there are no samples of is left out. Deterministic. Errors: no samples, the
// solver's.
absl::StatusOr<ExchangeFit> FitExchanges(std::span<const ExchangeSample> samples);

}  // namespace foretrace
