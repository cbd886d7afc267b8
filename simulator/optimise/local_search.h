#pragma once
// Searches from one solution to its neighbours: descents, and simulated annealing. Deterministic
// for a seed; they end by counts, never by a clock.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

// Takes the first change that improves, then asks for the changes of what that makes, until none
// improves or `spent()`. `changes()`: a range, the most promising first. `attempt(change)`: a
// StatusOr<bool>, whether the change improved and was made. Errors: those of attempts.
template <typename Changes, typename Attempt, typename Spent>
absl::Status Descend(const Changes& changes, const Attempt& attempt, const Spent& spent) {
  for (bool improved = true; improved && !spent();) {
    improved = false;
    for (const auto& change : changes()) {
      if (spent()) return absl::OkStatus();
      FORETRACE_ASSIGN_OR_RETURN(improved, attempt(change));
      if (improved) break;
    }
  }
  return absl::OkStatus();
}

// How far coordinates are moved: by `first`, then by `shrink` of it each time, down to `last`; at
// each scale until no move improves by a share of `least`, or `rounds` times.
struct DescentScales {
  double first = 1, shrink = 0.5, last = 0.01;
  int32_t rounds = std::numeric_limits<int32_t>::max();
  double least = 0;
};

// Moves one coordinate after the other up and down and keeps what improves: for few parameters and
// a cost that is neither smooth nor convex. `move(point, coordinate, by)`: the point with that
// coordinate moved, `by` a scale or its negative. `cost` is positive; the less, the better.
template <typename Point, typename Move, typename Cost>
Point DescendByCoordinate(Point best, size_t coordinates, const DescentScales& scales,
                          const Move& move, const Cost& cost) {
  double least = cost(best);
  for (double scale = scales.first; scale > scales.last; scale *= scales.shrink) {
    bool moved = true;
    for (int32_t round = 0; moved && round < scales.rounds; ++round) {
      moved = false;
      for (size_t i = 0; i < coordinates; ++i) {
        for (const double by : {scale, -scale}) {
          Point other = move(best, i, by);
          const double value = cost(other);
          if (value >= least * (1 - scales.least)) continue;
          least = value;
          best = std::move(other);
          moved = true;
        }
      }
    }
  }
  return best;
}

struct AnnealingSettings {
  int32_t steps = 4000;
  // Equal parts of the steps, each of which cools from hottest to coldest, beginning at the best so
  // far.
  int32_t rounds = 4;
  // Of the present cost: what is this much worse is accepted with probability 1/e.
  double hottest = 0.1, coldest = 0.001;
  uint64_t seed = 1;
};

// Simulated annealing (Kirkpatrick et al. 1983, Metropolis' rule on relative costs); the best that
// was met. `propose(state, rng)`: a neighbour, or nullopt where what was drawn is none. `cost` is
// positive; the less, the better.
template <typename State, typename Propose, typename Cost>
State Anneal(const State& start, const AnnealingSettings& settings, const Propose& propose,
             const Cost& cost, const std::stop_token& stop = {}) {
  State best = start, now = start;
  std::mt19937_64 rng(settings.seed);
  const double rounds = settings.rounds;
  for (int32_t step = 0; step < settings.steps && !stop.stop_requested(); ++step) {
    const double progress = std::fmod(rounds * step / settings.steps, 1.0);
    if (progress < rounds / settings.steps) now = best;
    std::optional<State> candidate = propose(now, rng);
    if (!candidate) continue;
    const double temperature =
        settings.hottest * std::pow(settings.coldest / settings.hottest, progress);
    const double worse = cost(*candidate) / cost(now) - 1;
    const auto uniform = [&] { return static_cast<double>(rng() >> 11) * 0x1.0p-53; };
    if (worse > 0 && uniform() >= std::exp(-worse / temperature)) continue;
    now = *std::move(candidate);
    if (cost(now) < cost(best)) best = now;
  }
  return best;
}

}  // namespace foretrace
