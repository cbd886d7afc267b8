// What is divided within groups of replicas (ParallelMapping::hybrid).
#include <gtest/gtest.h>

#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// 16 replicas in two nodes of 8. Each node has the weights whole: a gathering of L bytes stays
// inside, 7/8 L / 100 GB/s and 7 steps. A gradient is scattered likewise, then each eighth of it
// reduced with the other node's by one NIC: twice half of L/8 / 10 GB/s and a step outside.
TEST(ShardGroupsTest, WeightsDividedWithinNodes) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  const PassTimes all = Times(Model(), m);
  const MemoryLedger of_all = MemoryOf(Model(), m);
  m.hybrid = 8;
  const PassTimes hybrid = Times(Model(), m);
  const double weights = static_cast<double>(hybrid.weight_bytes.count());
  EXPECT_EQ(hybrid.weight_bytes, all.weight_bytes);
  EXPECT_NEAR(hybrid.forward_gather.dense.us(), 7.0 / 8 * weights / 100e9 * 1e6 + 7 * 2, 1e-3);
  const double gradients = static_cast<double>(hybrid.gradient.bytes.count());
  EXPECT_NEAR(hybrid.gradient.time.us(), 7.0 / 8 * gradients / 100e9 * 1e6 + 7 * 2, 1e-3);
  EXPECT_NEAR(static_cast<double>(hybrid.gradient.share.count()), gradients / 8, 1);
  EXPECT_NEAR(hybrid.gradient.copies.us(), gradients / 8 / 10e9 * 1e6 + 2 * 10, 1e-3);
  EXPECT_EQ(all.gradient.copies, SimTime());
  const MemoryLedger use = MemoryOf(Model(), m);
  EXPECT_NEAR(static_cast<double>(use.weights.count()),
              2.0 * static_cast<double>(of_all.weights.count()), 2);
  EXPECT_NEAR(static_cast<double>(use.optimizer.count()),
              2.0 * static_cast<double>(of_all.optimizer.count()), 2);
}

// 8 experts of 8 h^2 + 5 h weights on 4-way expert parallelism, within each of the two nodes: a
// device has 2, and of 4 devices that have the same ones 2 are in its node, 4 apart. These divide
// the experts' weights: half of two experts' is gathered at 100 GB/s in one step. The gradient is
// scattered likewise, and its half reduced with the other node's by one NIC: twice half of it and
// two steps outside.
TEST(ShardGroupsTest, ExpertsAreDividedWithinNodes) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  m.expert = 4;
  const MemoryLedger of_all = MemoryOf(Model(8), m);
  m.hybrid = 8;
  EXPECT_EQ(m.expert_shards(), 2);
  const PassTimes hybrid = Times(Model(8), m);
  const double bytes = 2 * 2 * (8 * kH2 + 5 * 1024);
  EXPECT_EQ(hybrid.expert_weight_bytes, Bytes(static_cast<int64_t>(bytes)));
  EXPECT_NEAR(hybrid.forward_gather.experts.us(), bytes / 2 / 100e9 * 1e6 + 2, 1e-3);
  EXPECT_NEAR(hybrid.expert_gradient.time.us(), bytes / 2 / 100e9 * 1e6 + 2, 1e-3);
  EXPECT_NEAR(hybrid.expert_gradient.copies.us(), bytes / 2 / 10e9 * 1e6 + 2 * 10, 1e-3);
  // Dense weights go by the 8 of a node, experts by 2; without groups by 16 and 4.
  const MemoryLedger use = MemoryOf(Model(8), m);
  EXPECT_NEAR(static_cast<double>(use.weights.count()),
              2.0 * static_cast<double>(of_all.weights.count()), 2);
  EXPECT_NEAR(static_cast<double>(use.optimizer.count()),
              2.0 * static_cast<double>(of_all.optimizer.count()), 2);
  // Each device of a node has experts of its own: what nothing divides is not gathered, and its
  // gradients, of one expert, are reduced between the nodes alone.
  m.expert = 8;
  const PassTimes alone = Times(Model(8), m);
  EXPECT_EQ(alone.forward_gather.experts, SimTime());
  EXPECT_EQ(alone.expert_gradient.time, SimTime());
  EXPECT_NEAR(alone.expert_gradient.copies.us(), bytes / 2 / 10e9 * 1e6 + 2 * 10, 1e-3);
  EXPECT_EQ(MemoryOf(Model(8), m).weights, use.weights);
}

// Behind the backward pass, the shares go among the copies by NICs, beside the next layer's
// reduction within the node; where a group spans nodes both need the NICs, one after the other.
TEST(ShardGroupsTest, CopiesSumTheirSharesByOtherLinks) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  m.hybrid = 8;
  EXPECT_EQ(Times(Model(), m).reduce_behind, SimTime());
  m.overlap_gradients = true;
  const PassTimes inside = Times(Model(), m);
  EXPECT_EQ(inside.reduce_behind, inside.gradient.time);
  EXPECT_EQ(inside.copies_behind, inside.gradient.copies);
  EXPECT_GT(inside.copies_behind, SimTime());
  ClusterParameters small = Cluster();
  small.devices_per_node = 4;
  const PassTimes across = Times(Model(), m, small);
  EXPECT_EQ(across.reduce_behind, across.gradient.All());
  EXPECT_EQ(across.copies_behind, SimTime());
}

// DeepSpeed's MiCS: once an iteration, 4 layers' shares and those of the table, of 16-bit gradients
// of which each device has an eighth.
TEST(ShardGroupsTest, CopiesSumTheirSharesInTheEnd) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  m.hybrid = 8;
  ClusterParameters once = Cluster();
  once.reduces_copies_last = true;
  const PassTimes every = Times(Model(), m), last = Times(Model(), m, once);
  EXPECT_EQ(last.gradient.time, every.gradient.time);
  EXPECT_EQ(last.gradient.copies, SimTime());
  EXPECT_EQ(last.first_root.gradient.copies, SimTime());
  EXPECT_EQ(every.gradient_reduction, SimTime());
  const auto bytes = static_cast<double>(last.gradient_bytes.count());
  EXPECT_NEAR(bytes,
              (static_cast<double>(Model().layers * every.gradient.bytes.count()) +
               static_cast<double>(every.first_root.gradient.bytes.count())) /
                  8,
              8);
  EXPECT_NEAR(last.gradient_reduction.us(), bytes / 10e9 * 1e6 + 2 * 10, 1e-2);
}

// Optimizer states alone, of 16 replicas in each of two nodes: gradients are scattered in the node,
// reduced with the other node's, and the new weights gathered in the node.
TEST(ShardGroupsTest, StatesDividedWithinNodes) {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 1;
  const MemoryLedger of_all = MemoryOf(Model(), m);
  m.hybrid = 8;
  const PassTimes hybrid = Times(Model(), m);
  const double bytes = static_cast<double>(hybrid.gradient_bytes.count());
  const double inside = 7.0 / 8 * bytes / 100e9 * 1e6 + 7 * 2;
  EXPECT_NEAR(hybrid.gradient_reduction.us(), 2 * inside + bytes / 8 / 10e9 * 1e6 + 2 * 10, 1e-2);
  const MemoryLedger use = MemoryOf(Model(), m);
  EXPECT_EQ(use.weights, of_all.weights);
  EXPECT_EQ(use.gradients, of_all.gradients);
  EXPECT_NEAR(static_cast<double>(use.optimizer.count()),
              2.0 * static_cast<double>(of_all.optimizer.count()), 2);
}

}  // namespace
}  // namespace foretrace
