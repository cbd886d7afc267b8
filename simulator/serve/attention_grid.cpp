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
  SumUpSkew();
  return absl::OkStatus();
}

// Where the profiler left points out (what does not fit in memory), along the line of the two
// before on the axis of the decodes' cache, else of their number, of the chunk's cache, of the
// chunk.
void AttentionGrid::FillHoles() {
  const std::array<size_t, 4> order = {3, 2, 1, 0};
  std::array<size_t, 4> at = {};
  for (at[0] = 0; at[0] < axes_[0].size(); ++at[0]) {
    for (at[1] = 0; at[1] < axes_[1].size(); ++at[1]) {
      for (at[2] = 0; at[2] < axes_[2].size(); ++at[2]) {
        for (at[3] = 0; at[3] < axes_[3].size(); ++at[3]) {
          const bool none = (at[2] == 0) != (at[3] == 0) || (at[0] == 0 && at[1] > 0);
          double& us = us_[IndexOf(at)];
          if (us >= 0 || none) continue;
          for (const size_t a : order) {
            if (at[a] < 2 || us >= 0) continue;
            auto one = at, two = at;
            one[a] -= 1, two[a] -= 2;
            const double y1 = us_[IndexOf(one)], y2 = us_[IndexOf(two)];
            if (y1 < 0 || y2 < 0) continue;
            const double x1 = axes_[a][one[a]], x2 = axes_[a][two[a]];
            us = std::max(y1, y1 + (y1 - y2) * (axes_[a][at[a]] - x1) / (x1 - x2));
          }
        }
      }
    }
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

void AttentionGrid::SumUpSkew() {
  std::map<std::pair<int, int>, std::vector<double>> alphas;
  for (const SkewRow& row : skew_) {
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
