#include "simulator/cost/collective/expert_exchange.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

ExpertRouting Routing(int64_t experts, int64_t top_k, int32_t ranks, int32_t nodes) {
  ExpertRouting r;
  r.experts = experts;
  r.top_k = top_k;
  r.ranks = ranks;
  r.nodes = nodes;
  return r;
}

// 2 of 4 experts on 4 ranks of 2 nodes: two ranks always; one node if the second expert is the
// other one there, 1 of 3: 1/3 + 2 * 2/3 nodes.
TEST(ExpertExchange, CopiesOfTwoOfFour) {
  const ExpertCopies c = ExpectedCopies(Routing(4, 2, 4, 2));
  EXPECT_DOUBLE_EQ(c.experts, 2);
  EXPECT_NEAR(c.ranks, 2, 1e-12);
  EXPECT_NEAR(c.nodes, 5.0 / 3, 1e-12);
}

// 8 of 256 on 8 ranks of 32 experts: 8 (1 - C(224, 8) / C(256, 8)), the fraction 224/256 ...
// 217/249 = 0.339.
TEST(ExpertExchange, CopiesOfDeepSeekV3InANode) {
  double missed = 1;
  for (int i = 0; i < 8; ++i) missed *= (224.0 - i) / (256.0 - i);
  const ExpertCopies c = ExpectedCopies(Routing(256, 8, 8, 1));
  EXPECT_NEAR(c.ranks, 8 * (1 - missed), 1e-12);
  EXPECT_NEAR(c.ranks, 5.29, 0.01);
  EXPECT_NEAR(c.nodes, 1, 1e-12);
}

TEST(ExpertExchange, AllExpertsReachAllRanksAndOneReachesOne) {
  const ExpertCopies all = ExpectedCopies(Routing(16, 16, 8, 2));
  EXPECT_NEAR(all.ranks, 8, 1e-12);
  EXPECT_NEAR(all.nodes, 2, 1e-12);
  const ExpertCopies one = ExpectedCopies(Routing(128, 1, 32, 4));
  EXPECT_NEAR(one.ranks, 1, 1e-12);
  EXPECT_NEAR(one.nodes, 1, 1e-12);
}

// One of two groups of two experts each, then both of its experts: with a node a group, one node
// and two ranks; with one rank for each group likewise one rank.
TEST(ExpertExchange, GroupsLimitNodes) {
  ExpertRouting r = Routing(4, 2, 4, 2);
  r.groups = 2;
  r.groups_of_token = 1;
  EXPECT_NEAR(ExpectedCopies(r).nodes, 1, 1e-12);
  EXPECT_NEAR(ExpectedCopies(r).ranks, 2, 1e-12);
  r.ranks = 2;
  EXPECT_NEAR(ExpectedCopies(r).ranks, 1, 1e-12);
}

// Against 20,000 drawn tokens: 4 of 8 groups, 8 of 256 experts, by 4 nodes with two groups
// each and by 32 ranks, which have a quarter of one.
TEST(ExpertExchange, GroupsAsDrawn) {
  ExpertRouting r = Routing(256, 8, 32, 4);
  r.groups = 8;
  r.groups_of_token = 4;
  std::mt19937 random(1);
  double ranks = 0, nodes = 0;
  constexpr int kTokens = 20000;
  for (int t = 0; t < kTokens; ++t) {
    std::vector<int> groups(8), experts;
    std::iota(groups.begin(), groups.end(), 0);
    for (size_t i = 0; i < 4; ++i) std::swap(groups[i], groups[i + random() % (8 - i)]);
    for (size_t g = 0; g < 4; ++g) {
      for (int e = 0; e < 32; ++e) experts.push_back(groups[g] * 32 + e);
    }
    std::set<int> of_ranks, of_nodes;
    for (size_t i = 0; i < 8; ++i) {
      std::swap(experts[i], experts[i + random() % (128 - i)]);
      of_ranks.insert(experts[i] / 8);
      of_nodes.insert(experts[i] / 64);
    }
    ranks += static_cast<double>(of_ranks.size());
    nodes += static_cast<double>(of_nodes.size());
  }
  const ExpertCopies c = ExpectedCopies(r);
  EXPECT_NEAR(c.ranks, ranks / kTokens, 0.02);
  EXPECT_NEAR(c.nodes, nodes / kTokens, 0.01);
}

ExpertExchangeModel OnlyLinks() {
  ExpertExchangeModel model;
  for (ExpertExchangeKernels* kernels : {&model.deduplicated, &model.direct}) {
    for (ExpertKernel& k : kernels->within) k.nvlink_share = 0.5, k.sharpness = 1000;
    for (ExpertKernel& k : kernels->between) k = kernels->within[0], k.nic_share = 0.8;
  }
  return model;
}
constexpr ExpertLinks kLinks = {8, Bandwidth::GBps(400), Bandwidth::GBps(50), 132};

// 1000 tokens of 1000 bytes to one of 8 experts, each on a rank of one node: 7 of 8 leave, at half
// of 400 GB/s: 875,000 / 200,000 us.
TEST(ExpertExchange, NvlinkBoundsOneNode) {
  ExpertExchange x;
  x.routing = Routing(8, 1, 8, 1);
  x.tokens = 1000;
  x.token_bytes = RealBytes(1000);
  EXPECT_NEAR(TimeOf(OnlyLinks(), kLinks, x).total().us(), 4.375, 1e-6);
  x.algorithm = ExpertAlgorithm::kDirect;
  EXPECT_NEAR(TimeOf(OnlyLinks(), kLinks, x).total().us(), 4.375, 1e-6);
}

// All of 4 experts of 2 nodes with 2 ranks each: deduplicated, one copy of two leaves the node, at
// 0.8 of 50 GB/s, 25 us for 1000 tokens; direct, two of four, 50 us. NVLink takes less.
TEST(ExpertExchange, DeduplicationHalvesWhatLeavesTheNode) {
  ExpertExchange x;
  x.routing = Routing(4, 4, 4, 2);
  x.tokens = 1000;
  x.token_bytes = RealBytes(1000);
  EXPECT_NEAR(TimeOf(OnlyLinks(), kLinks, x).transfer.us(), 25, 1e-6);
  x.algorithm = ExpertAlgorithm::kDirect;
  EXPECT_NEAR(TimeOf(OnlyLinks(), kLinks, x).transfer.us(), 50, 1e-6);
}

// 10 channels of two multiprocessors; 2 copies of 1 us + 3 us/KB of 2 KB, beside 5 us a token:
// 14 + 5 one after the other, 1.9 us a token.
TEST(ExpertExchange, MultiprocessorsBoundWhatTheyCopy) {
  ExpertKernel kernel;
  kernel.copy_us = 1;
  kernel.copy_us_per_KB = 3;
  kernel.token_us = 5;
  ExpertExchange x;
  x.routing = Routing(4, 2, 4, 1);
  x.token_bytes = RealBytes(2000);
  x.multiprocessors = 20;
  EXPECT_NEAR(BoundsOf(kernel, kLinks, x).multiprocessors.us(), 1.9, 1e-12);
  // Directly: a multiprocessor for each of the experts, up to 132; of 256 two share one.
  x.algorithm = ExpertAlgorithm::kDirect;
  EXPECT_NEAR(BoundsOf(kernel, kLinks, x).multiprocessors.us(), 19.0 / 4, 1e-12);
  x.routing = Routing(256, 1, 8, 1);
  EXPECT_NEAR(BoundsOf(kernel, kLinks, x).multiprocessors.us(), 12.0 / 128, 1e-12);
}

// Latency 10 + 2/KB + 3 a doubling of 4 nodes; 2 KB. Notify 5 + 4 a doubling + a tenth of the
// transfer.
TEST(ExpertExchange, LatencyAndNotify) {
  ExpertExchangeModel model;
  ExpertKernel& k = model.deduplicated.between[1];
  k.latency_us = 10;
  k.latency_us_per_KB = 2;
  k.latency_us_per_doubling = 3;
  k.notify_us = 5;
  k.notify_us_per_doubling = 4;
  k.notify_share = 0.1;
  ExpertExchange x;
  x.direction = ExpertDirection::kCombine;
  x.routing = Routing(256, 8, 32, 4);
  x.tokens = 1e-9;
  x.token_bytes = RealBytes(2000);
  const ExpertTimes t = TimeOf(model, kLinks, x);
  EXPECT_NEAR(t.transfer.us(), 20, 1e-4);
  EXPECT_NEAR(t.notify.us(), 15, 1e-4);
  x.tokens = 0;
  EXPECT_EQ(TimeOf(model, kLinks, x).total().us(), 0);
}

TEST(ExpertExchange, NamesAreReadBack) {
  EXPECT_EQ(ParseEnum<ExpertAlgorithm>("deduplicated"), ExpertAlgorithm::kDeduplicated);
  EXPECT_EQ(ParseEnum<ExpertAlgorithm>(Name(ExpertAlgorithm::kDirect)), ExpertAlgorithm::kDirect);
  EXPECT_EQ(ParseEnum<ExpertAlgorithm>("deepep"), std::nullopt);
}

}  // namespace
}  // namespace foretrace
