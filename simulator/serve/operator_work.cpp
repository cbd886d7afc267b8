#include "simulator/serve/operator_work.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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

// Bytes of a value of a column's type; four bits with the scale of 32 values.
double WidthOfType(std::string_view type) {
  if (ContainsAny(type, {"fp4", "int4", "w4"})) return 0.53;
  return ContainsAny(type, {"fp8", "float8", "int8"}) ? 1 : 2;
}

// "power_law_1.2": 1.2; other distributions deal tokens evenly.
double ExponentOf(std::string_view distribution) {
  constexpr std::string_view kPowerLaw = "power_law_";
  if (!distribution.starts_with(kPowerLaw)) return 0;
  distribution.remove_prefix(kPowerLaw.size());
  double exponent = 0;
  std::from_chars(distribution.data(), distribution.data() + distribution.size(), exponent);
  return exponent;
}

// Kernels that divide keys among blocks go through them the faster the fewer others there are.
bool TakesStepsInTurn(std::span<const MeasuredWork> rows) {
  constexpr double kAlike = 0.8;
  double fewest = rows.front().work.blocks;
  for (const MeasuredWork& row : rows) fewest = std::min(fewest, row.work.blocks);
  double of_few = 0, of_more = 0;
  for (const MeasuredWork& row : rows) {
    double& fastest = row.work.blocks < 2 * fewest ? of_few : of_more;
    fastest = std::max(fastest, row.work.steps / row.time.ms());
  }
  return of_more == 0 || of_more > kAlike * of_few;
}

}  // namespace

CallSizes GemmSizes(const OperatorColumns& row) {
  CallSizes sizes{row.number("m"), row.number("n"), row.number("k")};
  sizes.width = WidthOfType(row.text("gemm_dtype"));
  return sizes;
}

CallSizes AttentionSizes(const OperatorColumns& row) {
  CallSizes sizes;
  sizes.sequences = row.number("batch_size");
  sizes.heads = row.number("num_heads");
  sizes.key_heads = row.number("num_key_value_heads");
  sizes.head = row.number("head_dim");
  sizes.window = row.number("window_size");
  sizes.prompt = row.number("isl");
  sizes.cached = row.number("step");
  sizes.width = WidthOfType(row.text("kv_cache_dtype"));
  return sizes;
}

ExpertSizes ExpertSizesOf(const OperatorColumns& row) {
  const auto at_least_one = [&](std::string_view name) { return std::max(row.number(name), 1.0); };
  ExpertSizes sizes;
  sizes.experts = row.number("num_experts");
  sizes.devices = at_least_one("moe_ep_size");
  sizes.top_k = row.number("topk");
  sizes.tokens = row.number("num_tokens");
  sizes.hidden = row.number("hidden_size");
  sizes.inter = row.number("inter_size") / at_least_one("moe_tp_size");
  sizes.matrices = ContainsAny(row.text("kernel_source"), {"nongated"}) ? 2 : 3;
  sizes.width = WidthOfType(row.text("moe_dtype"));
  sizes.exponent = ExponentOf(row.text("distribution"));
  return sizes;
}

OperatorWork GemmWork(const CallSizes& s) {
  constexpr double kResult = 2;
  return {RealBytes(s.width * (s.m * s.k + s.n * s.k) + kResult * s.m * s.n),
          Flop(2 * s.m * s.n * s.k)};
}

OperatorWork ExpertWork(const ExpertSizes& s) {
  const double experts = std::max(s.experts / s.devices, 1.0);
  const double tokens = s.tokens * s.top_k / s.devices;
  const double active = std::clamp(tokens, 1.0, experts);
  return {RealBytes(s.matrices * active * s.hidden * s.inter * s.width +
                    2 * s.width * tokens * (s.hidden + s.inter)),
          Flop(2 * s.matrices * tokens * s.hidden * s.inter)};
}

// Of queries and results.
constexpr double kValueBytes = 2;

OperatorWork AttentionWork(const CallSizes& s) {
  const double length = s.prompt;
  if (length > 0) {
    return {
        RealBytes(2 * s.sequences * length * s.head * (2 * s.heads + 2 * s.key_heads * s.width)),
        Flop(4 * s.sequences * s.heads * s.head * QueriesTimesKeys(length, s.window)),
        s.window > 0 ? std::min(length, s.window) : length};
  }
  const double keys = s.window > 0 ? std::min(s.cached + 1, s.window) : s.cached + 1;
  return {
      RealBytes(2 * s.sequences * s.head * (s.key_heads * keys * s.width + kValueBytes * s.heads)),
      Flop(4 * s.sequences * s.heads * keys * s.head), keys, s.sequences * s.key_heads};
}

// A warpgroup's rows, which heads are (FlashMLA, csrc/sm90/decode: BLOCK_SIZE_M 64).
constexpr double kHeadsOfABlock = 64;

OperatorWork LatentAttentionWork(const CallSizes& s) {
  constexpr double kLatent = 512, kPosition = 64, kQuery = 128 + kPosition, kValue = 128;
  const double length = s.prompt;
  if (length > 0) {
    return {RealBytes(2 * s.sequences * s.heads * length * 2 * (kQuery + kValue)),
            Flop(2 * s.sequences * s.heads * (kQuery + kValue) * QueriesTimesKeys(length, 0)),
            length};
  }
  const double keys = s.cached + 1;
  return {RealBytes(s.sequences * (keys * (kLatent + kPosition) * s.width +
                                   kValueBytes * s.heads * (2 * kLatent + kPosition))),
          Flop(2 * s.sequences * s.heads * keys * (2 * kLatent + kPosition)), keys,
          s.sequences * std::ceil(s.heads / kHeadsOfABlock)};
}

RealMs OperatorRates::InSequence(const OperatorWork& work) const {
  RealMs time = floor;
  if (bytes_per_ms > 0) time += RealMs(work.bytes.count() / bytes_per_ms);
  if (flop_per_ms > 0) time += RealMs(work.flop.count() / flop_per_ms);
  return time;
}

RealMs OperatorRates::Overlapped(std::span<const OperatorWork> kernels) const {
  const auto at = [](double amount, double per_ms) {
    return per_ms > 0 ? RealMs(amount / per_ms) : RealMs();
  };
  RealMs time = floor;
  for (const OperatorWork& work : kernels) {
    time += std::max({at(work.bytes.count(), bytes_per_ms), at(work.flop.count(), flop_per_ms),
                      at(work.steps, steps_per_ms), at(work.blocks, blocks_per_ms)});
  }
  return time;
}

OperatorRates RatesOf(std::span<const MeasuredWork> rows) {
  constexpr double kFastest = 0.98;  // single rows may be errors of measurement
  OperatorRates rates;
  if (rows.empty()) return rates;
  std::vector<double> bytes, flop, steps, blocks;
  rates.floor = rows.front().time;
  for (const MeasuredWork& row : rows) {
    rates.floor = std::min(rates.floor, row.time);
    bytes.push_back(row.work.bytes.count() / row.time.ms());
    flop.push_back(row.work.flop.count() / row.time.ms());
    steps.push_back(row.work.steps / row.time.ms());
    blocks.push_back(row.work.blocks / row.time.ms());
  }
  rates.bytes_per_ms = Quantile(std::move(bytes), kFastest);
  rates.flop_per_ms = Quantile(std::move(flop), kFastest);
  if (TakesStepsInTurn(rows)) rates.steps_per_ms = Quantile(std::move(steps), kFastest);
  rates.blocks_per_ms = Quantile(std::move(blocks), kFastest);
  return rates;
}

}  // namespace foretrace::serve
