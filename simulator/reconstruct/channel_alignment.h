#pragma once
// Which send of a channel is received by which receive, where the recordings lack some of either; a
// detail of point_to_point.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

// A send or a receive, on the clock of all ranks.
struct ChannelEnd {
  SimTime arrival;
  SimTime end;
  int64_t bytes = 0;  // 0: not recorded
};

using ChannelPairs = std::vector<std::pair<size_t, size_t>>;  // positions of send and receive

// How little the pairs look like transfers, in picoseconds, in the mean: what receivers took after
// both had come, and how far apart both left.
double MeanMisfit(std::span<const ChannelEnd> sends, std::span<const ChannelEnd> receives,
                  const ChannelPairs& pairs);

// Pairs each of the shorter side with one of the longer, in order, so that the misfit is least.
// nullopt: so paired, receives end before their sends come, or take too unequal times for transfers
// of one channel.
std::optional<ChannelPairs> AlignWithGaps(std::span<const ChannelEnd> sends,
                                          std::span<const ChannelEnd> receives);

}  // namespace foretrace
