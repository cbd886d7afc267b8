#include "simulator/serve/operator_features.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace foretrace::serve {
namespace {

float Log(double value) { return value > 0 ? static_cast<float>(std::log2(value)) : 0.0F; }

// Of a column that counts; numbers beyond any real table are cut.
int64_t AtLeastOne(double value) { return std::llround(std::clamp(value, 1.0, 1e9)); }

OperatorFeatures OfExperts(const ExpertSizes& s, ExpertLoads& loads) {
  constexpr double kTile = 64, kResult = 2;
  const ExpertSharing sharing{AtLeastOne(s.experts), AtLeastOne(s.devices), AtLeastOne(s.top_k),
                              AtLeastOne(s.tokens), s.exponent};
  const ExpertLoad load = loads.Of(sharing);
  const double first = s.matrices - 1;  // of the first GEMM: gate and up, or up alone
  const double each = load.tokens / load.experts;
  const double tiled = load.experts * std::ceil(each / kTile) * kTile;
  const auto gemm = [&](double n, double k) {
    return OperatorWork{
        RealBytes(s.width * load.experts * n * k + load.tokens * (s.width * k + kResult * n)),
        Flop(2 * tiled * n * k)};
  };
  const auto tokens = static_cast<double>(sharing.tokens);
  const OperatorWork moved{
      RealBytes(2 * kResult * tokens * s.hidden + load.tokens * s.hidden * (s.width + kResult) +
                load.tokens * s.inter * (kResult * first + s.width)),
      Flop()};
  OperatorFeatures features{{gemm(first * s.inter, s.hidden), gemm(s.hidden, s.inter), moved}, {}};
  const double blocks = load.experts * std::ceil(each / (2 * kTile));
  for (const double size :
       {load.tokens, load.experts, each, load.fullest, s.hidden, s.inter,
        static_cast<double>(sharing.experts / sharing.devices),
        static_cast<double>(sharing.experts), static_cast<double>(sharing.devices),
        static_cast<double>(sharing.top_k), tokens, first, sharing.exponent + 1,
        blocks * std::ceil(first * s.inter / (2 * kTile)),
        blocks * std::ceil(s.hidden / (2 * kTile))}) {
    features.sizes.push_back(Log(size));
  }
  return features;
}

OperatorFeatures OfOneKernel(const CallSizes& s, const OperatorWork& work) {
  OperatorFeatures features{{work}, {}};
  for (const double size : {s.sequences, s.heads, s.key_heads, s.head, s.window, s.prompt, s.cached,
                            s.m, s.n, s.k, s.sequences * s.heads, s.sequences * s.key_heads,
                            s.key_heads > 0 ? s.heads / s.key_heads : 0, s.sequences * s.prompt,
                            s.sequences * s.cached}) {
    features.sizes.push_back(Log(size));
  }
  return features;
}

}  // namespace

OperatorFeatures FeaturesOf(const OperatorSizes& sizes, const OperatorWork& work,
                            ExpertLoads& loads) {
  if (const auto* experts = std::get_if<ExpertSizes>(&sizes)) return OfExperts(*experts, loads);
  return OfOneKernel(std::get<CallSizes>(sizes), work);
}

}  // namespace foretrace::serve
