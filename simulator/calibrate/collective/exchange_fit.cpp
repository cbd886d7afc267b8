#include "simulator/calibrate/collective/exchange_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/least_squares.h"

namespace foretrace {
namespace {

using Samples = std::vector<const ExchangeSample*>;
using K = ExpertKernel;

// Of a logarithm; what is further off counts linearly.
constexpr double kSoftScale = 0.05;
constexpr size_t kKernels = 8;

// A constant that is fitted, between bounds, from a start that is of its size.
struct Free {
  double K::*value;
  double least, most, start;
};

// DeepEP's intranode.cu: channels of two multiprocessors, chunks in peers' buffers.
const std::vector<Free> kWithin = {
    {&K::latency_us, 1, 200, 25},
    {&K::latency_us_per_KB, 0, 10, 1},
    {&K::latency_us_per_KB_copy, 0, 5, 0.2},
    {&K::fill_us, 0, 200, 1},
    {&K::fill_us_per_KB, 0, 50, 2},
    {&K::fill_us_per_KB_copy, 0, 10, 0.2},
    {&K::fill_copies, 1, 5000, 150},
    {&K::copy_us, 0, 2, 0.03},
    {&K::copy_us_per_KB, 0, 0.5, 0.02},
    {&K::token_us, 0, 5, 0.2},
    {&K::token_us_per_KB, 0, 1, 0.02},
    {&K::token_us_per_KB_copy, 0, 0.2, 0.005},
    {&K::overlap, 1, 12, 4},
    {&K::nvlink_share, 0.2, 1, 0.75},
    {&K::sharpness, 1, 12, 5},
};
// internode.cu: the same, and to the node's rank of the same place by RDMA before. One hidden size
// is measured of it at the least, so that what is paid by the copy has to be by its bytes alone.
const std::vector<Free> kBetween = {
    {&K::latency_us, 1, 200, 20},       {&K::latency_us_per_doubling, 0, 50, 10},
    {&K::fill_us_per_KB, 0, 50, 5},     {&K::fill_copies, 1, 5000, 200},
    {&K::copy_us_per_KB, 0, 0.5, 0.03}, {&K::relay_us_per_KB, 0, 0.5, 0.02},
    {&K::nic_share, 0.3, 1, 0.95},      {&K::sharpness, 1, 12, 6},
};
// internode_ll.cu. The first is of exchanges within a node; the second of those between.
const std::vector<Free> kDirect = {
    {&K::latency_us, 1, 100, 8},
    {&K::latency_us, 1, 100, 12},
    {&K::latency_us_per_KB, 0, 10, 0.2},
    {&K::latency_us_per_expert, 0, 5, 0.1},
    {&K::latency_us_per_doubling, 0, 50, 4},
    {&K::token_us, 0, 20, 1},
    {&K::token_us_per_KB, 0, 5, 0.2},
    {&K::nvlink_share, 0.2, 1, 0.55},
    {&K::nic_share, 0.3, 1, 0.95},
    {&K::sharpness, 1, 12, 3},
};
const std::vector<Free> kNotify = {
    {&K::notify_us, 0, 200, 10},
    {&K::notify_us_per_doubling, 0, 100, 20},
    {&K::notify_share, 0, 1, 0.01},
};

double MostTokens(const Samples& samples) {
  double most = 0;
  for (const ExchangeSample* s : samples) most = std::max(most, s->exchange.tokens);
  return most;
}

double LogError(double predicted, double measured) {
  return std::log(std::max(predicted, 1e-6) / measured);
}

// `residual(parameters, sample)` for every sample.
template <typename Residual>
absl::StatusOr<std::vector<double>> Solve(const std::vector<Free>& free, const Samples& samples,
                                          const Residual& residual) {
  LeastSquaresProblem problem;
  problem.residual_count = samples.size();
  problem.residuals = [&](std::span<const double> parameters, std::span<double> residuals) {
    for (size_t i = 0; i < samples.size(); ++i) residuals[i] = residual(parameters, *samples[i]);
  };
  std::vector<double> start;
  for (const Free& f : free) {
    problem.bounds.push_back({f.least, f.most});
    start.push_back(f.start);
  }
  problem.starts.push_back(std::move(start));
  FORETRACE_ASSIGN_OR_RETURN(LeastSquaresResult solved,
                             SolveLeastSquares(problem, {.soft_l1_scale = kSoftScale}));
  return std::move(solved.parameters);
}

void Set(const std::vector<Free>& free, std::span<const double> parameters, ExpertKernel& kernel) {
  for (size_t i = 0; i < free.size(); ++i) kernel.*free[i].value = parameters[i];
}

absl::Status FitKernel(const std::vector<Free>& free, const Samples& samples,
                       ExpertKernel& kernel) {
  const auto residual = [&](std::span<const double> parameters, const ExchangeSample& s) {
    ExpertKernel k = kernel;
    Set(free, parameters, k);
    return LogError(TransferOf(k, s.links, s.exchange).us(), s.time_us);
  };
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> parameters, Solve(free, samples, residual));
  Set(free, parameters, kernel);
  kernel.most_tokens = MostTokens(samples);
  return absl::OkStatus();
}

// kDirect's parameters as those of an exchange within a node, or between nodes.
ExpertKernel DirectKernel(std::span<const double> parameters, bool between) {
  ExpertKernel kernel;
  Set(kDirect, parameters, kernel);
  kernel.latency_us = parameters[between ? 1 : 0];
  return kernel;
}

absl::Status FitDirect(const Samples& samples, ExpertKernel& within, ExpertKernel& between) {
  Samples of_node, of_nodes;
  for (const ExchangeSample* s : samples) {
    (s->exchange.routing.nodes > 1 ? of_nodes : of_node).push_back(s);
  }
  if (samples.empty()) return absl::OkStatus();
  const auto residual = [](std::span<const double> parameters, const ExchangeSample& s) {
    const ExpertKernel k = DirectKernel(parameters, s.exchange.routing.nodes > 1);
    return LogError(TransferOf(k, s.links, s.exchange).us(), s.time_us);
  };
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> parameters,
                             Solve(kDirect, samples, residual));
  if (!of_node.empty()) within = DirectKernel(parameters, false);
  if (!of_nodes.empty()) between = DirectKernel(parameters, true);
  within.most_tokens = MostTokens(of_node);
  between.most_tokens = MostTokens(of_nodes);
  return absl::OkStatus();
}

absl::Status FitNotify(const Samples& samples, ExpertKernel& kernel) {
  const auto residual = [&](std::span<const double> parameters, const ExchangeSample& s) {
    ExpertKernel k = kernel;
    Set(kNotify, parameters, k);
    const RealUs transfer = TransferOf(kernel, s.links, s.exchange);
    return LogError(NotifyOf(k, s.exchange.routing, transfer).us(), s.time_us);
  };
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> parameters,
                             Solve(kNotify, samples, residual));
  Set(kNotify, parameters, kernel);
  return absl::OkStatus();
}

// Of numbers of nodes that share a fabric which gives them a part of a NIC's rate.
std::vector<Free> Congested() {
  constexpr double kLeastShare = 0.01, kLikely = 0.3;
  std::vector<Free> free = kBetween;
  for (Free& f : free) {
    if (f.value == &K::nic_share) f = {&K::nic_share, kLeastShare, 1, kLikely};
  }
  return free;
}

// What the sample moved through a NIC a second, of its rate.
double NicShare(const ExchangeSample& s) {
  ExpertKernel whole;  // of the NIC's rate
  return BoundsOf(whole, s.links, s.exchange).nic.us() * s.exchange.tokens / s.time_us;
}

std::set<int32_t> CongestedNodes(const Samples& samples) {
  std::map<int32_t, double> best;
  double most = 0;
  for (const ExchangeSample* s : samples) {
    if (s->exchange.routing.nodes == 1) continue;
    double& share = best[s->exchange.routing.nodes];
    share = std::max(share, NicShare(*s));
    most = std::max(most, share);
  }
  std::set<int32_t> congested;
  for (const auto& [nodes, share] : best) {
    if (share < most / 2) congested.insert(nodes);
  }
  return congested;
}

Samples Select(std::span<const ExchangeSample> samples, ExpertAlgorithm algorithm,
               ExpertDirection direction, bool notify, const std::set<int32_t>& left_out) {
  Samples selected;
  for (const ExchangeSample& s : samples) {
    if (s.exchange.algorithm == algorithm && s.exchange.direction == direction &&
        s.notify == notify && !left_out.contains(s.exchange.routing.nodes)) {
      selected.push_back(&s);
    }
  }
  return selected;
}

absl::Status FitDeduplicated(std::span<const ExchangeSample> samples, ExpertDirection direction,
                             ExchangeFit& fit) {
  constexpr ExpertAlgorithm kAlgorithm = ExpertAlgorithm::kDeduplicated;
  const size_t d = static_cast<size_t>(direction);
  Samples within, between;
  for (const ExchangeSample* s :
       Select(samples, kAlgorithm, direction, false, fit.congested_nodes)) {
    (s->exchange.routing.nodes > 1 ? between : within).push_back(s);
  }
  ExpertExchangeKernels& kernels = fit.model.deduplicated;
  if (!within.empty()) {
    FORETRACE_RETURN_IF_ERROR(FitKernel(kWithin, within, kernels.within[d]));
  }
  if (between.empty()) return absl::OkStatus();
  kernels.between[d].nvlink_share = kernels.within[d].nvlink_share;
  FORETRACE_RETURN_IF_ERROR(FitKernel(kBetween, between, kernels.between[d]));
  const Samples notify = Select(samples, kAlgorithm, direction, true, fit.congested_nodes);
  return notify.empty() ? absl::OkStatus() : FitNotify(notify, kernels.between[d]);
}

// Each number of nodes by itself, beside the model of the others.
absl::Status FitCongested(std::span<const ExchangeSample> samples, ExpertDirection direction,
                          ExchangeFit& fit) {
  const size_t d = static_cast<size_t>(direction);
  for (const int32_t nodes : fit.congested_nodes) {
    Samples own = Select(samples, ExpertAlgorithm::kDeduplicated, direction, false, {});
    std::erase_if(own, [&](const ExchangeSample* s) { return s->exchange.routing.nodes != nodes; });
    if (own.size() <= kBetween.size()) continue;
    ExpertKernel& kernel = fit.congested[nodes][d];
    kernel.nvlink_share = fit.model.deduplicated.within[d].nvlink_share;
    FORETRACE_RETURN_IF_ERROR(FitKernel(Congested(), own, kernel));
  }
  return absl::OkStatus();
}

}  // namespace

const ExpertKernel& ExchangeFit::KernelOf(const ExpertExchange& exchange) const {
  const int32_t nodes = exchange.routing.nodes;
  const auto own = congested.find(nodes);
  if (own != congested.end() && exchange.algorithm == ExpertAlgorithm::kDeduplicated) {
    const ExpertKernel& kernel = own->second[static_cast<size_t>(exchange.direction)];
    if (IsFitted(kernel)) return kernel;
  }
  return model.Kernel(exchange.algorithm, exchange.direction, nodes);
}

absl::StatusOr<ExchangeFit> FitExchanges(std::span<const ExchangeSample> samples) {
  constexpr ExpertDirection kDirections[] = {ExpertDirection::kDispatch, ExpertDirection::kCombine};
  ExchangeFit fit;
  for (const ExpertDirection direction : kDirections) {
    const std::set<int32_t> congested =
        CongestedNodes(Select(samples, ExpertAlgorithm::kDeduplicated, direction, false, {}));
    fit.congested_nodes.insert(congested.begin(), congested.end());
  }
  for (const ExpertDirection direction : kDirections) {
    FORETRACE_RETURN_IF_ERROR(FitDeduplicated(samples, direction, fit));
    FORETRACE_RETURN_IF_ERROR(FitCongested(samples, direction, fit));
    const Samples direct = Select(samples, ExpertAlgorithm::kDirect, direction, false, {});
    const size_t d = static_cast<size_t>(direction);
    FORETRACE_RETURN_IF_ERROR(
        FitDirect(direct, fit.model.direct.within[d], fit.model.direct.between[d]));
  }
  if (fit.Missing().size() == kKernels) {
    return InvalidInput("no rows of exchanges that a model can be fitted to");
  }
  return fit;
}

std::vector<std::string> ExchangeFit::Missing() const {
  std::vector<std::string> missing;
  for (const auto& [name, kernels] :
       {std::pair("deduplicated", &model.deduplicated), std::pair("direct", &model.direct)}) {
    for (const auto& [direction, d] : {std::pair("dispatches", 0), std::pair("combines", 1)}) {
      if (!IsFitted(kernels->within[d])) {
        missing.push_back(fmt::format("{} {} within a node", name, direction));
      }
      if (!IsFitted(kernels->between[d])) {
        missing.push_back(fmt::format("{} {} between nodes", name, direction));
      }
    }
  }
  return missing;
}

}  // namespace foretrace
