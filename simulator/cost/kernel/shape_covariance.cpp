#include "simulator/cost/kernel/shape_covariance.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "simulator/cost/kernel/gemm_tiles.h"

namespace foretrace {
namespace {

// Large ones first.
constexpr std::span kTiles = std::span(kGemmTiles).first<11>();
constexpr double kEmptiest = 0.25;  // of a wave: below it tiles no longer decide
constexpr double kLeastCached = 0.05, kMostCached = 5;  // operands over L2: outside, all or nothing
constexpr double kOperandBytes = 2;

// Coordinates, all logarithms: n; k; what the last wave of each tile loses; weights and rows over
// L2; of each tile of kSplitTiles, the reduction over the blocks that may share it, and the waves
// that these blocks make.
constexpr size_t kN = 0, kK = 1, kWaves = 2, kCachedWeights = kWaves + kTiles.size(),
                 kCachedRows = kCachedWeights + 1, kDepth = kCachedRows + 1,
                 kFill = kDepth + kSplitTiles.size();
static_assert(kFill + kSplitTiles.size() == kShapeCoordinates);

constexpr double kMeanVariance = 1;  // of what all shapes have in common

}  // namespace

struct ShapeCovariance::Regime {
  // The distance of two shapes along one coordinate counts in units of `length`.
  struct Scale {
    size_t coordinate = 0;
    double length = 0;  // 0: none
  };
  // One part of the covariance: a Matern function of smoothness 3/2 of the distance along the
  // coordinates that it names.
  struct Part {
    double deviation = 0;
    std::array<Scale, 8> scales = {};
  };
  int64_t most_rows;
  double noise;
  std::array<Part, 8> parts;
};

namespace {

// Few rows, one tile high: the kernels of decodes, which stream weights and divide reductions; a
// few tiles; and those that fill the device. Lengths and deviations are those by which shapes left
// out one at a time are predicted best, the mean of a pseudo-Huber function of their errors, in the
// four fifths of the weight matrices of two tables that `--hold-out unseen-nk` fits to (bf16 on
// H100 and A100, docs/accuracy.md).
constexpr std::array<ShapeCovariance::Regime, 3> kRegimes = {{
    {48,
     0.0388,
     {{{2.79, {{{kN, 46.6}, {kK, 17.5}}}},
       {0.336, {{{kN, 3.94}, {kK, 8.74}}}},
       {0.0456,
        {{{kN, 60},
          {kK, 1.22},
          {kWaves + 0, 2.54},
          {kWaves + 1, 0.0857},
          {kWaves + 2, 2.54},
          {kWaves + 3, 0.0436},
          {kWaves + 4, 0.0857},
          {kWaves + 5, 0.0857}}}},
       {0.0809,
        {{{kN, 8.31},
          {kK, 0.368},
          {kWaves + 5, 0.738},
          {kWaves + 6, 1.08},
          {kWaves + 7, 0.825},
          {kWaves + 8, 0.825},
          {kWaves + 9, 0.738},
          {kWaves + 10, 0.825}}}},
       {0.0236, {{{kN, 0.0181}, {kK, 0.942}}}},
       {0.148, {{{kN, 60}, {kK, 7.85}, {kCachedWeights, 0.645}, {kCachedRows, 2.05}}}},
       {0.0639, {{{kN, 4.34}, {kK, 3.85}, {kFill + 1, 0.778}, {kDepth + 2, 1.25}}}}}}},
    {640,
     0.0418,
     {{{0.774, {{{kN, 60}, {kK, 20.8}}}},
       {0.139, {{{kN, 3.9}, {kK, 11.2}}}},
       {0.0838,
        {{{kN, 3.14},
          {kK, 2.55},
          {kWaves + 0, 1.14},
          {kWaves + 2, 0.11},
          {kWaves + 3, 0.413},
          {kWaves + 4, 10.2},
          {kWaves + 5, 0.153}}}},
       {0.0691,
        {{{kN, 60},
          {kK, 0.681},
          {kWaves + 5, 0.814},
          {kWaves + 6, 0.497},
          {kWaves + 7, 0.374},
          {kWaves + 10, 0.762}}}},
       {0.032, {{{kN, 0.112}, {kK, 3.2}}}},
       {0.161, {{{kN, 60}, {kK, 60}, {kCachedWeights, 1.51}, {kCachedRows, 4.15}}}},
       {0.0506, {{{kN, 4.58}, {kK, 0.607}}}},
       {0.144,
        {{{kN, 9.13},
          {kK, 3.05},
          {kDepth + 0, 3.3},
          {kFill + 0, 1.32},
          {kFill + 1, 1.79},
          {kDepth + 3, 6.04}}}}}}},
    {INT64_MAX,
     0.0761,
     {{{0.798, {{{kN, 8.26}, {kK, 21.3}}}},
       {0.186,
        {{{kN, 2.21}, {kK, 1.95}, {kWaves + 0, 0.413}, {kWaves + 1, 0.57}, {kWaves + 5, 0.629}}}},
       {0.111, {{{kN, 60}, {kK, 1.61}, {kWaves + 9, 0.0837}}}},
       {0.044, {{{kN, 0.12}, {kK, 4}}}},
       {0.0857, {{{kN, 9.19}, {kK, 60}, {kCachedWeights, 2.48}, {kCachedRows, 0.743}}}},
       {0.134, {{{kN, 6.75}, {kK, 1.31}}}},
       {0.0554, {{{kN, 0.58}, {kK, 3.63}}}},
       {0.0494,
        {{{kN, 60}, {kK, 60}, {kDepth + 1, 1.36}, {kDepth + 3, 0.687}, {kFill + 3, 0.434}}}}}}},
}};

double Blocks(double m, double n, const GemmTile& tile) {
  return std::ceil(m / tile.rows) * std::ceil(n / tile.cols);
}

float LogWaveLoss(const ShapeDevice& device, double m, double n, const GemmTile& tile) {
  const double waves = Blocks(m, n, tile) / device.multiprocessors;
  return static_cast<float>(std::log(std::ceil(waves) / std::max(waves, kEmptiest)));
}

float LogCached(const ShapeDevice& device, double elements) {
  const double share = elements * kOperandBytes / (device.l2_mbytes * 1e6);
  return static_cast<float>(std::log(std::clamp(share, kLeastCached, kMostCached)));
}

const ShapeCovariance::Regime& RegimeOf(int64_t m) {
  return *std::ranges::find_if(
      kRegimes, [m](const ShapeCovariance::Regime& regime) { return m <= regime.most_rows; });
}

}  // namespace

ShapeCoordinates CoordinatesOf(const ShapeDevice& device, int64_t m, int64_t n, int64_t k) {
  const auto rows = static_cast<double>(m), cols = static_cast<double>(n),
             depth = static_cast<double>(k);
  ShapeCoordinates x = {static_cast<float>(std::log(cols)), static_cast<float>(std::log(depth))};
  for (size_t t = 0; t < kTiles.size(); ++t) {
    x[kWaves + t] = LogWaveLoss(device, rows, cols, kTiles[t]);
  }
  x[kCachedWeights] = LogCached(device, cols * depth);
  x[kCachedRows] = LogCached(device, rows * depth);
  for (size_t t = 0; t < kSplitTiles.size(); ++t) {
    const double blocks = Blocks(rows, cols, kSplitTiles[t]);
    const double parts = std::max(std::floor(device.multiprocessors / blocks), 1.0);
    x[kDepth + t] = static_cast<float>(std::log(depth / parts));
    x[kFill + t] = static_cast<float>(std::log(blocks * parts / device.multiprocessors));
  }
  return x;
}

ShapeCovariance::ShapeCovariance(int64_t m) : regime_(RegimeOf(m)) {}

double ShapeCovariance::operator()(const ShapeCoordinates& a, const ShapeCoordinates& b) const {
  double sum = kMeanVariance;
  for (const Regime::Part& part : regime_.parts) {
    double d2 = 0;
    for (const auto& [coordinate, length] : part.scales) {
      if (length == 0) break;
      const double d =
          (static_cast<double>(a[coordinate]) - static_cast<double>(b[coordinate])) / length;
      d2 += d * d;
    }
    const double d = std::sqrt(3 * d2);
    sum += part.deviation * part.deviation * (1 + d) * std::exp(-d);
  }
  return sum;
}

double ShapeCovariance::noise() const { return regime_.noise; }

}  // namespace foretrace
