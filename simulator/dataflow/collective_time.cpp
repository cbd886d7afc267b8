#include "simulator/dataflow/collective_time.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"ring", "fully-connected", "switch"};
constexpr std::array<std::string_view, 5> kFormulas = {"physical", "paper", "early", "dse",
                                                       "latest"};

}  // namespace

std::string_view Name(NetworkKind kind) { return kKinds.at(static_cast<size_t>(kind)); }
std::string_view Name(AllReduceFormula formula) {
  return kFormulas.at(static_cast<size_t>(formula));
}

absl::StatusOr<AllReduceFormula> ParseAllReduce(std::string_view text) {
  for (size_t i = 0; i < kFormulas.size(); ++i) {
    if (text == kFormulas[i]) return static_cast<AllReduceFormula>(i);
  }
  return InvalidInput("'{}' is no all-reduce formula; allowed: {}", text,
                      fmt::join(kFormulas, ", "));
}

int64_t Steps(const NetworkDimension& network) {
  return network.kind == NetworkKind::kRing ? network.size - 1
                                            : std::min<int64_t>(network.size - 1, 1);
}

RealNs AllReduceTime(AllReduceFormula formula, const NetworkDimension& network, RealBytes bytes) {
  const auto n = static_cast<double>(network.size);
  if (network.size <= 1 || bytes <= RealBytes()) return {};
  const bool direct = network.kind == NetworkKind::kFullyConnected;
  const RealBytes ring = RealBytes(bytes.count() * (n - 1) / n), share = bytes / n;
  RealBytes moved;
  switch (formula) {
    case AllReduceFormula::kPhysical:
    case AllReduceFormula::kDse:
      moved = direct ? 2 * share : 2 * ring;
      break;
    case AllReduceFormula::kPaper:
      moved = 2 * ring;
      break;
    case AllReduceFormula::kEarly:
      moved = direct ? 2 * share : ring;
      break;
    case AllReduceFormula::kLatest:
    case AllReduceFormula::kCount:
      moved = direct ? share : ring;
      break;
  }
  return TimeToMove(moved, network.bandwidth) +
         2 * static_cast<double>(Steps(network)) * Real(network.latency);
}

RealNs AllGatherTime(const NetworkDimension& network, RealBytes bytes) {
  const auto n = static_cast<double>(network.size);
  if (network.size <= 1) return {};
  const RealBytes moved = network.kind == NetworkKind::kFullyConnected
                              ? bytes / n
                              : RealBytes(bytes.count() * (n - 1) / n);
  return TimeToMove(moved, network.bandwidth) +
         static_cast<double>(Steps(network)) * Real(network.latency);
}

RealNs AllToAllTime(AllToAllFormula formula, std::span<const NetworkDimension> dimensions,
                    RealBytes bytes) {
  double chips = 1;
  for (const NetworkDimension& d : dimensions) chips *= static_cast<double>(d.size);
  if (chips <= 1 || bytes <= RealBytes()) return {};
  const bool published = formula == AllToAllFormula::kDse;
  RealNs longest, latency;
  double before = 1;
  for (const NetworkDimension& d : dimensions) {
    const auto size = static_cast<double>(d.size);
    if (d.size > 1) {
      // Copies of this network beside each other: one of groups is there once for them all.
      const double copies = d.per_group ? chips / (size * before) : chips / size;
      // Links that the middle cuts, times the directions that count.
      double links = 0;
      switch (d.kind) {
        case NetworkKind::kRing:
          links = (published ? 1 : 2) * (d.size == 2 ? 1.0 : 2.0);
          break;
        case NetworkKind::kFullyConnected:
          links = 2 * (size / 2) * (size / 2);
          break;
        case NetworkKind::kSwitch:
        case NetworkKind::kCount:
          links = published ? 2 * size : size;
          break;
      }
      longest = std::max(
          longest,
          TimeToMove(RealBytes(bytes.count() * chips / 2 / (copies * links)), d.bandwidth));
      // A chip sends no faster than its links to a switch carry.
      const RealBytes injected(bytes.count() * (size - 1) / size * (d.per_group ? before : 1));
      if (!published && d.kind == NetworkKind::kSwitch)
        longest = std::max(longest, TimeToMove(injected, d.bandwidth));
    }
    // Halfway around a ring is the farthest.
    latency +=
        static_cast<double>(d.kind == NetworkKind::kRing ? d.size / 2 : Steps(d)) * Real(d.latency);
    before *= size;
  }
  return longest + latency;
}

}  // namespace foretrace::dataflow
