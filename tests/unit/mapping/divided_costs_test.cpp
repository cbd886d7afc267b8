#include <gtest/gtest.h>

#include <utility>

#include "simulator/mapping/measured_mappings.h"
#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Gathers and reductions take less than the passes that they run behind. Kernels that take 1.1
// times as long do 10/11 of their work meanwhile: an eleventh of them is added to the forward pass
// (gathers alone) and to the backward pass (both).
TEST(DividedCostsTest, KernelsBesideGathersTakeLonger) {
  ParallelMapping m = Mapping(1, 2);
  m.zero = 3;
  m.overlap_gradients = true;
  ClusterParameters p = GemmsAlone();
  const PassTimes alone = Times(Model(), m, p);
  p.overlap_slowdown = 0.1;
  const PassTimes beside = Times(Model(), m, p);
  EXPECT_NEAR((beside.layer_forward - alone.layer_forward).seconds(),
              alone.Gather(true).seconds() / 11, 1e-9);
  EXPECT_NEAR((beside.layer_backward - alone.layer_backward).seconds(),
              (alone.Gather(false) + alone.reduce_behind).seconds() / 11, 1e-9);
}

// Of 200 h words, more than a layer's weights: the embedding's gradient is scattered and its new
// weights gathered when nothing is left to hide it, but for a quarter of all exchanges of four
// layers, which is what ends the passes anyway. Of 2 h words that quarter is more.
TEST(DividedCostsTest, EmbeddingsAreExchangedLast) {
  ParallelMapping m = Mapping(1, 2);
  m.zero = 1;
  m.gradient_bytes = 2;
  const auto after_passes = [&](int64_t words) {
    TransformerConfig c = Model();
    c.dtype = DType::kBFloat16;
    c.vocabulary = words;
    m.overlap_gradients = false;
    const SimTime without = Times(c, m).optimizer;
    m.overlap_gradients = true;
    const PassTimes times = Times(c, m);
    return std::pair((times.optimizer - without).us(), times.gradient_reduction.us() / 4);
  };
  const auto [more, part] = after_passes(200 * 1024);
  const double table = 200 * 1024.0 * 1024 * 2;
  EXPECT_NEAR(more, 2 * (table / 2 / 100e9 * 1e6 + 2) - part, 1e-2);
  EXPECT_EQ(after_passes(2 * 1024).first, 0);
}

// Without prefetching a layer waits for its weights forward, and backward again; once more where it
// is recomputed.
TEST(DividedCostsTest, LayersWaitForTheirGathers) {
  ParallelMapping m = Mapping(1, 2);
  m.zero = 3;
  m.recompute = Recompute::kFull;
  ClusterParameters p = GemmsAlone();
  const PassTimes ahead = Times(Model(), m, p);
  p.gathers_ahead = false;
  const PassTimes waits = Times(Model(), m, p);
  EXPECT_EQ(waits.Gather(true), SimTime());
  EXPECT_EQ(waits.layer_forward, ahead.layer_forward + ahead.Gather(true));
  EXPECT_EQ(waits.layer_backward, ahead.layer_backward + ahead.Gather(true) + ahead.Gather(true));
  // A layer's weights are 12 h^2: all stay within twice as many, half within as many.
  const auto backward = [&](int64_t distance) {
    p.reuse_distance = distance;
    return (Times(Model(), m, p).layer_backward - ahead.layer_backward).us();
  };
  const auto layer = static_cast<int64_t>(12 * kH2);
  EXPECT_NEAR(backward(3 * layer), ahead.Gather(true).us(), 1e-3);
  EXPECT_NEAR(backward(layer), 1.5 * ahead.Gather(true).us(), 0.01 * ahead.Gather(true).us());
}

// Placeholders of a layer's 12 h^2 weights of GEMMs and of the output layer's 2,048 h, in two
// bytes, of all layers one; of 4 experts on 2 groups of devices one of the two that each has.
// Frozen weights have none.
TEST(DividedCostsTest, PlaceholdersOfGradients) {
  const auto more = [](TransformerConfig c, const ParallelMapping& m) {
    const Bytes without = MemoryOf(c, m).gradients;
    c.gradient_placeholders = true;
    return MemoryOf(c, m).gradients - without;
  };
  ParallelMapping m = Mapping(1, 2);
  EXPECT_EQ(more(Model(), m), Bytes(2 * static_cast<int64_t>(12 * kH2 + 2048 * 1024)));
  m.lora = 16;
  EXPECT_EQ(more(Model(), m), Bytes());
  m.lora = 0;
  m.expert = 2;
  ParallelMapping all = m;
  all.expert = 1;
  EXPECT_EQ(more(Model(4), m), more(Model(4), all));
}

// A table of 50 million tokens and 16 positions outweighs what a micro-batch keeps: at the end of
// its pass the table's gradient is there, in two bytes, and activations and logits are not; on the
// first of two stages those of the micro-batch in flight after it are.
TEST(DividedCostsTest, GradientOfTheEmbedding) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  c.tied = false;
  ParallelMapping m = Mapping(1, 1);
  m.global_batch = 8;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes());
  c.vocabulary = 50'000'000;
  c.loss = LossForm::kOverwritten;
  c.sequence = 16;
  const Bytes table(2 * (50'000'000LL + 16) * 1024);
  MemoryLedger use = MemoryOf(c, m);
  EXPECT_EQ(use.gathered, table);
  EXPECT_EQ(use.activations, Bytes());
  EXPECT_EQ(use.logits, Bytes());
  m.pipeline = 2;
  use = StageMemoryOf(c, m, 0);
  EXPECT_EQ(use.gathered, table);
  EXPECT_GT(use.activations, Bytes());
  EXPECT_EQ(StageMemoryOf(c, m, 1).gathered, Bytes());
  m.lora = 8;
  EXPECT_EQ(StageMemoryOf(c, m, 0).gathered, Bytes());
}

// Both copies of a shared table of 2,048 h, in two bytes, are reduced by neighbours: once its bytes
// at 100 GB/s and 20 us, after everything else. Frozen weights, and tables of their own, are not.
TEST(DividedCostsTest, TablesThatEndsShare) {
  ParallelMapping m = Mapping(1, 1);
  m.pipeline = 2;
  const PassTimes times = Times(Model(), m);
  EXPECT_EQ(times.tied_bytes, Bytes(2048 * 1024 * 2));
  EXPECT_NEAR(times.tied_reduction.us(), 2048 * 1024 * 2 / 100e3 + 20, 1e-3);
  const auto estimate = EstimateIteration(Model(), m, Cluster());
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->time, estimate->pipeline + times.tied_reduction + times.optimizer);
  TransformerConfig own = Model();
  own.tied = false;
  EXPECT_EQ(Times(own, m).tied_reduction, SimTime());
  m.lora = 16;
  EXPECT_EQ(Times(Model(), m).tied_reduction, SimTime());
  EXPECT_EQ(Times(Model(), Mapping(1, 2)).tied_reduction, SimTime());
}

// Two replicas of two stages in bfloat16 reduce gradients whole, but in 16 bits: half of their
// bytes once at 100 GB/s and 20 us, instead of half of them in 32 bits and 2 us.
TEST(DividedCostsTest, WholeReductionsOfStages) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ParallelMapping m = Mapping(1, 2);
  m.pipeline = 2;
  m.zero = 1;
  ClusterParameters p = Cluster();
  const PassTimes scattered = Times(c, m, p);
  p.whole_reductions = true;
  const PassTimes whole = Times(c, m, p);
  EXPECT_EQ(whole.gradient_bytes.count(), scattered.gradient_bytes.count() / 2);
  EXPECT_NEAR((whole.gradient_reduction - scattered.gradient_reduction).us(), 18, 1e-3);
  c.dtype = DType::kFloat16;
  EXPECT_EQ(Times(c, m, p).gradient_reduction, Times(c, m, Cluster()).gradient_reduction);
}

// Two replicas of 8 sequences of 1,024 tokens: a millisecond a token is 4,096 ms of 4 sequences
// each, beside all else; a nanosecond is hidden.
TEST(DividedCostsTest, BatchesThatAreMadeMeanwhile) {
  ParallelMapping m = Mapping(1, 2);
  m.global_batch = 8;
  ClusterParameters p = Cluster();
  const auto estimate = [&](SimTime token) {
    p.token_preparation = token;
    const auto made = EstimateIteration(Model(), m, p);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : IterationEstimate();
  };
  EXPECT_EQ(estimate(SimTime::FromUs(1000)).time, SimTime::FromUs(4096e3));
  EXPECT_EQ(estimate(SimTime::FromUs(1e-3)).loading, SimTime::FromUs(4096e-3));
  EXPECT_EQ(estimate(SimTime::FromUs(1e-3)).time, estimate(SimTime()).time);
}

// Of the logits' elements: 4 bytes kept and 2 beside them; the gradient over the logits; two
// gradients of 4 beside; the logits and their gradient in two bytes.
TEST(DividedCostsTest, LogitsByTheLossesForm) {
  TransformerConfig c = Model();
  const ParallelMapping m = Mapping(1, 1);
  const double logits = 1024.0 * 2048;
  const std::pair<LossForm, std::pair<double, double>> forms[] = {
      {LossForm::kInPlace, {4, 2}},
      {LossForm::kCompiledInPlace, {4, 2}},
      {LossForm::kOverwritten, {2, 0}},
      {LossForm::kStepwise, {4, 8}},
      {LossForm::kFused, {2, 2}}};
  for (const auto& [form, bytes] : forms) {
    c.loss = form;
    const LogitMemory memory = LogitMemoryOf(c, m);
    EXPECT_EQ(memory.kept, bytes.first * logits);
    EXPECT_EQ(memory.passing, bytes.second * logits);
  }
  // Of a divided vocabulary each rank has half, and three gradients of 4 bytes.
  c.loss = LossForm::kStepwise;
  EXPECT_EQ(LogitMemoryOf(c, Mapping(2, 1)).passing, 12 * logits / 2);
}

// Links of a newer platform than an A100's: runs measured at 40 GB/s a NIC where the data
// sheet says 48 are found to have 40, and no fit leaves what the platform can be.
TEST(FitClusterTest, LinksAreBoundedByThePlatformsOwn) {
  ClusterParameters start = Cluster(), truth = start;
  start.exchanges = Exchanges({.node_gbps = 422, .gather_gbps = 422, .nic_gbps = 48});
  const auto fitted = [&](double nic) {
    truth.exchanges = Exchanges({.node_gbps = 422, .gather_gbps = 422, .nic_gbps = nic});
    MeasuredMapping row;
    row.model = Model();
    row.mapping = Mapping(8, 4);
    row.measured = EstimateIteration(row.model, row.mapping, truth)->time;
    const auto found = FitCluster({row}, start, {ClusterParameter::kNicShare});
    return found.ok() ? 48 * found->nic_share : 0;
  };
  EXPECT_NEAR(fitted(40), 40, 1);
  EXPECT_NEAR(fitted(10), 48 / 1.4, 0.01);
}

TEST(DividedCostsTest, RingOverReplicasIsCappedByTheLinksOfANode) {
  // 16 replicas on two nodes of 8: eight NICs carry 80 GB/s, less than the 100 of the links.
  // A ring pass of L bytes takes 15/16 L / 80 GB/s, 14 steps inside and one outside. ZeRO 3 gathers
  // a layer's weights of two bytes: 12 h^2 and 7 h of biases, which tensor parallelism divides, 2 h
  // of biases and 4 h of norms, which it does not.
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  const double h = 1024, divided = 2 * (12 * kH2 + 7 * h), whole = 2 * 6 * h;
  const double bytes = divided + whole;
  EXPECT_NEAR(Times(Model(), m).forward_gather.dense.us(),
              15.0 / 16 * bytes / 80e9 * 1e6 + 14 * 2 + 1 * 10, 1e-3);
  // With 50 GB/s a NIC the links are what limits.
  ClusterParameters p = Cluster();
  p.exchanges = Exchanges({.nic_gbps = 50});
  EXPECT_NEAR(Times(Model(), m, p).forward_gather.dense.us(),
              15.0 / 16 * bytes / 100e9 * 1e6 + 14 * 2 + 1 * 10, 1e-3);
  // With 8-way tensor parallelism each of 8 rings has one NIC and one member a node.
  m.tensor = 8;
  EXPECT_NEAR(Times(Model(), m, p).forward_gather.dense.us(),
              15.0 / 16 * (divided / 8 + whole) / 50e9 * 1e6 + 15 * 10, 1e-3);
  // Within one node: links, steps inside.
  m = Mapping(2, 4);
  m.zero = 2;
  EXPECT_NEAR(Times(Model(), m).gradient.time.us(),
              3.0 / 4 * (divided / 2 + whole) / 100e9 * 1e6 + 3 * 2, 1e-3);
}

TEST(DividedCostsTest, ZeroCoversExperts) {
  // 8 experts of 8 h^2 weights and 5 h biases, two to each of 4 expert-parallel ranks; 16 replicas,
  // so 4 hold the same experts, 4 apart: two in each of two nodes. ZeRO 3 gathers 16 h^2 + 10 h of
  // two bytes over them at 2 x 10 GB/s, in 2 steps inside and one outside.
  ParallelMapping m = Mapping(1, 16);
  m.expert = 4;
  m.zero = 3;
  const PassTimes times = Times(Model(8), m);
  const double expert = (16 * kH2 + 10 * 1024) * 2,
               pass = 3.0 / 4 * expert / 20e9 * 1e6 + 2 * 2 + 10;
  EXPECT_EQ(times.expert_weight_bytes, Bytes(static_cast<int64_t>(expert)));
  EXPECT_NEAR(times.forward_gather.experts.us(), pass, 1e-3);
  EXPECT_NEAR(times.expert_gradient.time.us(), pass, 1e-3);
  EXPECT_TRUE(times.expert_gradient.waited);
  EXPECT_EQ(times.expert_reduction, SimTime());
  // The dense part: 4 h^2 of attention with 4 h of biases, 4 h of norms, 8 h of the router.
  EXPECT_EQ(times.weight_bytes, Bytes(static_cast<int64_t>((4 * kH2 + 16 * 1024) * 2)));
  // ZeRO 2 reduces by layer, and gathers all weights once at the end; ZeRO 1 does both at the end.
  m.zero = 2;
  const PassTimes two = Times(Model(8), m);
  EXPECT_EQ(two.forward_gather.experts, SimTime());
  EXPECT_NEAR(two.expert_gradient.time.us(), pass, 1e-3);
  const double all = 3.0 / 4 * 4 * expert / 20e9 * 1e6 + 2 * 2 + 10;  // of 4 layers
  EXPECT_NEAR(two.expert_reduction.us(), all, 1e-3);
  m.zero = 1;
  EXPECT_NEAR(Times(Model(8), m).expert_reduction.us(), 2 * all, 1e-3);
}

// ZeRO 3 in bfloat16 holds two layers' weights, one layer's gradients in 2 bytes and in the 4 that
// they are reduced in, both forms of the output layer's gradient and the weights outside of layers:
// 10 bytes for each of 12 h^2 + 13 h weights, 6 for each of 2,048 h + 2 h (with the final norm), 2
// for each of 3,072 h of the embedding, and of the output layer's where it has its own. Copied out
// of a buffer, a layer's weights stay there too. Adapters leave weights alone: 4 and 2 bytes.
TEST(DividedCostsTest, MemoryOfWhatIsGathered) {
  TransformerConfig c = Model();
  c.dtype = DType::kBFloat16;
  ParallelMapping m = Mapping(1, 8);
  m.zero = 3;
  const int64_t h = 1024, layer = 12 * h * h + 13 * h, head = 2050 * h, embedding = 3072 * h;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes(10 * layer + 6 * head + 2 * embedding));
  c.copies_gathered = true;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes(12 * layer + 6 * head + 2 * embedding));
  c.copies_gathered = false;
  c.tied = false;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes(10 * layer + 8 * head + 2 * embedding));
  c.tied = true;
  m.lora = 16;
  EXPECT_EQ(MemoryOf(c, m).gathered, Bytes(4 * layer + 2 * embedding));
  // Optimizer state is of the adapters: 16 (h + 3 h) elements a layer, divided over 8 replicas.
  EXPECT_EQ(MemoryOf(c, m).optimizer, Bytes(12 * 4 * 64 * h / 8));
}

// Mixed precision: the norm reads 4 bytes a parameter, clipping 4 + 4, Adam reads four and writes
// three values of 4 bytes, the cast 4 + 2, and 2 are cleared: 48 in all. ZeRO divides all but the
// clearing. In bfloat16 gradients have 4 bytes.
TEST(DividedCostsTest, OptimizerMovesItsStates) {
  ClusterParameters p = Cluster();
  p.peak_memory = Bandwidth::GBps(1000);
  p.memory_efficiency = 1;
  TransformerConfig c = Model();
  const double h = 1024, n = 4 * (12 * kH2 + 13 * h) + 2048 * h + 1024 * h;
  ParallelMapping m = Mapping(1, 4);
  EXPECT_NEAR(Times(c, m, p).optimizer.us(), 48 * n / 1e6, 1);
  m.zero = 1;
  EXPECT_NEAR(Times(c, m, p).optimizer.us(), (46 * n / 4 + 2 * n) / 1e6, 1);
  c.dtype = DType::kBFloat16;
  EXPECT_NEAR(Times(c, m, p).optimizer.us(), (46 * n / 4 + 4 * n) / 1e6, 1);
  EXPECT_EQ(Times(c, m, p).gradient_bytes, Bytes(static_cast<int64_t>(4 * n)));
  m.gradient_bytes = 2;
  EXPECT_EQ(Times(c, m, p).gradient_bytes, Bytes(static_cast<int64_t>(2 * n)));
}

// Experts of a 2-way tensor-parallel job, divided or whole: a device's share of the FLOP and its
// weights are the same with half or a whole expert's width and twice as many devices to hold them.
// Whole experts need no reduction of their routed tokens, of which divided ones gather and scatter
// all at once, top_k = 2 for each token. Backward what is gathered is gathered again: of attention
// a gathering, again and a scattering, one and a half reductions.
TEST(DividedCostsTest, WholeExperts) {
  TransformerConfig c = Model(4);
  c.biases = false;
  ParallelMapping m = Mapping(2, 2);
  m.sequence_parallel = true;
  m.expert = 2;
  ParallelMapping whole = m;
  whole.expert_tensor = 1;
  whole.expert = 4;
  const PassTimes divided = Times(c, m, GemmsAlone()), own = Times(c, whole, GemmsAlone());
  EXPECT_EQ(Reductions(divided, true), 2);
  EXPECT_EQ(Reductions(own, true), 1);
  EXPECT_EQ(divided.layer_exchanges.forward.back().bytes,
            divided.layer_exchanges.forward.front().bytes * 2);
  m.overlap_tensor = whole.overlap_tensor = false;
  EXPECT_EQ(Reductions(Times(c, m, GemmsAlone()), false), 3);
  EXPECT_EQ(Reductions(Times(c, whole, GemmsAlone()), false), 1.5);
  const SimTime kernels = divided.layer_forward - divided.Exchanges(true);
  EXPECT_NEAR((own.layer_forward - own.Exchanges(true)).seconds() / kernels.seconds(), 1, 1e-6);
  EXPECT_EQ(divided.expert_gradient_bytes, own.expert_gradient_bytes);
  EXPECT_EQ(MemoryOf(c, m).weights, MemoryOf(c, whole).weights);
}

}  // namespace
}  // namespace foretrace
