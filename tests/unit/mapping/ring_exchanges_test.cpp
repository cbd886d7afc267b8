#include <gtest/gtest.h>

#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Two parts of 512 tokens. Own scores under the mask and half of the other part's are as many as
// with gathered keys, so that on links that take no time only the gathering is saved. On 1 GB/s the
// other part's 512 keys and values of 1,024 x 2 bytes take 2,097.15 us, of which the step before
// hides its scores' 4 x 512 x 256 x 1,024 FLOP at 100 TFLOP/s, 5.37 us.
TEST(RingExchangesTest, HideBehindTheirSteps) {
  TransformerConfig c = Model();
  c.fused_attention = true;
  ParallelMapping m = Mapping(1, 1);
  m.context = 2;
  ClusterParameters p = GemmsAlone();
  const PassTimes gathered = Times(c, m, p);
  m.ring = true;
  p.exchanges = Exchanges({.gather_gbps = 1e6, .inside_us = 0});
  const PassTimes fast = Times(c, m, p);
  EXPECT_NEAR(fast.layer_forward.seconds(),
              (gathered.layer_forward - gathered.layer_exchanges.Sum(true)).seconds(), 1e-7);
  p.exchanges = Exchanges({.gather_gbps = 1, .inside_us = 0});
  const SimTime slow = Times(c, m, p).layer_forward;
  EXPECT_NEAR((slow - fast.layer_forward).seconds(), 2097.15e-6 - 5.37e-6, 1e-7);
  // What is not hidden is communication: forward one message of 2 MiB; backward twice that behind
  // each of two steps, whose gradients take 2.5 times as long.
  const PassTimes times = Times(c, m, p);
  const PassExchanges::List& forward = times.layer_exchanges.forward;
  const PassExchanges::List& backward = times.layer_exchanges.backward;
  ASSERT_EQ(forward.size(), 1u);
  EXPECT_EQ(forward[0].op, CollectiveOp::kSendRecv);
  EXPECT_EQ(forward[0].bytes, Bytes(2 * 512 * 1024 * 2));
  EXPECT_TRUE(forward[0].beside);
  EXPECT_NEAR(times.Exchanges(true).seconds(), 2097.15e-6 - 5.37e-6, 1e-7);
  ASSERT_EQ(backward.size(), 2u);
  EXPECT_EQ(backward[1].bytes, Bytes(4 * 512 * 1024 * 2));
  EXPECT_NEAR(times.Exchanges(false).seconds(), 2 * (4194.3e-6 - 2.5 * 5.37e-6), 1e-6);
  // A layer that runs again exchanges again.
  m.recompute = Recompute::kFull;
  EXPECT_NEAR(Times(c, m, p).Exchanges(false).seconds(),
              (times.Exchanges(true) + times.Exchanges(false)).seconds(), 1e-9);
}

// Scores that are a matrix of their own have no steps: the other part's keys and values of 2 MiB at
// 1 GB/s are waited for, backward with their gradients twice.
TEST(RingExchangesTest, WithoutStepsAreWaitedFor) {
  ParallelMapping m = Mapping(1, 1);
  m.context = 2;
  m.ring = true;
  ClusterParameters p = GemmsAlone();
  p.exchanges = Exchanges({.gather_gbps = 1, .inside_us = 0});
  const PassTimes times = Times(Model(), m, p);
  EXPECT_NEAR(times.Exchanges(true).us(), 2097.15, 0.01);
  EXPECT_NEAR(times.Exchanges(false).us(), 2 * 2 * 2097.15, 0.01);
}

}  // namespace
}  // namespace foretrace
