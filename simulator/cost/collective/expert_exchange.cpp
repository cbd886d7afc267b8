#include "simulator/cost/collective/expert_exchange.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simulator/base/enum_names.h"
#include "simulator/cost/collective/hybrid_exchange.h"
#include "simulator/cost/kernel/roofline.h"

namespace foretrace {
namespace {

// Probability that none of `drawn` different ones of `all` is among `part` of them, which need not
// be a whole number: hypergeometric.
double Missed(double all, double part, int64_t drawn) {
  double p = 1;
  for (int64_t i = 0; i < drawn && p > 0; ++i) {
    const auto gone = static_cast<double>(i);
    p *= all > gone ? std::max(all - part - gone, 0.0) / (all - gone) : 0;
  }
  return p;
}

double Choose(int64_t n, int64_t k) {
  double c = 1;
  for (int64_t i = 1; i <= k; ++i) c *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return c;
}

// Probability that a token has no expert in a bin of `whole` groups, of which it chooses first.
double MissedGroups(const ExpertRouting& r, int64_t whole) {
  const int64_t others = r.groups - whole, drawn = r.groups_of_token;
  const double of_group = static_cast<double>(r.experts) / r.groups;
  double missed = 0;
  for (int64_t here = std::max<int64_t>(0, drawn - others); here <= std::min(whole, drawn);
       ++here) {
    const double p = Choose(whole, here) * Choose(others, drawn - here) / Choose(r.groups, drawn);
    missed += p * Missed(of_group * static_cast<double>(drawn),
                         of_group * static_cast<double>(here), r.top_k);
  }
  return missed;
}

// Of `bins` equal parts of the experts, those that a token reaches.
double Reached(const ExpertRouting& r, int32_t bins) {
  const double part = static_cast<double>(r.experts) / bins;
  if (r.groups_of_token <= 0 || r.groups_of_token >= r.groups) {
    return bins * (1 - Missed(static_cast<double>(r.experts), part, r.top_k));
  }
  const double groups = static_cast<double>(r.groups) / bins;  // of a bin
  if (groups < 1) {
    // Bins of a group share its being chosen; one that lies in two counts as in one.
    const double chosen = static_cast<double>(r.groups_of_token) / r.groups;
    const double open = static_cast<double>(r.experts) * chosen;
    return bins * chosen * (1 - Missed(open, part, r.top_k));
  }
  const auto whole = static_cast<int64_t>(groups);
  const double more = groups - static_cast<double>(whole);  // share of the bins with one more
  double missed = (1 - more) * MissedGroups(r, whole);
  if (more > 0) missed += more * MissedGroups(r, whole + 1);
  return bins * (1 - missed);
}

double PerMicrosecond(Bandwidth bandwidth, double share) {
  return bandwidth.bytes_per_second() * 1e-6 * share;
}

// Multiprocessors that kDirect takes: as many groups of warps a multiprocessor as there have to be
// for all experts to have one (DeepEP, internode_ll.cu).
double DirectMultiprocessors(const ExpertRouting& routing, int32_t multiprocessors) {
  const int64_t groups = (routing.experts + multiprocessors - 1) / multiprocessors;
  return static_cast<double>((routing.experts + groups - 1) / groups);
}

double Doublings(const ExpertRouting& routing) {
  return routing.nodes > 1 ? std::log2(routing.nodes) : 0;
}

// Copies of a token that a kernel makes.
double SentBy(const ExpertExchange& exchange, const ExpertCopies& copies) {
  return exchange.algorithm == ExpertAlgorithm::kDirect ? copies.experts : copies.ranks;
}

// Multiprocessors, or pairs of them, that each send tokens by themselves.
double Workers(const ExpertExchange& exchange, const ExpertLinks& links) {
  switch (exchange.algorithm) {
    case ExpertAlgorithm::kDirect:
      return DirectMultiprocessors(exchange.routing, links.multiprocessors);
    case ExpertAlgorithm::kHybrid:
      return std::max(exchange.multiprocessors, 1);
    default:
      return std::max(exchange.multiprocessors / 2, 1);
  }
}

// As BoundsOf, of so many copies.
ExpertBounds Bounds(const ExpertKernel& kernel, const ExpertLinks& links,
                    const ExpertExchange& exchange, const ExpertCopies& copies) {
  const ExpertRouting& routing = exchange.routing;
  const bool direct = exchange.algorithm == ExpertAlgorithm::kDirect;
  const double sends = SentBy(exchange, copies);
  const double bytes = exchange.token_bytes.count(), kb = bytes * 1e-3;
  // What leaves the node goes there by NIC; direct copies then are where they should be.
  const double nodes = routing.nodes, devices = static_cast<double>(routing.ranks) / nodes;
  const double by_nic = (direct ? copies.experts : copies.nodes) * (nodes - 1) / nodes;
  const double in_nodes = direct ? copies.experts / nodes : copies.ranks;
  const double by_nvlink = in_nodes * (devices - 1) / devices;

  ExpertBounds bounds;
  const double sent = sends * (kernel.copy_us + kernel.copy_us_per_KB * kb) +
                      (nodes > 1 ? copies.nodes * kernel.relay_us_per_KB * kb : 0);
  const double done =
      kernel.token_us + (kernel.token_us_per_KB + sends * kernel.token_us_per_KB_copy) * kb;
  bounds.multiprocessors = RealUs(SmoothSum(sent, done, kernel.overlap) / Workers(exchange, links));
  if (by_nvlink > 0) {
    bounds.nvlink = RealUs(by_nvlink * bytes / PerMicrosecond(links.nvlink, kernel.nvlink_share));
  }
  if (by_nic > 0) {
    bounds.nic = RealUs(by_nic * bytes / PerMicrosecond(links.nic, kernel.nic_share));
  }
  return bounds;
}

}  // namespace

std::span<const ExpertConstant> ExpertConstants() {
  using K = ExpertKernel;
  static constexpr double kUs = 1e4, kExponent = 1e3;
  static constexpr ExpertConstant kConstants[] = {
      {"latency_us", &K::latency_us, 0, kUs},
      {"latency_us_per_KB", &K::latency_us_per_KB, 0, kUs},
      {"latency_us_per_KB_copy", &K::latency_us_per_KB_copy, 0, kUs},
      {"latency_us_per_expert", &K::latency_us_per_expert, 0, kUs},
      {"latency_us_per_doubling", &K::latency_us_per_doubling, 0, kUs},
      {"fill_us", &K::fill_us, 0, kUs},
      {"fill_us_per_KB", &K::fill_us_per_KB, 0, kUs},
      {"fill_us_per_KB_copy", &K::fill_us_per_KB_copy, 0, kUs},
      {"fill_copies", &K::fill_copies, 1e-3, 1e6},
      {"copy_us", &K::copy_us, 0, kUs},
      {"copy_us_per_KB", &K::copy_us_per_KB, 0, kUs},
      {"relay_us_per_KB", &K::relay_us_per_KB, 0, kUs},
      {"token_us", &K::token_us, 0, kUs},
      {"token_us_per_KB", &K::token_us_per_KB, 0, kUs},
      {"token_us_per_KB_copy", &K::token_us_per_KB_copy, 0, kUs},
      {"overlap", &K::overlap, 1, kExponent},
      {"nvlink_share", &K::nvlink_share, 0.01, 1},
      {"nic_share", &K::nic_share, 0.01, 1},
      {"sharpness", &K::sharpness, 1, kExponent},
      {"notify_us", &K::notify_us, 0, kUs},
      {"notify_us_per_doubling", &K::notify_us_per_doubling, 0, kUs},
      {"notify_share", &K::notify_share, 0, 1},
      {"most_tokens", &K::most_tokens, 0, 1e9},
  };
  return kConstants;
}

const ExpertKernel& ExpertExchangeModel::Kernel(ExpertAlgorithm algorithm,
                                                ExpertDirection direction, int32_t nodes) const {
  if (algorithm == ExpertAlgorithm::kHybrid) return HybridKernel(direction, nodes);
  const ExpertExchangeKernels& kernels =
      algorithm == ExpertAlgorithm::kDirect ? direct : deduplicated;
  const ExpertKernel* by_direction = nodes > 1 ? kernels.between : kernels.within;
  return by_direction[static_cast<size_t>(direction)];
}

std::string_view Name(ExpertAlgorithm algorithm) {
  static constexpr std::array<std::string_view, 5> kNames = {"all-to-all", "deduplicated", "direct",
                                                             "hybrid", "all-gather"};
  return EnumName(kNames, algorithm);
}

ExpertCopies ExpectedCopies(const ExpertRouting& routing) {
  return {static_cast<double>(routing.top_k), Reached(routing, routing.ranks),
          Reached(routing, routing.nodes)};
}

RealBytes Fp8TokenBytes(int64_t hidden) { return RealBytes(Bytes(hidden)) * (1 + 4.0 / 128); }
RealBytes TokenBytes(int64_t hidden, int64_t width) { return RealBytes(Bytes(hidden * width)); }

ExpertBounds BoundsOf(const ExpertKernel& kernel, const ExpertLinks& links,
                      const ExpertExchange& exchange) {
  return Bounds(kernel, links, exchange, ExpectedCopies(exchange.routing));
}

RealUs TransferOf(const ExpertKernel& kernel, const ExpertLinks& links,
                  const ExpertExchange& exchange) {
  const ExpertRouting& routing = exchange.routing;
  const ExpertCopies expected = ExpectedCopies(routing);
  const double kb = exchange.token_bytes.count() * 1e-3, copies = SentBy(exchange, expected);
  const ExpertBounds bounds = Bounds(kernel, links, exchange, expected);
  const double in_node =
      SmoothSum(bounds.multiprocessors.us(), bounds.nvlink.us(), kernel.sharpness);
  const double of_token = SmoothSum(in_node, bounds.nic.us(), kernel.sharpness);
  const double on_channel = exchange.tokens * copies / std::max(exchange.multiprocessors / 2, 1);
  const double fill =
      kernel.fill_us + (kernel.fill_us_per_KB + kernel.fill_us_per_KB_copy * copies) * kb;
  const double latency =
      kernel.latency_us + (kernel.latency_us_per_KB + kernel.latency_us_per_KB_copy * copies) * kb +
      kernel.latency_us_per_expert * static_cast<double>(routing.experts) / routing.ranks +
      kernel.latency_us_per_doubling * Doublings(routing);
  return RealUs(latency + fill * on_channel / (on_channel + kernel.fill_copies) +
                exchange.tokens * of_token);
}

RealUs NotifyOf(const ExpertKernel& kernel, const ExpertRouting& routing, RealUs transfer) {
  if (routing.nodes <= 1) return {};
  return RealUs(kernel.notify_us + kernel.notify_us_per_doubling * Doublings(routing)) +
         kernel.notify_share * transfer;
}

ExpertTimes TimeOf(const ExpertExchangeModel& model, const ExpertLinks& links,
                   const ExpertExchange& exchange) {
  const ExpertRouting& routing = exchange.routing;
  if (exchange.tokens <= 0 || routing.ranks <= 1) return {};
  const ExpertKernel& kernel = model.Kernel(exchange.algorithm, exchange.direction, routing.nodes);
  const RealUs transfer = TransferOf(kernel, links, exchange);
  return {SimTime::FromUs(transfer.us()),
          SimTime::FromUs(NotifyOf(kernel, routing, transfer).us())};
}

}  // namespace foretrace
