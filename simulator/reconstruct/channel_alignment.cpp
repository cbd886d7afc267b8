#include "simulator/reconstruct/channel_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/reconstruct/clock_noise.h"
#include "simulator/reconstruct/end_spread.h"

namespace foretrace {
namespace {

constexpr size_t kMostCells = size_t{1} << 22;  // of the table; hostile input
constexpr double kOtherSize = 1e18;             // picoseconds: never, if there is a choice

// What the receiver took after both had come.
SimTime OwnPart(const ChannelEnd& send, const ChannelEnd& receive) {
  return receive.end - std::max(send.arrival, receive.arrival);
}

// Receivers that wait for another send take long; senders that wait for another receive, or are
// buffered for one that comes later still, leave at another time.
double Misfit(const ChannelEnd& send, const ChannelEnd& receive) {
  const bool other_size = send.bytes > 0 && receive.bytes > 0 && send.bytes != receive.bytes;
  return std::abs(static_cast<double>(OwnPart(send, receive).ps())) +
         std::abs(static_cast<double>((receive.end - send.end).ps())) +
         (other_size ? kOtherSize : 0.0);
}

// Whether these can be one channel's transfers.
bool AreAlike(std::span<const ChannelEnd> sends, std::span<const ChannelEnd> receives,
              const ChannelPairs& pairs) {
  bool possible = true;
  std::vector<int64_t> own, ends;
  for (const auto& [s, r] : pairs) {
    own.push_back(OwnPart(sends[s], receives[r]).ps());
    ends.push_back((sends[s].end - receives[r].end).ps());
    possible &= own.back() >= -kClockNoise.ps();
  }
  if (own.size() < kEnoughForSpread) return possible;
  return SpreadOfEnds(std::move(own)).distance <= kFarthestEnds ||
         SpreadOfEnds(std::move(ends)).distance <= kFarthestEnds;
}

}  // namespace

double MeanMisfit(std::span<const ChannelEnd> sends, std::span<const ChannelEnd> receives,
                  const ChannelPairs& pairs) {
  double sum = 0;
  for (const auto& [s, r] : pairs) sum += Misfit(sends[s], receives[r]);
  return pairs.empty() ? 0 : sum / static_cast<double>(pairs.size());
}

std::optional<ChannelPairs> AlignWithGaps(std::span<const ChannelEnd> sends,
                                          std::span<const ChannelEnd> receives) {
  const bool more_sends = sends.size() > receives.size();
  const size_t rows = std::min(sends.size(), receives.size());
  const size_t gaps = std::max(sends.size(), receives.size()) - rows;
  if (rows == 0 || gaps + 1 > kMostCells / rows) return std::nullopt;
  const auto pair_of = [&](size_t row, size_t gap) {
    return more_sends ? std::pair(row + gap, row) : std::pair(row, row + gap);
  };
  // By row and the gaps left before it: the least sum up to here; the gaps before the row above.
  std::vector<double> sum(gaps + 1, 0.0);
  std::vector<uint32_t> above(rows * (gaps + 1), 0);
  for (size_t row = 0; row < rows; ++row) {
    double least = std::numeric_limits<double>::infinity();
    uint32_t at = 0;
    for (size_t gap = 0; gap <= gaps; ++gap) {
      if (sum[gap] < least) {
        least = sum[gap];
        at = static_cast<uint32_t>(gap);
      }
      above[row * (gaps + 1) + gap] = at;
      const auto [s, r] = pair_of(row, gap);
      sum[gap] = least + Misfit(sends[s], receives[r]);
    }
  }
  auto gap = static_cast<size_t>(std::ranges::min_element(sum) - sum.begin());
  ChannelPairs pairs(rows);
  for (size_t row = rows; row-- > 0;) {
    pairs[row] = pair_of(row, gap);
    gap = above[row * (gaps + 1) + gap];
  }
  if (!AreAlike(sends, receives, pairs)) return std::nullopt;
  return pairs;
}

}  // namespace foretrace
