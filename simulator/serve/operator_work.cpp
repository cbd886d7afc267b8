#include "simulator/serve/operator_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "simulator/base/contains.h"
#include "simulator/base/statistics.h"

namespace foretrace::serve {
namespace {

// Keys that each query of a causal prompt of `length` sees, in sum.
double QueriesTimesKeys(double length, double window) {
  if (window <= 0 || window >= length) return length * (length + 1) / 2;
  return window * (window + 1) / 2 + (length - window) * window;
}

}  // namespace

double WidthOfType(std::string_view type) {
  if (ContainsAny(type, {"fp4", "int4", "w4"})) return 0.53;
  return ContainsAny(type, {"fp8", "float8", "int8"}) ? 1 : 2;
}

double ExpertMatrices(const OperatorColumns& row) {
  return ContainsAny(row.text("kernel_source"), {"nongated"}) ? 2 : 3;
}

OperatorWork GemmWork(const OperatorColumns& row) {
  constexpr double kResult = 2;
  const double width = WidthOfType(row.text("gemm_dtype"));
  const double m = row.number("m"), n = row.number("n"), k = row.number("k");
  return {RealBytes(width * (m * k + n * k) + kResult * m * n), Flop(2 * m * n * k)};
}

OperatorWork ExpertWork(const OperatorColumns& row) {
  const auto at_least_one = [&](std::string_view name) { return std::max(row.number(name), 1.0); };
  const double width = WidthOfType(row.text("moe_dtype"));
  const double values = ExpertMatrices(row);
  const double devices = at_least_one("moe_ep_size");
  const double hidden = row.number("hidden_size");
  const double inter = row.number("inter_size") / at_least_one("moe_tp_size");
  const double experts = std::max(row.number("num_experts") / devices, 1.0);
  const double tokens = row.number("num_tokens") * row.number("topk") / devices;
  const double active = std::clamp(tokens, 1.0, experts);
  return {
      RealBytes(values * active * hidden * inter * width + 2 * width * tokens * (hidden + inter)),
      Flop(2 * values * tokens * hidden * inter)};
}

OperatorWork AttentionWork(const OperatorColumns& row) {
  const double sequences = row.number("batch_size"), size = row.number("head_dim");
  const double heads = row.number("num_heads"), shared = row.number("num_key_value_heads");
  const double window = row.number("window_size"), length = row.number("isl");
  const double width = WidthOfType(row.text("kv_cache_dtype"));
  if (length > 0) {
    return {RealBytes(2 * sequences * length * size * (2 * heads + 2 * shared * width)),
            Flop(4 * sequences * heads * size * QueriesTimesKeys(length, window)),
            window > 0 ? std::min(length, window) : length};
  }
  const double cached = row.number("step") + 1;
  const double keys = window > 0 ? std::min(cached, window) : cached;
  return {RealBytes(2 * sequences * shared * keys * size * width),
          Flop(4 * sequences * heads * keys * size), keys};
}

OperatorWork LatentAttentionWork(const OperatorColumns& row) {
  constexpr double kLatent = 512, kPosition = 64, kQuery = 128 + kPosition, kValue = 128;
  const double sequences = row.number("batch_size"), heads = row.number("num_heads");
  const double length = row.number("isl");
  if (length > 0) {
    return {RealBytes(2 * sequences * heads * length * 2 * (kQuery + kValue)),
            Flop(2 * sequences * heads * (kQuery + kValue) * QueriesTimesKeys(length, 0)), length};
  }
  const double keys = row.number("step") + 1;
  return {
      RealBytes(sequences * keys * (kLatent + kPosition) * WidthOfType(row.text("kv_cache_dtype"))),
      Flop(2 * sequences * heads * keys * (2 * kLatent + kPosition)), keys};
}

RealMs OperatorRates::TimeOf(const OperatorWork& work) const {
  RealMs time = floor;
  if (bytes_per_ms > 0) time += RealMs(work.bytes.count() / bytes_per_ms);
  if (flop_per_ms > 0) time += RealMs(work.flop.count() / flop_per_ms);
  return time;
}

OperatorRates RatesOf(std::span<const MeasuredWork> rows) {
  constexpr double kFastest = 0.98;  // single rows may be errors of measurement
  OperatorRates rates;
  if (rows.empty()) return rates;
  std::vector<double> bytes, flop, steps;
  rates.floor = rows.front().time;
  for (const MeasuredWork& row : rows) {
    rates.floor = std::min(rates.floor, row.time);
    bytes.push_back(row.work.bytes.count() / row.time.ms());
    flop.push_back(row.work.flop.count() / row.time.ms());
    steps.push_back(row.work.steps / row.time.ms());
  }
  rates.bytes_per_ms = Quantile(std::move(bytes), kFastest);
  rates.flop_per_ms = Quantile(std::move(flop), kFastest);
  rates.steps_per_ms = Quantile(std::move(steps), kFastest);
  return rates;
}

}  // namespace foretrace::serve
