#include "simulator/serve/expert_load.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulator/base/split_mix.h"

namespace foretrace::serve {
namespace {

ExpertLoad Even(const ExpertSharing& s) {
  const auto all = static_cast<double>(s.tokens * s.top_k);
  const double own = std::max(1.0, static_cast<double>(s.experts / s.devices));
  const double tokens = std::max(1.0, all / static_cast<double>(s.devices));
  return {tokens, std::min(own, std::ceil(tokens)),
          std::ceil(all / static_cast<double>(s.experts))};
}

// How often each expert is chosen, in one draw.
std::vector<double> Popularity(const ExpertSharing& s, SplitMixSequence& random) {
  const auto all = static_cast<double>(s.tokens * s.top_k);
  const bool many = s.tokens * s.top_k > s.experts;
  const double least = many ? 1 : 0.01;
  const double most = many ? std::max(0.8 * static_cast<double>(s.tokens), 1.0) : 2;
  // The inverse of the distribution's sum; its exponent must not be 1.
  const double e = 1 - s.exponent;
  const double low = std::pow(least, e), high = std::pow(most, e);
  std::vector<double> chosen(static_cast<size_t>(s.experts));
  double sum = 0;
  for (double& x : chosen) {
    x = std::pow(low + (high - low) * random.Uniform(), 1 / e);
    sum += x;
  }
  for (double& x : chosen) {
    x = std::min(std::round(x / sum * all), static_cast<double>(s.tokens));
  }
  return chosen;
}

ExpertLoad MostLoaded(const std::vector<double>& chosen, size_t of_each) {
  ExpertLoad most{0, 0, 0};
  for (size_t from = 0; from + of_each <= chosen.size(); from += of_each) {
    ExpertLoad load{0, 0, 0};
    for (size_t i = from; i < from + of_each; ++i) {
      load.tokens += chosen[i];
      load.experts += chosen[i] > 0 ? 1 : 0;
      load.fullest = std::max(load.fullest, chosen[i]);
    }
    if (load.tokens > most.tokens) most = load;
  }
  return most;
}

ExpertLoad Uneven(const ExpertSharing& s) {
  constexpr int kDraws = 24;
  SplitMixSequence random(1);
  const auto of_each = static_cast<size_t>(std::max<int64_t>(1, s.experts / s.devices));
  ExpertLoad sum{0, 0, 0};
  for (int i = 0; i < kDraws; ++i) {
    const ExpertLoad load = MostLoaded(Popularity(s, random), of_each);
    sum.tokens += load.tokens / kDraws;
    sum.experts += load.experts / kDraws;
    sum.fullest += load.fullest / kDraws;
  }
  return {std::max(1.0, sum.tokens), std::max(1.0, sum.experts), std::max(1.0, sum.fullest)};
}

}  // namespace

ExpertLoad ExpertLoads::Of(const ExpertSharing& s) {
  constexpr int64_t kMostExperts = 1 << 12;  // beyond any model
  if (s.exponent <= 0 || s.exponent == 1 || s.experts > kMostExperts) return Even(s);
  const auto key = std::tuple(s.experts, s.devices, s.top_k, s.tokens, s.exponent);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  return known_.emplace(key, Uneven(s)).first->second;
}

}  // namespace foretrace::serve
