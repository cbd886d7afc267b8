// How software sums the gradients of states that replicas divide, and gathers what comes of them.
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// 16 replicas in two nodes of 8, whose states are divided. Of whole sums every replica has all that
// it then keeps a part of: an all-reduce where there was a reduce-scatter, of ZeRO 1 at the end and
// of ZeRO 2 after every layer, twice the time but for the steps' latency.
TEST(WholeSumsTest, ReplaceReduceScatters) {
  ParallelMapping m = Mapping(1, 16);
  ClusterParameters p = Cluster();
  const auto both = [&](auto of) {
    p.sums_whole = 0;
    const PassTimes parts = Times(Model(), m, p);
    p.sums_whole = 2;
    return std::pair(of(parts), of(Times(Model(), m, p)));
  };
  m.zero = 2;
  const auto [scattered, whole] = both([](const PassTimes& t) { return t.gradient; });
  EXPECT_EQ(scattered.op, CollectiveOp::kReduceScatter);
  EXPECT_EQ(whole.op, CollectiveOp::kAllReduce);
  EXPECT_EQ(whole.bytes, scattered.bytes);
  EXPECT_NEAR(whole.time.us() / scattered.time.us(), 2, 1e-3);
  m.zero = 1;
  const auto at_end = both([](const PassTimes& t) { return t.gradient_reduction; });
  // Before: a scattering of 4 bytes an element and a gathering of as many; now a whole sum, which
  // is both, and the gathering.
  EXPECT_NEAR(at_end.second.us() / at_end.first.us(), 1.5, 1e-3);
  // Up to the first stage alone.
  m.zero = 2;
  p.sums_whole = 1;
  EXPECT_EQ(Times(Model(), m, p).gradient.time, scattered.time);
  m.zero = 3;
  const auto divided = both([](const PassTimes& t) { return t.gradient; });
  EXPECT_EQ(divided.second.time, divided.first.time);
  EXPECT_EQ(divided.second.op, CollectiveOp::kReduceScatter);
}

// Reductions run behind the last backward pass, and new weights are gathered when the update is
// over: what the passes hid before stands after them. Float32: both halves are as long.
TEST(WholeSumsTest, WeightsAreGatheredAfterTheUpdate) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 1;
  m.overlap_gradients = true;
  ClusterParameters p = Cluster();
  const PassTimes beside = Times(Model(), m, p);
  p.gathers_after_update = true;
  const PassTimes after = Times(Model(), m, p);
  EXPECT_NEAR(after.gradient_reduction.us(), beside.gradient_reduction.us() / 2, 1);
  // The embedding's exchanges were waited for already, but for what a layer's share of all hid.
  const double gathered = beside.gradient_reduction.us() / 2;
  EXPECT_GT((after.optimizer - beside.optimizer).us(), 0.5 * gathered);
  EXPECT_LE((after.optimizer - beside.optimizer).us(), gathered + 1);
  m.overlap_gradients = false;
  p.gathers_after_update = false;
  const SimTime once = Times(Model(), m, p).gradient_reduction;
  p.gathers_after_update = true;
  EXPECT_EQ(Times(Model(), m, p).gradient_reduction, once);
}

// What is gathered are the optimizer's weights: none are cast and no gradients cleared after its
// update. 16-bit weights and as many gradients are not there beside masters and moments.
TEST(WholeSumsTest, MastersAreGathered) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  ClusterParameters p = Cluster();
  const PassTimes cast = Times(c, m, p);
  p.gathers_masters = true;
  const PassTimes masters = Times(c, m, p);
  EXPECT_LT(masters.optimizer, cast.optimizer);
  EXPECT_EQ(masters.layer_forward, cast.layer_forward);
  m.zero = 1;
  const SimTime before = Times(c, m, p).optimizer;
  p.gathers_masters = false;
  EXPECT_EQ(Times(c, m, p).optimizer, before);
}

}  // namespace
}  // namespace foretrace
