#include "simulator/serve/attention_grid.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

double Itself(double x) { return x; }

// Linear over the logarithm of the key, since sizes were measured at powers of two, of what `value`
// makes of the entries; beyond the ends as there.
template <typename Value, typename ValueOf>
double BetweenPowers(const std::map<double, Value>& entries, double x, const ValueOf& value) {
  const auto above = entries.lower_bound(x);
  if (above == entries.end()) return value(std::prev(above)->second);
  if (above == entries.begin()) return value(above->second);
  const auto below = std::prev(above);
  const double weight = std::log(x / below->first) / std::log(above->first / below->first);
  const double low = value(below->second);
  return low + (value(above->second) - low) * weight;
}

}  // namespace

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
  if (decodes > 0) each += SkewOf(batch) * (batch.decode_cached_max - each);
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
  std::map<std::pair<double, double>, std::vector<double>> alphas;
  for (const SkewRow& row : rows) alphas[{row.prefill, row.decodes}].push_back(row.alpha);
  for (auto& [key, values] : alphas) {
    ByDecodes& by_decodes = key.first > 0 ? alpha_[key.first] : pure_alpha_;
    by_decodes[key.second] = std::clamp(Quantile(std::move(values), 0.5), 0.0, 1.0);
  }
}

double AttentionGrid::SkewOf(const StepBatch& batch) const {
  const double chunk = batch.prefill_tokens();
  const auto of_decodes = [&](const ByDecodes& by_decodes) {
    return BetweenPowers(by_decodes, batch.decodes, Itself);
  };
  if (chunk == 0) return pure_alpha_.empty() ? 0 : of_decodes(pure_alpha_);
  return alpha_.empty() ? 0 : BetweenPowers(alpha_, chunk, of_decodes);
}

}  // namespace foretrace::serve
