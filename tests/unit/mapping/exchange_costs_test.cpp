#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Under sequence parallelism a gathering and a scattering, each of which waits for kernels and is
// waited for; otherwise one all-reduce.
TEST(ExchangeCostsTest, CollectivesWaitAcrossStreams) {
  ClusterParameters p = GemmsAlone();
  ParallelMapping m = Mapping(2, 1);
  const SimTime reduced = Reduction(m, Model(), p);
  p.stream_wait = SimTime::FromUs(3);
  EXPECT_EQ(Reduction(m, Model(), p) - reduced, SimTime::FromUs(6));
  m.sequence_parallel = true;
  const SimTime with = Reduction(m, Model(), p);
  p.stream_wait = SimTime();
  EXPECT_EQ(with - Reduction(m, Model(), p), SimTime::FromUs(12));
}

// Stages that wait for their messages have them in their passes: what each sends on, forward all
// but the last, backward all but the first.
TEST(ExchangeCostsTest, BlockingTransfersHoldTheirStages) {
  ParallelMapping m = Mapping(1, 1);
  m.pipeline = 2;
  m.global_batch = 4;
  ClusterParameters p = GemmsAlone();
  const PassTimes free = Times(Model(), m, p);
  p.blocking_transfers = true;
  const PassTimes held = Times(Model(), m, p);
  // 1,024 tokens of 1,024 activations of 2 bytes over 10 GB/s.
  EXPECT_NEAR(held.transfer.seconds(), 2 * kH2 / 10e9, 1e-9);
  const auto before = PipelineOf(Model(), m, free), after = PipelineOf(Model(), m, held);
  ASSERT_TRUE(before.ok() && after.ok());
  const auto more = [&](size_t stage, bool forward) {
    const TimedStage &a = after->stages[stage], &b = before->stages[stage];
    return forward ? a.forward[0] - b.forward[0] : a.backward[0] - b.backward[0];
  };
  EXPECT_EQ(more(0, true), held.transfer);
  EXPECT_EQ(more(0, false), SimTime());
  EXPECT_EQ(more(1, true), SimTime());
  EXPECT_EQ(more(1, false), held.transfer);
  EXPECT_EQ(before->edges[0].forward_transfer, held.transfer);
  EXPECT_EQ(after->edges[0].forward_transfer, SimTime());
}

// Of two tensor-parallel ranks each sends its half, and the gradient's, which are gathered. Where
// messages of both ways follow each other they take twice as long, and with the gradient what the
// stage sent on is gathered again; whole gradients are gathered by nobody.
TEST(ExchangeCostsTest, MessagesInTurn) {
  ParallelMapping m = Mapping(2, 1);
  m.pipeline = 2;
  m.global_batch = 4;
  ClusterParameters p = GemmsAlone();
  p.blocking_transfers = true;
  p.stream_wait = SimTime();
  const PassTimes once = Times(Model(), m, p);
  EXPECT_EQ(once.gradient_transfer, once.transfer);
  const double half = kH2 / 10e9, gathered = once.transfer.seconds() - half;
  EXPECT_GT(gathered, 0);
  p.transfers_in_turn = true;
  const PassTimes turns = Times(Model(), m, p);
  EXPECT_NEAR(turns.transfer.seconds(), 2 * half + gathered, 1e-9);
  EXPECT_NEAR(turns.gradient_transfer.seconds(), 2 * half + 2 * gathered, 1e-9);
  p.whole_gradient_messages = true;
  const PassTimes whole = Times(Model(), m, p);
  EXPECT_EQ(whole.transfer, turns.transfer);
  EXPECT_NEAR(whole.gradient_transfer.seconds(), 4 * half + gathered, 1e-9);
  const auto pipeline = PipelineOf(Model(), m, whole);
  ASSERT_TRUE(pipeline.ok());
  const auto backward = PipelineOf(Model(), m, turns);
  ASSERT_TRUE(backward.ok());
  EXPECT_EQ(pipeline->stages[1].backward[0] - backward->stages[1].backward[0],
            whole.gradient_transfer - turns.gradient_transfer);
}

// Two parts of 512 tokens: scores of 8 heads of 1,024 tokens are as many as gathered keys have.
// Queries, keys, values and results are 512 x 1,024 x 2 bytes each, one exchange after the other,
// and of each half leaves the device.
TEST(ExchangeCostsTest, HeadsAreExchangedForSequences) {
  TransformerConfig c = Model();
  c.fused_attention = true;
  ParallelMapping m = Mapping(1, 1);
  m.context = 2;
  ClusterParameters p = GemmsAlone();
  const PassTimes gathered = Times(c, m, p);
  m.ulysses = true;
  const PassTimes own = Times(c, m, p);
  EXPECT_NEAR((own.layer_forward - own.layer_exchanges.Sum(true)).seconds(),
              (gathered.layer_forward - gathered.layer_exchanges.Sum(true)).seconds(), 1e-7);
  p.exchanges = Exchanges({.gather_gbps = 1});
  for (const bool forward : {true, false}) {
    const PassExchanges::List of = Times(c, m, p).layer_exchanges.of(forward);
    ASSERT_EQ(of.size(), 1u);
    EXPECT_EQ(of[0].count, 4);
    EXPECT_EQ(of[0].bytes, Bytes(512 * 1024 * 2));
    EXPECT_NEAR(of[0].time.seconds(), 0.5 * 512 * 1024 * 2 / 1e9 + 20e-6, 1e-8);
  }
  // The memory alone, in units of queries: two copies of all four, 16; attention reads and writes
  // 4, with gathered keys and values 6, backward 8 and 12.
  c.dtype = DType::kBFloat16;
  p = Cluster();
  p.peak = FlopRate::Teraflops(1e9);
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  p.issue = SimTime();
  const auto kernels = [&](const ParallelMapping& mapping, bool forward) {
    const PassTimes times = Times(c, mapping, p);
    return ((forward ? times.layer_forward : times.layer_backward) - times.Exchanges(forward))
        .seconds();
  };
  ParallelMapping gathers = m;
  gathers.ulysses = false;
  const double unit = 512 * 1024 * 2 / 1e9;
  EXPECT_NEAR((kernels(m, true) - kernels(gathers, true)) / unit, 16 + 4 - 6, 0.01);
  EXPECT_NEAR((kernels(m, false) - kernels(gathers, false)) / unit, 16 + 8 - 12, 0.01);
  for (const char* wrong : {"tp1 cp2 pp1 dp1 ring ulysses mb1", "tp1 cp32 pp1 dp1 ulysses mb1",
                            "tp1 pp1 dp1 ulysses mb1"}) {
    const auto mapping = ParseMapping(wrong, 1, "test");
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    EXPECT_FALSE(TimePasses(c, *mapping, p).ok()) << wrong;
  }
}

// A switch that sums doubles an all-reduce's rate, not that of a gather and a scatter, which
// sequence parallelism has instead: three quarters of 2 MiB each at 100 GB/s, in three steps.
TEST(ExchangeCostsTest, SequenceParallelismGathersAndScatters) {
  ClusterParameters p = Cluster();
  p.exchanges = Exchanges({.node_gbps = 200});
  ParallelMapping m = Mapping(4, 1);
  EXPECT_NEAR(Reduction(m, Model(), p).us(), 1.5 * 2 * kH2 / 200e9 * 1e6 + 20, 1e-3);
  m.sequence_parallel = true;
  EXPECT_NEAR(Reduction(m, Model(), p).us(), 2 * (0.75 * 2 * kH2 / 100e9 * 1e6 + 3 * 2), 1e-3);
}

// GEMMs of T = 1,024 tokens over 4 ranks take 2 T h^2 / 4 times 3 (qkv), 1, 4 and 4 at 100
// TFLOP/s, of which a quarter runs beside no transfer; an exchange half of a gathering and
// scattering. Not even the longest GEMM hides one wholly. Backward all are waited for as before.
TEST(ExchangeCostsTest, ExchangesPartByPart) {
  const ClusterParameters p = GemmsAlone();
  ParallelMapping m = Mapping(4, 1);
  m.sequence_parallel = true;
  const PassTimes waited = Times(Model(), m, p);
  m.async_tensor = true;
  const PassTimes beside = Times(Model(), m, p);
  const double exchange = Reduction(m, Model(), p).us() / 2;
  EXPECT_EQ(Reductions(waited, true), 2);
  EXPECT_EQ(Reductions(beside, true), 0);
  double longer = 0;
  for (const double width : {3, 1, 4, 4}) {
    const double gemm = 2 * 1024 * kH2 * width / 4 / 100e12 * 1e6;
    longer += std::max(gemm, exchange + gemm / 4) - gemm;
  }
  EXPECT_NEAR(beside.layer_forward.us(),
              waited.layer_forward.us() - 2 * Reduction(m, Model(), p).us() + longer, 0.1);
  EXPECT_EQ(beside.layer_backward, waited.layer_backward);
  // A recomputed layer waits for its exchanges.
  m.recompute = Recompute::kFull;
  ParallelMapping plain = m;
  plain.async_tensor = false;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(),
              Times(Model(), plain, p).layer_backward.us(), 1e-2);
  // By operator, too.
  m.recompute = plain.recompute = Recompute::kOperators;
  EXPECT_NEAR(Times(Model(), m, p).layer_backward.us(),
              Times(Model(), plain, p).layer_backward.us(), 1e-2);
}

// Userbuffers split what is scattered into four parts, of which one runs beside no transfer, and
// keep 22 of 132 multiprocessors; backward the two gathered gradients go beside GEMMs of their
// own, which are as large as the forward ones.
TEST(ExchangeCostsTest, ExchangesByUserbuffers) {
  ClusterParameters p = GemmsAlone();
  p.multiprocessors = 132;
  ParallelMapping m = Mapping(4, 1);
  m.sequence_parallel = true;
  const PassTimes waited = Times(Model(), m, p);
  m.chunked_tensor = true;
  const PassTimes beside = Times(Model(), m, p);
  const double exchange = Reduction(m, Model(), p).us() / 2;
  EXPECT_EQ(Reductions(beside, true), 0);
  EXPECT_EQ(Reductions(beside, false), Reductions(waited, false) - 1);
  const auto gemm = [](double width) { return 2 * 1024 * kH2 * width / 4 / 100e12 * 1e6; };
  double forward = 0, backward = 0;
  for (const double width : {3, 4}) {
    forward += std::max(gemm(width), exchange + gemm(width) / 4) - gemm(width);
  }
  for (const double width : {1, 4}) {
    const double slow = gemm(width) * 132 / 110;
    forward += std::max(slow, exchange + slow / 4) - gemm(width);
    backward += std::max(gemm(width), exchange + gemm(width) / 4) - gemm(width);
  }
  EXPECT_NEAR(beside.layer_forward.us(),
              waited.layer_forward.us() - 2 * Reduction(m, Model(), p).us() + forward, 0.1);
  EXPECT_NEAR(beside.layer_backward.us(),
              waited.layer_backward.us() - Reduction(m, Model(), p).us() + backward, 0.1);
}

// Scales are reduced among two nodes of eight devices: 14 steps of 2 us and one of 10, twice.
TEST(ExchangeCostsTest, ScalesAreReducedAfterEveryPass) {
  ParallelMapping m = Mapping(4, 4);
  m.global_batch = 8;
  ClusterParameters p = GemmsAlone();
  p.reduces_scales = true;
  EXPECT_EQ(Times(Model(), m, p).scale_reduction, SimTime());
  m.fp8 = true;
  const PassTimes times = Times(Model(), m, p);
  EXPECT_NEAR(times.scale_reduction.us(), 2 * (14 * 2 + 10), 0.01);
  const auto with = EstimateIteration(Model(), m, p);
  p.reduces_scales = false;
  const auto without = EstimateIteration(Model(), m, p);
  ASSERT_TRUE(with.ok() && without.ok());
  // Two micro-batches, forward and backward.
  EXPECT_NEAR((with->time - without->time).us(), 4 * 76, 0.04);
}

// Kernels that hide a reduction take 1.5 times as long: a third of a hidden reduction's time is
// lost, or half of its cover's where that is all they do meanwhile.
TEST(ExchangeCostsTest, KernelsBesideHiddenReductionsAreSlower) {
  ClusterParameters p = GemmsAlone();
  const ParallelMapping m = Mapping(4, 1);
  const PassTimes alone = Times(Model(), m, p);
  ASSERT_FALSE(HiddenOf(alone).empty());
  double beside = 0;
  for (const HiddenChain& h : HiddenOf(alone)) {
    beside += std::min(h.cover.seconds() / 2, h.time.seconds() / 3);
  }
  p.overlap_slowdown = 0.5;
  const PassTimes slowed = Times(Model(), m, p);
  EXPECT_NEAR((slowed.layer_backward - alone.layer_backward).seconds(), beside, 1e-9);
  EXPECT_EQ(slowed.layer_forward, alone.layer_forward);
}

// Chunks that wait for their messages: all but the last of the last stage send forward, all but the
// first of the first backward.
TEST(ExchangeCostsTest, BlockingChunksHoldTheirStages) {
  ParallelMapping m = Mapping(1, 1);
  m.pipeline = 2;
  m.chunks = 2;
  m.global_batch = 4;
  ClusterParameters p = GemmsAlone();
  const auto free = PipelineOf(Model(), m, Times(Model(), m, p));
  p.blocking_chunks = true;
  const PassTimes times = Times(Model(), m, p);
  const auto held = PipelineOf(Model(), m, times);
  ASSERT_TRUE(free.ok() && held.ok());
  for (size_t stage = 0; stage < 2; ++stage) {
    for (size_t chunk = 0; chunk < 2; ++chunk) {
      const TimedStage &a = held->stages[stage], &b = free->stages[stage];
      const SimTime sent = stage == 1 && chunk == 1 ? SimTime() : times.transfer;
      const SimTime returned = stage == 0 && chunk == 0 ? SimTime() : times.transfer;
      EXPECT_EQ(a.forward[chunk] - b.forward[chunk], sent);
      EXPECT_EQ(a.backward[chunk] - b.backward[chunk], returned);
    }
  }
}

// The vocabulary is divided over 4 ranks. All-reduces of a micro-batch's 2 MiB and of 4 KiB (one
// number of 4 bytes a token) take 1.5 times their bytes over 100 GB/s and 20 us: the embedding's
// result forward, the output layer's input gradient backward where nothing hides it, and three of
// the small ones in the loss. Under sequence parallelism the embedding and the output layer's input
// take an all-gather or a reduce-scatter forward, 0.75 times the bytes and three steps of 2 us, the
// embedding's gradient one backward.
TEST(ExchangeCostsTest, ExchangesOutsideOfLayers) {
  const ClusterParameters p = GemmsAlone();
  ParallelMapping m = Mapping(4, 1);
  m.overlap_tensor = false;
  const PassTimes one = Times(Model(), Mapping(1, 1), p), four = Times(Model(), m, p);
  const double large = 1.5 * 2 * 1024 * 1024 / 100e9 * 1e6 + 20;
  const double small = 1.5 * 4 * 1024 / 100e9 * 1e6 + 20;
  EXPECT_NEAR(four.embedding_forward.us(), large, 0.1);
  EXPECT_NEAR(four.embedding_backward.us(), 0, 0.1);
  EXPECT_NEAR(four.head_forward.us(), one.head_forward.us() / 4 + 3 * small, 0.1);
  EXPECT_NEAR(four.head_backward.us(), one.head_backward.us() / 4 + large, 0.1);
  m.overlap_tensor = true;
  EXPECT_NEAR(Times(Model(), m, p).head_backward.us(), one.head_backward.us() / 4, 0.1);
  m.sequence_parallel = true;
  const PassTimes divided = Times(Model(), m, p);
  const double half = 0.75 * 2 * 1024 * 1024 / 100e9 * 1e6 + 3 * 2;
  EXPECT_NEAR(divided.embedding_forward.us(), half, 0.1);
  EXPECT_NEAR(divided.embedding_backward.us(), half, 0.1);
  EXPECT_NEAR(divided.head_forward.us(), one.head_forward.us() / 4 + 3 * small + half, 0.1);
  EXPECT_NEAR(divided.head_backward.us(), one.head_backward.us() / 4 + half, 0.1);
  m.overlap_tensor = false;
  EXPECT_NEAR(Times(Model(), m, p).head_backward.us(), one.head_backward.us() / 4 + 2 * half, 0.1);
}

TEST(ExchangeCostsTest, ExchangesOfALayer) {
  // 1,024 tokens of 1,024 values of two bytes: 2 MiB. All-reduce over 4 neighbours: 2 (3/4) of it
  // at 100 GB/s and a latency; two forward, two backward, one more under sequence parallelism.
  const double hidden = 2 * kH2;
  ParallelMapping m = Mapping(4, 1);
  m.overlap_tensor = false;
  PassTimes times = Times(Model(), m);
  EXPECT_NEAR(Reduction(m, Model(), Cluster()).us(), 1.5 * hidden / 100e9 * 1e6 + 20, 1e-3);
  EXPECT_EQ(Reductions(times, true), 2);
  EXPECT_EQ(Reductions(times, false), 2);
  m.sequence_parallel = true;
  EXPECT_EQ(Reductions(Times(Model(), m), false), 3);
  m.recompute = Recompute::kFull;
  EXPECT_EQ(Reductions(Times(Model(), m), false), 5);
  m.recompute = Recompute::kAlternate;
  EXPECT_EQ(Reductions(Times(Model(), m), false), 4);
  // Each token is routed to two experts: one reduction of twice the bytes for them, one of
  // attention.
  m = Mapping(4, 8);
  m.overlap_tensor = false;
  times = Times(Model(8), m);
  for (const bool forward : {true, false}) {
    const PassExchanges::List& of = times.layer_exchanges.of(forward);
    EXPECT_EQ(Reductions(times, forward), 2);
    ASSERT_EQ(of.size(), 2u);
    EXPECT_EQ(of[0].bytes, Bytes(2 * 1024 * 1024));
    EXPECT_EQ(of[1].bytes, Bytes(4 * 1024 * 1024));
  }
  // Context: of 512 own tokens keys and values (2 x 1,024 values) go to one other device.
  m = Mapping(1, 1);
  m.context = 2;
  times = Times(Model(), m);
  EXPECT_NEAR(times.layer_exchanges.forward[0].time.us(), 512 * 2048 * 2 / 100e9 * 1e6 + 2, 1e-3);
  EXPECT_EQ(CountOf(times, true, ShardGroup::kContext, CollectiveOp::kAllGather), 1);
  EXPECT_EQ(CountOf(times, false, ShardGroup::kContext, CollectiveOp::kAllGather), 1);
  EXPECT_EQ(CountOf(times, false, ShardGroup::kContext, CollectiveOp::kReduceScatter), 1);
  // Experts: 2 experts a token; of 16 ranks 8 are in the node, so half of the bytes leave it.
  m = Mapping(1, 16);
  m.expert = 16;
  times = Times(Model(16), m);
  EXPECT_NEAR(times.layer_exchanges.forward[0].time.us(), 2 * hidden * 8 / 16 / 10e9 * 1e6 + 20,
              1e-3);
  // Between stages a micro-batch of 2 MiB through one NIC.
  m = Mapping(1, 1);
  m.pipeline = 2;
  EXPECT_NEAR(Times(Model(), m).transfer.us(), hidden / 10e9 * 1e6, 1e-3);
  // Four shards, each by its NIC, then gathered in the node in three steps unless sequences stay
  // divided.
  m.tensor = 4;
  EXPECT_NEAR(Times(Model(), m).transfer.us(),
              hidden / 4 / 10e9 * 1e6 + hidden * 3 / 4 / 100e9 * 1e6 + 3 * 2, 1e-3);
  m.sequence_parallel = true;
  EXPECT_NEAR(Times(Model(), m).transfer.us(), hidden / 4 / 10e9 * 1e6, 1e-3);
}

// Two reductions of a layer's backward pass, of the input gradients of qkv and of the first
// feed-forward GEMM, run behind those GEMMs' weight gradients: at 1 TFLOP/s 2 T h 3h / 4 FLOP
// take 1,611 us and 2 T h 4h / 4 take 2,147, longer than the 51.5 us of a reduction. Under sequence
// parallelism the gathering of the GEMMs' inputs runs behind their input gradients, as long
// again; the gathering of the gradients where the sharded regions end is left, half of two
// reductions.
TEST(ExchangeCostsTest, TensorReductionsHideBehindWeightGradients) {
  ClusterParameters p = Cluster();
  p.peak = FlopRate::Teraflops(1);
  p.matrix_efficiency = 1;
  p.peak_memory = Bandwidth::GBps(1e9);
  ParallelMapping m = Mapping(4, 1);
  PassTimes times = Times(Model(), m, p);
  const double qkv = 2 * 1024 * 3 * kH2 / 4 / 1e12 * 1e6, up = qkv * 4 / 3;
  const auto exposed_of = [](const PassTimes& of) {
    return HiddenOf(of)[0].Exposed() + HiddenOf(of)[1].Exposed();
  };
  EXPECT_EQ(Reductions(times, false), 0);
  ASSERT_EQ(HiddenOf(times).size(), 2u);
  EXPECT_EQ(HiddenOf(times)[0].time, Reduction(m, Model(), p));
  EXPECT_NEAR(HiddenOf(times)[0].cover.us(), qkv, 1);
  EXPECT_NEAR(HiddenOf(times)[1].cover.us(), up, 1);
  EXPECT_EQ(exposed_of(times), SimTime());
  ParallelMapping exposed = m;
  exposed.overlap_tensor = false;
  EXPECT_NEAR((Times(Model(), exposed, p).layer_backward - times.layer_backward).us(),
              2 * Reduction(m, Model(), p).us(), 1e-3);
  m.sequence_parallel = true;
  times = Times(Model(), m, p);
  EXPECT_EQ(Reductions(times, false), 1);
  EXPECT_NEAR(HiddenOf(times)[0].cover.us(), 2 * qkv, 1);
  // What a slow link leaves uncovered is waited for.
  p.exchanges = Exchanges({.node_gbps = 1, .gather_gbps = 1});
  m.sequence_parallel = false;
  times = Times(Model(), m, p);
  const double reduction = 1.5 * 2 * kH2 / 1e9 * 1e6 + 20;
  EXPECT_NEAR(exposed_of(times).us(), 2 * reduction - qkv - up, 2);
  // Zero-bubble schedules run weight gradients later.
  m.pipeline = 2;
  m.schedule = ScheduleKind::kZeroBubbleH1;
  EXPECT_EQ(Reductions(Times(Model(), m, p), false), 2);
}

}  // namespace
}  // namespace foretrace
