// Interleaved stages, divided optimizers and recomputation of attention alone.
#include <gtest/gtest.h>

#include "simulator/dataflow/mapping.h"
#include "simulator/dataflow/workloads.h"

namespace foretrace::dataflow {
namespace {

constexpr double kLink = 25;  // GB/s

System FourStages(Execution execution) {
  System s;
  s.name = "four stages";
  s.chip = {"chip", 512, 16, 16, 1.5, Bytes(64'000'000), execution, 0, 0, 0};
  s.memory = {"hbm", Bandwidth::GBps(1000), Bytes(96'000'000'000), 0, 0};
  const auto dimension = [](int64_t size, Role role) {
    return SystemDimension{{NetworkKind::kSwitch, size, Bandwidth::GBps(kLink), false}, {}, role};
  };
  s.dimensions = {dimension(2, Role::kTensor), dimension(4, Role::kPipeline),
                  dimension(2, Role::kData)};
  return s;
}

TransformerSizes Gpt() { return {2048, 16, 128, 1024, 24, 32, true}; }

SearchLimits With(TrainingScheme scheme, std::optional<Recompute> recompute = Recompute::kNone) {
  SearchLimits limits;
  limits.micro_batch = 1;
  limits.megatron = SearchLimits::Megatron::kTensor;
  limits.recompute = recompute;
  limits.scheme = scheme;
  return limits;
}

MappedWorkload Map(const SearchLimits& limits, const TransformerSizes& sizes = Gpt(),
                   Execution execution = Execution::kDataflow) {
  const auto mapped = Optimise(MakeTransformer(sizes), FourStages(execution), {}, limits);
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  return mapped.ok() ? *mapped : MappedWorkload();
}

TEST(Scheme, InterleavingDividesTheBubble) {
  const MappedWorkload plain = Map(With({})), chunks = Map(With({3, 0, false}));
  EXPECT_NEAR(chunks.time.bubble.ns(), plain.time.bubble.ns() / 3, 1e-3);
  EXPECT_NEAR(chunks.time.pass.ns(), plain.time.pass.ns(), 1e-6);
  // Filled and drained through 12 places instead of 4.
  const double transfer = 2. * 2048 * 1024 / kLink;
  EXPECT_NEAR(chunks.time.transfer.ns() - plain.time.transfer.ns(), 2 * 8 * transfer, 1e-3);
  // Of 6 layers a stage, 7 micro-batches are kept; of its chunks of 2 layers 15.
  EXPECT_LT(chunks.dram.count(), plain.dram.count());
}

TEST(Scheme, DividedOptimizer) {
  const MappedWorkload whole = Map(With({})), divided = Map(With({1, 1, false}));
  EXPECT_NEAR(divided.time.optimizer.ns(), whole.time.optimizer.ns() / 2, 1e-6);
  EXPECT_NEAR(divided.time.gradient.ns(), whole.time.gradient.ns(), 1e-6);
  // Half of 12 bytes for each of 12 h^2 weights of 6 layers on two chips.
  EXPECT_NEAR(whole.dram.count() - divided.dram.count(), 6. * 6 * 12 * 2048 * 2048 / 2, 1);
}

// All but a layer's own, where layers take longer than their reductions.
TEST(Scheme, ReductionsBehindLayers) {
  const MappedWorkload plain = Map(With({})), behind = Map(With({1, 0, true}));
  EXPECT_LT(behind.time.gradient.ns(), plain.time.gradient.ns());
  EXPECT_GE(behind.time.gradient.ns(), plain.time.gradient.ns() / 6 - 1e-6);
  TransformerSizes long_layers = Gpt();
  long_layers.sequence = 16384;
  const MappedWorkload hidden = Map(With({1, 0, true}, Recompute::kFull), long_layers),
                       bare = Map(With({}, Recompute::kFull), long_layers);
  EXPECT_NEAR(hidden.time.gradient.ns(), bare.time.gradient.ns() / 6, 1e-3);
}

TEST(Scheme, AttentionAloneRunsAgain) {
  for (const Execution execution : {Execution::kDataflow, Execution::kKernelByKernel}) {
    const MappedWorkload none = Map(With({}), Gpt(), execution),
                         part = Map(With({}, Recompute::kSelective), Gpt(), execution),
                         full = Map(With({}, Recompute::kFull), Gpt(), execution);
    EXPECT_LT(none.time.pass.ns(), part.time.pass.ns());
    EXPECT_LT(part.time.pass.ns(), full.time.pass.ns());
    EXPECT_GT(none.dram.count(), part.dram.count());
    EXPECT_GT(part.dram.count(), full.dram.count());
  }
  // Kernel by kernel: scores, softmax, dropout and context.
  const MappedWorkload part =
      Map(With({}, Recompute::kSelective), Gpt(), Execution::kKernelByKernel);
  ASSERT_EQ(part.repeated.size(), 4U);
  double again = 0;
  for (const Partition& p : part.repeated) again += p.time.ns();
  EXPECT_NEAR(part.time.pass.ns(), part.partitioning.time.ns() + again, 1e-6);
}

TEST(Scheme, FusedAttentionKeepsScoresOnTheChip) {
  TransformerSizes fused = Gpt();
  fused.fused_attention = true;
  const Workload w = MakeTransformer(fused), apart = MakeTransformer(Gpt());
  EXPECT_EQ(w.kernels.size() + 8, apart.kernels.size());
  const auto flop = [](const Workload& of, Direction pass) {
    double sum = 0;
    for (const Kernel& k : of.kernels) {
      if (k.pass == pass && k.kind == NestKind::kGemm && !k.weight_gradient)
        sum += k.flop(k.size).count();
    }
    return sum;
  };
  EXPECT_EQ(flop(w, Direction::kForward), flop(apart, Direction::kForward));
  // The scores once more.
  EXPECT_EQ(flop(w, Direction::kBackward), flop(apart, Direction::kBackward) * 5 / 4);
  const MappedWorkload one = Map(With({}), fused, Execution::kKernelByKernel),
                       four = Map(With({}), Gpt(), Execution::kKernelByKernel);
  EXPECT_LT(one.dram_traffic().count(), four.dram_traffic().count());
  EXPECT_LT(one.time.total.ns(), four.time.total.ns());
}

// Every micro-batch waits for the last stage's.
TEST(Scheme, OutputLayer) {
  TransformerSizes with = Gpt();
  with.vocabulary = 50'000;
  const MappedWorkload without = Map(With({})), head = Map(With({}), with);
  EXPECT_GT(head.time.head.ns(), 0);
  const double more = head.time.gradient.ns() - without.time.gradient.ns() +
                      head.time.optimizer.ns() - without.time.optimizer.ns();
  EXPECT_NEAR(head.time.total.ns(), without.time.total.ns() + head.time.head.ns() + more, 1e-3);
  // Three GEMMs of 2 x vocabulary x hidden x sequence on two chips, 16 micro-batches, at 90 %.
  const double gemms = 3. * 2 * 50'000 * 2048 * 1024 / 2 * 16 / (0.9 * 512 * 16 * 16 * 2 * 1.5);
  EXPECT_GT(head.time.head.ns(), gemms);
}

TEST(Scheme, WhatDoesNotDivideIsSaid) {
  const Workload w = MakeTransformer(Gpt());
  const System system = FourStages(Execution::kDataflow);
  const auto message = [&](const Workload& of, TrainingScheme scheme) {
    return std::string(Optimise(of, system, {}, With(scheme)).status().message());
  };
  EXPECT_NE(message(w, {5, 0, false}).find("with 5 chunks a stage"), std::string::npos);
  EXPECT_NE(message(ForwardOf(w), {2, 0, false}).find("does not train"), std::string::npos);
  Mapping mapping = Map(With({})).mapping;
  mapping.scheme.chunks = 5;
  EXPECT_NE(std::string(Evaluate(w, system, {}, mapping).status().message())
                .find("4 stages of 5 chunks do not divide 24 layers"),
            std::string::npos);
  mapping.scheme.chunks = 3;
  Workload odd = w;
  odd.batch = 36;  // 18 micro-batches
  EXPECT_NE(std::string(Evaluate(odd, system, {}, mapping).status().message())
                .find("18 micro-batches do not divide into groups of 4 stages"),
            std::string::npos);
}

}  // namespace
}  // namespace foretrace::dataflow
