#include "simulator/serve/attention_grid.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {

void AttentionGrid::Add(double chunk, double cached, double decodes, double each, double us) {
  if (decodes == 0) {
    prefill_.Add({chunk, cached}, us);
  } else if (chunk == 0) {
    decode_.Add({decodes, each}, us);
  } else {
    mixed_.Add({chunk, cached, decodes, each}, us);
  }
}

absl::Status AttentionGrid::Finish() {
  if (prefill_.empty() || decode_.empty()) {
    return InvalidInput("needs rows of prefill alone and of decodes alone");
  }
  // Beyond what fits in memory times are the most nearly linear in the number of decodes.
  FORETRACE_RETURN_IF_ERROR(prefill_.Finish(0));
  FORETRACE_RETURN_IF_ERROR(decode_.Finish(0));
  return mixed_.empty() ? absl::OkStatus() : mixed_.Finish(2);
}

Interpolated AttentionGrid::Of(double chunk, double cached, double decodes, double each) const {
  if (decodes == 0) return prefill_.At({chunk, cached});
  if (chunk == 0) return decode_.At({decodes, each});
  if (!mixed_.empty()) return mixed_.At({chunk, cached, decodes, each});
  const Interpolated a = prefill_.At({chunk, cached}), b = decode_.At({decodes, each});
  return {a.us + b.us, true};
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
