#include "simulator/serve/operator_features.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace foretrace::serve {
namespace {

float Log(double value) { return value > 0 ? static_cast<float>(std::log2(value)) : 0.0F; }

// "power_law_1.2": 1.2; other distributions deal tokens evenly.
double ExponentOf(std::string_view distribution) {
  constexpr std::string_view kPowerLaw = "power_law_";
  if (!distribution.starts_with(kPowerLaw)) return 0;
  distribution.remove_prefix(kPowerLaw.size());
  double exponent = 0;
  std::from_chars(distribution.data(), distribution.data() + distribution.size(), exponent);
  return exponent;
}

// Of a column that counts; numbers beyond any real table are cut.
int64_t AtLeastOne(double value) { return std::llround(std::clamp(value, 1.0, 1e9)); }

}  // namespace

OperatorFeatures ExpertFeatures(const OperatorColumns& row, ExpertLoads& loads) {
  constexpr double kTile = 64, kResult = 2;
  const ExpertSharing sharing{AtLeastOne(row.number("num_experts")),
                              AtLeastOne(row.number("moe_ep_size")), AtLeastOne(row.number("topk")),
                              AtLeastOne(row.number("num_tokens")),
                              ExponentOf(row.text("distribution"))};
  const ExpertLoad load = loads.Of(sharing);
  const double width = WidthOfType(row.text("moe_dtype"));
  const double first = ExpertMatrices(row) - 1;  // of the first GEMM: gate and up, or up alone
  const double hidden = row.number("hidden_size");
  const double inter = row.number("inter_size") / std::max(row.number("moe_tp_size"), 1.0);
  const double each = load.tokens / load.experts;
  const double tiled = load.experts * std::ceil(each / kTile) * kTile;
  const auto gemm = [&](double n, double k) {
    return OperatorWork{
        RealBytes(width * load.experts * n * k + load.tokens * (width * k + kResult * n)),
        Flop(2 * tiled * n * k)};
  };
  const auto tokens = static_cast<double>(sharing.tokens);
  const OperatorWork moved{
      RealBytes(2 * kResult * tokens * hidden + load.tokens * hidden * (width + kResult) +
                load.tokens * inter * (kResult * first + width)),
      Flop()};
  OperatorFeatures features{{gemm(first * inter, hidden), gemm(hidden, inter), moved}, {}};
  const double blocks = load.experts * std::ceil(each / (2 * kTile));
  for (const double size :
       {load.tokens, load.experts, each, load.fullest, hidden, inter,
        static_cast<double>(sharing.experts / sharing.devices),
        static_cast<double>(sharing.experts), static_cast<double>(sharing.devices),
        static_cast<double>(sharing.top_k), tokens, first, sharing.exponent + 1,
        blocks * std::ceil(first * inter / (2 * kTile)),
        blocks * std::ceil(hidden / (2 * kTile))}) {
    features.sizes.push_back(Log(size));
  }
  return features;
}

OperatorFeatures SizeFeatures(const OperatorColumns& row, const OperatorWork& work) {
  constexpr std::array<std::string_view, 10> kSizes = {
      "batch_size", "num_heads",   "num_key_value_heads",
      "head_dim",   "window_size", "isl",
      "step",       "m",           "n",
      "k"};
  OperatorFeatures features{{work}, {}};
  for (const std::string_view size : kSizes) features.sizes.push_back(Log(row.number(size)));
  const double heads = row.number("num_heads"), sequences = row.number("batch_size");
  const double shared = row.number("num_key_value_heads");
  for (const double size : {sequences * heads, sequences * shared, shared > 0 ? heads / shared : 0,
                            sequences * row.number("isl"), sequences * row.number("step")}) {
    features.sizes.push_back(Log(size));
  }
  return features;
}

RealMs TimeOf(const OperatorFeatures& features, const OperatorRates& rates) {
  const auto at = [](double amount, double per_ms) {
    return per_ms > 0 ? RealMs(amount / per_ms) : RealMs();
  };
  RealMs time = rates.floor;
  for (const OperatorWork& work : features.kernels) {
    time +=
        std::max({at(work.bytes.count(), rates.bytes_per_ms),
                  at(work.flop.count(), rates.flop_per_ms), at(work.steps, rates.steps_per_ms)});
  }
  return time;
}

}  // namespace foretrace::serve
