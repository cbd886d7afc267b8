#include "simulator/serve/speculation.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/error.h"
#include "simulator/base/split_mix.h"

namespace foretrace::serve {
namespace {

constexpr int32_t kMaxChecked = 4096;

}  // namespace

double Speculation::AcceptanceAt(int32_t position) const {
  const size_t last = acceptance.size() - 1;
  const double one = acceptance[std::min(static_cast<size_t>(position), last)];
  return shape == DraftShape::kTree ? 1 - std::pow(1 - one, branches) : one;
}

int32_t Speculation::DraftedAt(int32_t depth) const {
  if (shape != DraftShape::kTree) return 1;
  return static_cast<int32_t>(std::pow(branches, depth));
}

int32_t Speculation::CheckedTokens() const {
  if (!enabled()) return 1;
  int32_t tokens = 1;
  for (int32_t depth = 1; depth <= window; ++depth) tokens += DraftedAt(depth);
  return tokens;
}

double Speculation::TokensPerStep() const {
  double tokens = 1, reached = 1;
  for (int32_t i = 0; enabled() && i < window; ++i) {
    reached *= AcceptanceAt(i);
    tokens += reached;
  }
  return tokens;
}

int32_t Speculation::Draw(uint64_t request, int32_t sampled) const {
  int32_t tokens = 1;
  if (!enabled()) return tokens;
  uint64_t state = SplitMix64(request * 0x100000001b3 + static_cast<uint64_t>(sampled));
  for (int32_t i = 0; i < window; ++i) {
    state = SplitMix64(state);
    const double uniform = static_cast<double>(state >> 11) * 0x1p-53;
    if (uniform >= AcceptanceAt(i)) break;
    ++tokens;
  }
  return tokens;
}

absl::Status Speculation::Validate() const {
  if (!enabled()) return absl::OkStatus();
  if (window < 1 || branches < 1 || acceptance.empty()) {
    return InvalidInput(
        "speculation: the window and the branches must be at least 1, and an acceptance given");
  }
  for (const double a : acceptance) {
    if (!(a >= 0 && a <= 1)) {
      return InvalidInput("speculation: an acceptance of {} is no probability", a);
    }
  }
  double tokens = 1, level = 1;
  for (int32_t depth = 1; depth <= window && tokens <= kMaxChecked; ++depth) {
    level *= shape == DraftShape::kTree ? branches : 1;
    tokens += level;
  }
  if (tokens > kMaxChecked) {
    return InvalidInput(
        "speculation: a draft {} deep with {} branches has more than {} tokens: take a smaller "
        "window",
        window, branches, kMaxChecked);
  }
  return absl::OkStatus();
}

double SequenceRate(int32_t window, double accepted, RealSeconds draft, RealSeconds target) {
  return (window * accepted + 1) / (window * draft + target).seconds();
}

double TreeRate(int32_t window, int32_t branches, double accepted, RealSeconds draft,
                RealSeconds target) {
  const Speculation tree = {DraftShape::kTree, window, branches, {accepted}};
  return tree.TokensPerStep() / ((tree.CheckedTokens() - 1) * draft + target).seconds();
}

}  // namespace foretrace::serve
