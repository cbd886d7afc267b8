// The joint optimum: bounds pass over nothing that is better; and what a mapping costs beside its
// partitions, by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

System Machine(Execution execution, std::vector<int64_t> sizes) {
  System s;
  s.name = "machine";
  s.chip = {"chip", 256, 16, 16, 1.5, Bytes(48'000'000), execution, 0, 0, 0};
  s.memory = {"hbm", Bandwidth::GBps(900), Bytes(60'000'000'000), 0, 0};
  for (const int64_t size : sizes) {
    s.dimensions.push_back(
        {{NetworkKind::kRing, size, Bandwidth::GBps(s.dimensions.empty() ? 200 : 25), false},
         {},
         Role::kCount});
  }
  return s;
}

Workload Gpt(bool train) { return MakeTransformer({2048, 16, 128, 1024, 16, 64, train}); }

// Every use of the dimensions, micro-batch and number of tiles asked for on its own: the least of
// them is what one search over all finds.
TEST(Joint, EqualsTheLeastOfAllCandidates) {
  for (const Execution execution : {Execution::kDataflow, Execution::kKernelByKernel}) {
    for (const double utilisation : {0.9, 0.0}) {
      const Workload workload = MakeTransformer({2048, 16, 128, 16, 16, 4, utilisation > 0});
      const System system = Machine(execution, {4, 2});
      Formulas formulas;
      formulas.compute_utilisation = utilisation;
      const auto joint = Optimise(workload, system, formulas, {});
      ASSERT_TRUE(joint.ok()) << joint.status();
      double least = std::numeric_limits<double>::infinity();
      int found = 0;
      for (int code = 0; code < 9; ++code) {
        System pinned = system;
        int rest = code;
        for (SystemDimension& d : pinned.dimensions)
          d.role = static_cast<Role>(rest % 3), rest /= 3;
        for (double micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
          for (int64_t size = 1; size <= 16; size *= utilisation > 0 ? 16 : 2) {
            SearchLimits limits;
            limits.micro_batch = micro_batch;
            limits.tiles = 16 / size;
            const double samples = workload.batch / static_cast<double>(pinned.degree(Role::kData));
            if (std::fmod(samples, micro_batch) != 0) continue;
            const auto one = Optimise(workload, pinned, formulas, limits);
            if (!one.ok()) continue;
            ++found;
            least = std::min(least, one->time.total.ns());
          }
        }
      }
      EXPECT_GT(found, 10);
      EXPECT_NEAR(joint->time.total.ns(), least, 1e-9 * least)
          << Name(execution) << " " << utilisation;
    }
  }
}

// What the optimiser finds is what evaluating its mapping gives.
TEST(Joint, EvaluatesToTheSame) {
  const Workload workload = Gpt(true);
  for (const Execution execution : {Execution::kDataflow, Execution::kKernelByKernel}) {
    const System system = Machine(execution, {4, 4, 2});
    const auto best = Optimise(workload, system, {}, {});
    ASSERT_TRUE(best.ok()) << best.status();
    const auto again = Evaluate(workload, system, {}, best->mapping);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_NEAR(again->time.total.ns(), best->time.total.ns(), 1e-9 * best->time.total.ns());
    EXPECT_EQ(again->dram, best->dram);
  }
}

// 2 stages of 8 layers, 16 micro-batches of 4: 17 times a stage's work, and one transfer each way:
// 2048 x 1024 x 2 B x 4 / 25 = 671,088.64 ns.
TEST(Iteration, PipelineOfMicroBatches) {
  const Workload workload = Gpt(true);
  System system = Machine(Execution::kDataflow, {4, 2});
  system.dimensions[0].role = Role::kTensor;
  system.dimensions[1].role = Role::kPipeline;
  SearchLimits limits;
  limits.micro_batch = 4;
  const auto r = Optimise(workload, system, {}, limits);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->layers_per_stage, 8);
  EXPECT_EQ(r->micro_batches, 16);
  EXPECT_NEAR(r->time.stage.ns(), 8 * r->time.pass.ns(), 1e-3);
  EXPECT_NEAR(r->time.bubble.ns(), r->time.stage.ns(), 1e-3);
  EXPECT_NEAR(r->time.transfer.ns(), 2 * 671088.64, 1e-3);
  // Adam: 12 h^2 parameters a layer, 8 layers, over 4 chips, 28 bytes each at 900 B/ns.
  const double parameters = 12.0 * 2048 * 2048 * 8 / 4;
  EXPECT_NEAR(r->time.optimizer.ns(), parameters * 28 / 900, 1e-3);
  EXPECT_NEAR(r->time.total.ns(),
              17 * r->time.stage.ns() + r->time.transfer.ns() + r->time.optimizer.ns(), 1);
  // GEMMs: 72 h^2 s and 12 h s^2 operations a layer and sample, forward and twice backward.
  const double h = 2048, s = 1024;
  EXPECT_NEAR(workload.flop().count(), 72 * h * h * s + 12 * h * s * s,
              0.01 * workload.flop().count());
}

// An all-to-all of S on a 32 x 32 torus: half of 1,024 S crosses the middle of 32 rings, which each
// have 2 links in 2 directions there: 4 S / B. Published: one direction, 8 S / B.
TEST(Collectives, AllToAllByCuts) {
  const std::vector<NetworkDimension> torus = {
      {NetworkKind::kRing, 32, Bandwidth::GBps(50), false},
      {NetworkKind::kRing, 32, Bandwidth::GBps(50), false}};
  EXPECT_DOUBLE_EQ(AllToAllTime(AllToAllFormula::kPhysical, torus, RealBytes(1e6)).ns(), 4e6 / 50);
  EXPECT_DOUBLE_EQ(AllToAllTime(AllToAllFormula::kDse, torus, RealBytes(1e6)).ns(), 8e6 / 50);
  // 16 chips on a switch: a chip sends 15/16 of S over its link.
  const std::vector<NetworkDimension> one = {
      {NetworkKind::kSwitch, 16, Bandwidth::GBps(50), false}};
  EXPECT_DOUBLE_EQ(AllToAllTime(AllToAllFormula::kPhysical, one, RealBytes(1e6)).ns(),
                   1e6 * 15 / 16 / 50);
}

TEST(Collectives, AllReduceFormulas) {
  const NetworkDimension ring = {NetworkKind::kRing, 8, Bandwidth::GBps(50), false},
                         direct = {NetworkKind::kFullyConnected, 8, Bandwidth::GBps(50), false};
  const double s = 1e6, share = s * 7 / 8 / 50;
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kDse, ring, RealBytes(s)).ns(), 2 * share);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kEarly, ring, RealBytes(s)).ns(), share);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kLatest, ring, RealBytes(s)).ns(), share);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kPaper, direct, RealBytes(s)).ns(), 2 * share);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kEarly, direct, RealBytes(s)).ns(),
                   2 * s / 8 / 50);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kDse, direct, RealBytes(s)).ns(),
                   2 * s / 8 / 50);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kLatest, direct, RealBytes(s)).ns(), s / 8 / 50);
  // Domains of 2 with links of 900 among 8 chips with 50: 1/2 of S fast, then (8/2 - 1) / 8 slow.
  const TensorGroup domains = {{{NetworkKind::kRing, 2, Bandwidth::GBps(900), false},
                                {NetworkKind::kRing, 4, Bandwidth::GBps(50), false}},
                               AllReduceFormula::kLatest,
                               AllToAllFormula::kPhysical};
  EXPECT_DOUBLE_EQ(AllReduceTime(domains, RealBytes(s)).ns(), s / 2 / 900 + s * 3 / 8 / 50);
}

// Around a ring of 8 a message of each phase passes 7 links, through a switch one; halfway around
// is 4. Each sample of a micro-batch has its share of the latency.
TEST(Collectives, LatencyOfLinks) {
  NetworkDimension ring = {NetworkKind::kRing, 8, Bandwidth::GBps(50), false, SimTime::FromNs(100)};
  NetworkDimension through = {NetworkKind::kSwitch, 8, Bandwidth::GBps(50), false,
                              SimTime::FromNs(100)};
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kPhysical, ring, RealBytes(800)).ns(),
                   2 * 800 * 7. / 8 / 50 + 1400);
  EXPECT_DOUBLE_EQ(AllReduceTime(AllReduceFormula::kPhysical, through, RealBytes(800)).ns(),
                   2 * 800 * 7. / 8 / 50 + 200);
  EXPECT_DOUBLE_EQ(AllGatherTime(ring, RealBytes(800)).ns(), 800 * 7. / 8 / 50 + 700);
  EXPECT_DOUBLE_EQ(
      AllToAllTime(AllToAllFormula::kPhysical, std::span(&ring, 1), RealBytes(800)).ns(),
      800 * 4. / 4 / 50 + 400);
  TensorGroup group = {{ring}, AllReduceFormula::kPhysical, AllToAllFormula::kPhysical};
  EXPECT_FALSE(group.linear());
  group.samples = 4;
  EXPECT_DOUBLE_EQ(AllReduceTime(group, RealBytes(800)).ns(), 2 * 800 * 7. / 8 / 50 + 1400. / 4);
}

// 1,024 chips as an 8 x 128 torus: 1,024 links and 2 ports a ring in either dimension.
TEST(Bills, Torus) {
  System s = Machine(Execution::kDataflow, {8, 128});
  s.chip.price_usd = 100;
  s.memory.usd_per_gbps = 1;
  s.switch_usd_per_gbps = 24;
  for (SystemDimension& d : s.dimensions)
    d.network.bandwidth = Bandwidth::GBps(50), d.link.usd_per_gbps = 2;
  const Bill bill = PriceUsd(s);
  EXPECT_EQ(bill.chips, 102400);
  EXPECT_EQ(bill.memory, 1024 * 900.0);
  EXPECT_EQ(bill.links, 2 * 1024 * 50 * 2);
  EXPECT_EQ(bill.switches, (256 + 16) * 50 * 24);
}

}  // namespace
}  // namespace foretrace::dataflow
