#pragma once
// Times of collectives on one-dimensional networks and their compositions (DFModel section IV-B2;
// ASTRA-sim's compositional networks).

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

enum class NetworkKind : uint8_t { kRing, kFullyConnected, kSwitch, kCount };
std::string_view Name(NetworkKind kind);

// How an all-reduce of S bytes on n chips is timed, B being the bandwidth of a link; the published
// model has changed (docs/dataflow.md). kPhysical is a reduce-scatter and an all-gather, of which
// each moves S (n-1)/n over the links that a chip has in that network.
enum class AllReduceFormula : uint8_t {
  kPhysical,  // 2 S (n-1) / (n B); fully connected 2 S / (n B)
  kPaper,     // 2 S (n-1) / (n B), whatever the network: the ring of the paper's source [77]
  kEarly,     // S (n-1) / (n B); fully connected 2 S / (n B)
  kDse,       // 2 S (n-1) / (n B); fully connected 2 S / (n B)
  kLatest,    // S (n-1) / (n B); fully connected S / (n B)
  kCount
};
std::string_view Name(AllReduceFormula formula);
absl::StatusOr<AllReduceFormula> ParseAllReduce(std::string_view text);

// One dimension of a network. Links of `size` chips, or, where `per_group`, of groups of all chips
// in the dimensions before it (the global links of a dragonfly, the uplinks of a DGX).
struct NetworkDimension {
  NetworkKind kind = NetworkKind::kRing;
  int64_t size = 1;
  Bandwidth bandwidth;  // of one link and direction
  bool per_group = false;
  SimTime latency;  // from a chip to one that it is linked to, or that a switch leads to
};

// Messages that follow each other until all chips have one from the farthest: around a ring one to
// the next, else straight to each.
int64_t Steps(const NetworkDimension& network);

// Of `bytes` on each chip: reduced by Steps twice, gathered by Steps.
RealNs AllReduceTime(AllReduceFormula formula, const NetworkDimension& network, RealBytes bytes);
RealNs AllGatherTime(const NetworkDimension& network, RealBytes bytes);

// Each of all chips of the network sends `bytes`, an even share to every other one; the time is
// that of the narrowest cut. Published counts a ring's cut links in one direction and those of
// fully connected groups in both, and leaves out what a chip's own links can send.
enum class AllToAllFormula : uint8_t { kPhysical, kDse };
RealNs AllToAllTime(AllToAllFormula formula, std::span<const NetworkDimension> dimensions,
                    RealBytes bytes);

}  // namespace foretrace::dataflow
