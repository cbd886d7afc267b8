#include "simulator/serve/attention_grid.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"

namespace foretrace::serve {

void AttentionGrid::Add(const Point& at, double us) { points_[at] = us; }

size_t AttentionGrid::IndexOf(const std::array<size_t, 4>& at) const {
  size_t index = 0;
  for (size_t a = 0; a < 4; ++a) index = index * axes_[a].size() + at[a];
  return index;
}

absl::Status AttentionGrid::Finish() {
  if (points_.empty()) return InvalidInput("has no points");
  for (size_t a = 0; a < 4; ++a) {
    axes_[a].push_back(0);
    for (const auto& [at, us] : points_) axes_[a].push_back(at[a]);
    std::sort(axes_[a].begin(), axes_[a].end());
    axes_[a].erase(std::unique(axes_[a].begin(), axes_[a].end()), axes_[a].end());
    if (axes_[a].size() > 64) return InvalidInput("has an axis of more than 64 values");
    if (axes_[a].size() < 3) return InvalidInput("has an axis of fewer than two measured values");
  }
  us_.assign(axes_[0].size() * axes_[1].size() * axes_[2].size() * axes_[3].size(), -1);
  for (const auto& [at, us] : points_) {
    std::array<size_t, 4> index = {};
    for (size_t a = 0; a < 4; ++a) {
      index[a] = static_cast<size_t>(std::lower_bound(axes_[a].begin(), axes_[a].end(), at[a]) -
                                     axes_[a].begin());
    }
    us_[IndexOf(index)] = us;
  }
  measured_.resize(us_.size());
  for (size_t i = 0; i < us_.size(); ++i) measured_[i] = us_[i] >= 0;
  FillHoles();
  return absl::OkStatus();
}

// A point that was not measured, along one axis from measured ones: between the two around it, or
// from the two before it; -1: there are none.
double AttentionGrid::Along(std::array<size_t, 4> at, size_t axis, bool between) const {
  const std::vector<double>& x = axes_[axis];
  const size_t hole = at[axis];
  std::array<size_t, 2> known = {};
  size_t count = 0;
  const auto look = [&](size_t from, int step, size_t most) {
    // Without a chunk other kernels run: that is no neighbour.
    for (size_t i = from; i < x.size() && (i > 0 || axis == 1) && count < most;
         i += static_cast<size_t>(step)) {
      at[axis] = i;
      if (measured_[IndexOf(at)]) known[count++] = i;
      if (i == 0) break;
    }
  };
  if (hole == 0) return -1;
  look(hole - 1, -1, between ? 1 : 2);
  if (between && count == 1) look(hole + 1, 1, 2);
  if (count < 2) return -1;
  at[axis] = known[0];
  const double y0 = us_[IndexOf(at)];
  at[axis] = known[1];
  const double y1 = us_[IndexOf(at)];
  const double us = y0 + (y1 - y0) * (x[hole] - x[known[0]]) / (x[known[1]] - x[known[0]]);
  return between ? us : std::max(us, y0);
}

// Profilers measure some combinations alone, and leave out what does not fit in memory. What lies
// between measured points is interpolated, along the caches first; what lies beyond is
// extrapolated, along the number of decodes first, in which times are the most nearly linear. What
// that leaves is filled likewise from the filled.
void AttentionGrid::FillHoles() {
  for (int round = 0; round < 2; ++round) {
    for (const bool between : {true, false}) {
      std::vector<std::pair<size_t, double>> found;
      std::array<size_t, 4> at = {};
      for (size_t index = 0; index < us_.size(); ++index) {
        size_t rest = index;
        for (size_t a = 4; a-- > 0;) {
          at[a] = rest % axes_[a].size();
          rest /= axes_[a].size();
        }
        const bool none = (at[2] == 0) != (at[3] == 0) || (at[0] == 0 && at[1] > 0);
        if (us_[index] >= 0 || none) continue;
        const std::array<size_t, 4> order =
            between ? std::array<size_t, 4>{3, 1, 2, 0} : std::array<size_t, 4>{2, 3, 1, 0};
        for (const size_t a : order) {
          const double us = Along(at, a, between);
          if (us < 0) continue;
          found.emplace_back(index, us);
          break;
        }
      }
      for (const auto& [index, us] : found) {
        us_[index] = us;
        if (between) measured_[index] = true;
      }
    }
    for (size_t i = 0; i < us_.size(); ++i) measured_[i] = us_[i] >= 0;
  }
}

double AttentionGrid::Multilinear(const std::array<Bracket, 4>& brackets) const {
  double sum = 0, weights = 0;
  for (unsigned corner = 0; corner < 16; ++corner) {
    double weight = 1;
    std::array<size_t, 4> at = {};
    for (size_t a = 0; a < 4; ++a) {
      const bool high = (corner >> a & 1) != 0;
      weight *= high ? brackets[a].weight : 1 - brackets[a].weight;
      at[a] = brackets[a].low + (high ? 1 : 0);
    }
    if (weight == 0) continue;
    const double us = us_[IndexOf(at)];
    if (us < 0) continue;
    sum += weight * us;
    weights += weight;
  }
  return weights > 0 ? std::max(0.0, sum / weights) : 0;
}

Interpolated AttentionGrid::Of(double chunk, double cached, double decodes,
                               double decode_cached) const {
  std::array<double, 4> x = {chunk, cached, decodes, decode_cached};
  std::array<Bracket, 4> brackets;
  Interpolated result;
  for (size_t a = 0; a < 4; ++a) {
    // A chunk, decodes and their cache are either absent or at least the smallest measured.
    if (a != 1 && x[a] > 0) x[a] = std::max(x[a], axes_[a][1]);
    if (x[a] > axes_[a].back()) result.extrapolated = true;
    brackets[a] = BracketOf(axes_[a], x[a]);
  }
  result.us = Multilinear(brackets);
  return result;
}

Interpolated AttentionGrid::At(const StepBatch& batch) const {
  double chunk = 0, work = 0;
  for (const PrefillChunk& p : batch.prefills) {
    chunk += p.tokens;
    work += p.tokens * (p.cached + 0.5 * p.tokens);
  }
  const double decodes = batch.decodes;
  double each = decodes > 0 ? static_cast<double>(batch.decode_cached) / decodes : 0;
  if (decodes > 0 && chunk > 0) each += SkewOf(batch) * (batch.decode_cached_max - each);
  if (chunk == 0) return Of(0, 0, decodes, each);
  const double cached = work / chunk - 0.5 * chunk;
  if (cached >= 0) return Of(chunk, cached, decodes, each);
  // The slope over keys where it is steady: from as many cached tokens as the chunk has to twice.
  const Interpolated fresh = Of(chunk, 0, decodes, each);
  const double slope =
      (Of(chunk, 2 * chunk, decodes, each).us - Of(chunk, chunk, decodes, each).us) / chunk;
  double longest = 0;
  for (const PrefillChunk& p : batch.prefills) {
    longest = std::max(longest, Of(p.tokens, p.cached, 0, 0).us);
  }
  return {std::max(fresh.us + slope * cached, longest), fresh.extrapolated};
}

void AttentionGrid::SetSkew(const std::vector<SkewRow>& rows) {
  std::map<std::pair<int, int>, std::vector<double>> alphas;
  for (const SkewRow& row : rows) {
    if (row.prefill <= 0) continue;
    alphas[{std::ilogb(row.prefill), std::ilogb(row.decodes)}].push_back(row.alpha);
  }
  for (auto& [key, values] : alphas) {
    alpha_[key] = std::clamp(Quantile(std::move(values), 0.5), 0.0, 1.0);
  }
}

double AttentionGrid::SkewOf(const StepBatch& batch) const {
  const auto it = alpha_.find({std::ilogb(batch.prefill_tokens()), std::ilogb(batch.decodes)});
  return it == alpha_.end() ? 0 : it->second;
}

}  // namespace foretrace::serve
