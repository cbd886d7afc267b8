#include "simulator/cost/collective/hybrid_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

// 4,096 tokens of 7,168 values, 8 of 8 experts a rank.
ExpertExchange Exchange(int32_t ranks, int32_t nodes, int32_t multiprocessors,
                        ExpertDirection direction) {
  ExpertExchange x;
  x.algorithm = ExpertAlgorithm::kHybrid;
  x.direction = direction;
  x.routing = {8 * ranks, 8, ranks, nodes};
  x.tokens = 4096;
  x.token_bytes = TokenBytes(7168, 2);
  x.multiprocessors = multiprocessors;
  return x;
}

// What a rank is sent over the time, its own tokens too, as the tables have it.
double Gbps(const ExpertExchange& x, const ExpertLinks& links) {
  const ExpertCopies copies = ExpectedCopies(x.routing);
  const double tokens = x.tokens * (x.routing.nodes > 1 ? copies.nodes : copies.ranks);
  const ExpertTimes times = TimeOf(ExpertExchangeModel(), links, x);
  return tokens * x.token_bytes.count() / times.total().seconds() * 1e-9;
}

struct Row {
  int32_t ranks, nodes, multiprocessors;
  double dispatch, combine;
};

// DeepEP, docs/README_Hybrid-EP.md: columns "Kernel Only", GB200.
TEST(HybridExchangeTest, PublishedRatesOfAGb200) {
  constexpr Row kRows[] = {{8, 1, 16, 750.15, 684.27},  {8, 1, 32, 764.03, 737.13},
                           {16, 1, 16, 661.93, 600.75}, {16, 1, 32, 706.95, 666.26},
                           {24, 1, 16, 637.80, 565.53}, {24, 1, 32, 665.97, 639.80},
                           {32, 1, 16, 629.79, 547.25}, {32, 1, 32, 642.23, 605.15},
                           {36, 1, 16, 612.85, 543.27}, {36, 1, 32, 632.31, 596.99}};
  const ExpertLinks links = {72, Bandwidth::GBps(900), Bandwidth(), 148};
  for (const Row& row : kRows) {
    const auto rate = [&](ExpertDirection direction) {
      return Gbps(Exchange(row.ranks, 1, row.multiprocessors, direction), links);
    };
    EXPECT_NEAR(rate(ExpertDirection::kDispatch) / row.dispatch, 1, 0.08) << row.ranks;
    EXPECT_NEAR(rate(ExpertDirection::kCombine) / row.combine, 1, 0.11) << row.ranks;
  }
}

// The same of H100, whose nodes have 8 GPUs and NICs of 50 GB/s.
TEST(HybridExchangeTest, PublishedRatesBetweenNodesOfH100) {
  constexpr Row kRows[] = {
      {16, 2, 16, 71.71, 62.95}, {32, 4, 16, 57.69, 57.46}, {64, 8, 16, 49.97, 49.77}};
  const ExpertLinks links = {8, Bandwidth::GBps(450), Bandwidth::GBps(50), 132};
  for (const Row& row : kRows) {
    const auto rate = [&](ExpertDirection direction) {
      return Gbps(Exchange(row.ranks, row.nodes, row.multiprocessors, direction), links);
    };
    EXPECT_NEAR(rate(ExpertDirection::kDispatch) / row.dispatch, 1, 0.08) << row.ranks;
    EXPECT_NEAR(rate(ExpertDirection::kCombine) / row.combine, 1, 0.08) << row.ranks;
  }
}

// Links alone with endless multiprocessors: 4,096 tokens to 8 (1 - 56! 56! / (48! 64!)) = 5.433 of
// 8 ranks, 7 of 8 of them over links that give 0.761 of 900 GB/s, behind 24 us.
TEST(HybridExchangeTest, TimeByHand) {
  const ExpertLinks links = {8, Bandwidth::GBps(900), Bandwidth(), 148};
  const ExpertExchange x = Exchange(8, 1, 1 << 20, ExpertDirection::kDispatch);
  const double copies = ExpectedCopies(x.routing).ranks;
  EXPECT_NEAR(copies, 5.433, 0.001);
  const double us = 24 + 4096 * copies * 7 / 8 * 14336 / (0.761 * 900e3);
  EXPECT_NEAR(TimeOf(ExpertExchangeModel(), links, x).total().us(), us, 0.02 * us);
}

}  // namespace
}  // namespace foretrace
