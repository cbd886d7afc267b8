// What layers with experts exchange, and loads of experts.

#include <gtest/gtest.h>

#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

// Backward under sequence parallelism, in halves of an exchange: attention gathers its gradient,
// scatters its input's and gathers its input again, 3; tokens routed to experts whose GEMMs are
// divided as those do; whole experts nothing; shared ones as attention.
TEST(ExpertCostsTest, HalvesOfExchangesOfExperts) {
  TransformerConfig c = Model(4);
  ParallelMapping m = Mapping(2, 2);
  m.sequence_parallel = true;
  m.overlap_tensor = false;
  const auto halves = [&](bool forward) {
    return static_cast<int>(2 * Reductions(Times(c, m, GemmsAlone()), forward));
  };
  EXPECT_EQ(halves(true), 2 + 2);
  EXPECT_EQ(halves(false), 3 + 3);
  m.expert_tensor = 1;
  EXPECT_EQ(halves(true), 2);
  EXPECT_EQ(halves(false), 3);
  m.recompute = Recompute::kFull;
  EXPECT_EQ(halves(false), 3 + 2);
  const auto backward = [&](Recompute recompute) {
    m.recompute = recompute;
    return Times(c, m, GemmsAlone()).Exchanges(false);
  };
  EXPECT_NEAR(backward(Recompute::kAlternate).us(),
              (backward(Recompute::kFull).us() + backward(Recompute::kNone).us()) / 2, 1e-5);
  m.recompute = Recompute::kNone;
  c.shared_ffn = 1024;
  EXPECT_EQ(halves(true), 2 + 2);
  EXPECT_EQ(halves(false), 3 + 3);
  // Behind the GEMMs that lead into attention one whole exchange; the half that is left is the
  // gradient's gathering, which userbuffers take beside its GEMM.
  c.shared_ffn = 0;
  m.overlap_tensor = true;
  EXPECT_EQ(halves(false), 1);
  m.chunked_tensor = true;
  EXPECT_EQ(halves(false), 0);
}

// What the busiest device of an expert group exchanges at once.
Bytes Routed(const PassTimes& times) {
  for (const PassExchange& e : times.layer_exchanges.forward) {
    if (e.group == ShardGroup::kExpert) return e.bytes;
  }
  return Bytes();
}

// Of 1,024 tokens two copies of a latent of 256 elements of 2 bytes go to experts and back; each of
// two tensor-parallel ranks has all weights that make latents, and what they give is not reduced.
TEST(ExpertCostsTest, LatentsGoToExperts) {
  TransformerConfig c = Model(4);
  c.expert_latent = 256;
  ParallelMapping m = Mapping(1, 4);
  m.expert = 4;
  EXPECT_EQ(Routed(Times(c, m, GemmsAlone())), Bytes(2 * 1024 * 256 * 2));
  m = Mapping(2, 2);
  m.sequence_parallel = true;
  m.expert_tensor = 1;
  const auto halves = [&] { return Reductions(Times(c, m, GemmsAlone()), true); };
  const double latent = halves();
  const double dense = MappedLayer(c, m).dense();
  c.expert_latent = 0;
  EXPECT_EQ(latent, halves());
  EXPECT_EQ(dense - MappedLayer(c, m).dense(), 2.0 * c.hidden * 256);
}

// Experts that weigh their activations are sent routers' choices with tokens, 4 bytes for each of 2
// copies of 1,024, and send their gradients back with the tokens'; results go alone.
TEST(ExpertCostsTest, ChoicesGoWithTokens) {
  TransformerConfig c = Model(4);
  ParallelMapping m = Mapping(1, 4);
  m.expert = 4;
  const auto exchanges = [&](bool forward) {
    int64_t tokens = 0, choices = 0;
    for (const PassExchange& e : Times(c, m, GemmsAlone()).layer_exchanges.of(forward)) {
      (e.bytes == Bytes(4 * 2 * 1024) ? choices : tokens) += e.count;
    }
    return std::pair(tokens, choices);
  };
  for (const bool forward : {true, false}) EXPECT_EQ(exchanges(forward), std::pair(2L, 0L));
  c.weighs_activations = true;
  for (const bool forward : {true, false}) EXPECT_EQ(exchanges(forward), std::pair(2L, 1L));
  m.dispatch = ExpertDispatch::kAllGather;
  EXPECT_EQ(exchanges(true), std::pair(2L, 0L));
}

// Of each of 2,048 x 1,024 results of experts: the product written 4 bytes; the sum 4 + 2 read, 4
// written; put together 8; cast 6. Backward cast 6; of each expert cast 6, products 8 and 8, sums 4
// and 4; put together 4. Of each of 2,048 x 4,096 numbers that are activated, halves clamped 4 and
// 4, put together 8; backward masks 3 and 3, 3 and 3, gradients 5 and 5, put together 8.
TEST(ExpertCostsTest, BiasesOfExpertsStepByStep) {
  TransformerConfig c = SmallMixture();
  c.biases = true;
  const auto more = [&](bool stepwise) {
    ClusterParameters p = MemoryAlone();
    p.forms.stepwise_expert_biases = stepwise;
    const auto times = TimePasses(c, ParallelMapping(), p);
    EXPECT_TRUE(times.ok()) << times.status();
    return std::pair(times->layer_forward.seconds(), times->layer_backward.seconds());
  };
  const auto plain = more(false), biased = more(true);
  const double results = 2048.0 * 1024 / 1e9, activated = 2048.0 * 4096 / 1e9;
  EXPECT_NEAR((biased.first - plain.first) / results, 28, 0.1);
  EXPECT_NEAR((biased.second - plain.second) / results, 40, 0.1);
  c.clamped = true;
  EXPECT_EQ(more(false), plain);
  EXPECT_NEAR((more(true).first - biased.first) / activated, 16, 0.1);
  EXPECT_NEAR((more(true).second - biased.second) / activated, 30, 0.1);
  c.biases = false;
  EXPECT_NEAR((more(true).first - more(false).first) / activated, 16, 0.1);
}

// Kernels over 1,024 x 4 numbers of 32 bits that are read and written: 20 forward, 15 backward; of
// padded experts 27 and 16, beside others.
TEST(ExpertCostsTest, ChoicesStepByStep) {
  const TransformerConfig c = Model(4);
  ClusterParameters p = GemmsAlone();
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  const PassTimes one = Times(c, Mapping(1, 4), p);
  p.forms.stepwise_choices = true;
  const PassTimes stepwise = Times(c, Mapping(1, 4), p);
  const double each = 2 * 4 * 4 * 1024 / 1e9;
  EXPECT_NEAR((stepwise.layer_forward - one.layer_forward).seconds(), 20 * each, 1e-7);
  EXPECT_NEAR((stepwise.layer_backward - one.layer_backward).seconds(), 15 * each, 1e-7);
}

// Two optimizers gather all new weights each, those of dense layers among them too: once more than
// zero 2 does, whose reductions are behind its passes.
TEST(ExpertCostsTest, DenseLayersOfMixturesAreGatheredTwiceToo) {
  TransformerConfig c = Model(4);
  c.dense_first = 1;
  c.dense_ffn = 2048;
  ParallelMapping m = Mapping(1, 4);
  m.expert = 4;
  ClusterParameters p = GemmsAlone();
  const auto reduction = [&](int32_t zero, bool twice) {
    m.zero = zero;
    p.gathers_twice = twice;
    return Times(c, m, p).gradient_reduction.us();
  };
  EXPECT_NEAR(reduction(1, true) - reduction(1, false), reduction(2, false), 0.1);
}

// The busiest of four ranks has half as many routed tokens again: its experts' GEMMs are half
// longer, as is what arrives.
TEST(ExpertCostsTest, UnevenExperts) {
  const TransformerConfig c = Model(4);
  ParallelMapping m = Mapping(1, 4);
  m.expert = 4;
  const ClusterParameters p = GemmsAlone();
  const PassTimes even = Times(c, m, p);
  m.expert_imbalance = 50;
  const PassTimes uneven = Times(c, m, p);
  // 2 FLOP x 1,024 tokens x 2 experts x 8 h^2 weights (up and down) at 100 TFLOP/s.
  const double experts = 2.0 * 1024 * 2 * 8 * kH2 / 100e12;
  const auto more = [&](bool forward) {
    const auto kernels = [&](const PassTimes& t) {
      return (forward ? t.layer_forward : t.layer_backward) - t.Exchanges(forward);
    };
    return (kernels(uneven) - kernels(even)).seconds();
  };
  EXPECT_NEAR(more(true), 0.5 * experts, 1e-7);
  EXPECT_NEAR(more(false), 2 * 0.5 * experts, 1e-7);
  EXPECT_EQ(Routed(uneven), Bytes(Routed(even).count() * 3 / 2));
  // Experts that are padded to a quarter more than the mean take a quarter longer, on each rank.
  m.expert_imbalance = 0;
  m.expert_capacity = 125;
  const PassTimes padded = Times(c, m, p);
  EXPECT_NEAR(((padded.layer_forward - padded.Exchanges(true)) -
               (even.layer_forward - even.Exchanges(true)))
                  .seconds(),
              0.25 * experts, 1e-7);
  EXPECT_EQ(Routed(padded), Bytes(Routed(even).count() * 5 / 4));
  EXPECT_GT(MemoryOf(c, m).activations, MemoryOf(c, Mapping(1, 4)).activations);
  for (const char* wrong :
       {"tp1 pp1 dp4 mb1 imbalance20", "tp1 pp1 dp4 ep4 mb1 imbalance301",
        "tp1 pp1 dp4 ep4 mb1 imbalance20 capacity125", "tp1 pp1 dp4 ep4 mb1 imbalance-1"}) {
    const auto mapping = ParseMapping(wrong, 4, "test");
    EXPECT_FALSE(mapping.ok() && TimePasses(c, *mapping, p).ok()) << wrong;
  }
  for (const char* wrong : {"tp1 pp1 dp4 mb1 imbalance20", "tp1 pp1 dp4 mb1 capacity100",
                            "tp2 pp1 dp2 mb1 balance-loss"}) {
    const auto mapping = ParseMapping(wrong, 4, "test");
    ASSERT_TRUE(mapping.ok());
    EXPECT_FALSE(TimePasses(Model(), *mapping, p).ok()) << wrong;
  }
}

// Counts of 4 experts, 4 bytes each, over 2 x 2 devices that divide a sequence: 1.5 times 16 bytes
// at 100 GB/s and 20 us, once a forward pass; again where layers are recomputed.
TEST(ExpertCostsTest, LossesThatBalanceExperts) {
  const TransformerConfig c = Model(4);
  ParallelMapping m = Mapping(2, 1);
  m.context = 2;
  const ClusterParameters p = GemmsAlone();
  const PassTimes without = Times(c, m, p);
  m.balance_loss = true;
  const PassTimes with = Times(c, m, p);
  const auto sums = [&](const ParallelMapping& mapping, bool forward) {
    PassExchanges::List found;
    const PassTimes times = Times(c, mapping, p);
    for (const PassExchange& e : times.layer_exchanges.of(forward)) {
      if (e.group == ShardGroup::kTokens) found.push_back(e);
    }
    return found;
  };
  ASSERT_EQ(sums(m, true).size(), 1u);
  EXPECT_EQ(sums(m, true)[0].op, CollectiveOp::kAllReduce);
  EXPECT_EQ(sums(m, true)[0].bytes, Bytes(16));
  EXPECT_NEAR(sums(m, true)[0].time.us(), 1.5 * 16 / 100e3 + 20, 1e-3);
  EXPECT_EQ(with.layer_forward - without.layer_forward, sums(m, true)[0].time);
  EXPECT_EQ(with.layer_backward, without.layer_backward);
  m.recompute = Recompute::kFull;
  ASSERT_EQ(sums(m, false).size(), 1u);
  EXPECT_EQ(sums(m, false)[0].count, 1);
  // Alone, a device counts its own.
  m = Mapping(1, 4);
  m.balance_loss = true;
  EXPECT_TRUE(sums(m, true).empty());
}

// A GEMM takes 10 us, a batch of them 7, everything else nothing.
class GemmsBySize : public DeviceMeasurements {
 public:
  explicit GemmsBySize(bool batches) : batches_(batches) {}
  Estimate KernelTime(const KernelWork& work) const override {
    const bool batch = work.kind == KernelKind::kBatchedGemm;
    const double us = work.kind == KernelKind::kGemm ? 10 : batch ? 7 : 0;
    const bool known = !batch || batches_;
    return {SimTime::FromUs(us), known ? EstimateSource::kCalibrated : EstimateSource::kAnalytic,
            !known};
  }
  std::optional<Estimate> CollectiveTime(CollectiveOp, int32_t, Bytes) const override {
    return std::nullopt;
  }
  std::string Source() const override { return "test"; }

 private:
  bool batches_;
};

// Of a device whose batches were not measured both GEMMs of the feed-forward layer are one for
// each of 4 experts at home; of another one batch each.
TEST(ExpertCostsTest, GemmsOfExpertsRunOneByOne) {
  const auto layer = [](bool batches) {
    ClusterParameters p = GemmsAlone();
    p.kernel_gap = SimTime();
    p.measured = std::make_shared<const GemmsBySize>(batches);
    return Times(Model(4), Mapping(1, 1), p);
  };
  const PassTimes batched = layer(true), apart = layer(false);
  EXPECT_NEAR((apart.layer_forward - batched.layer_forward).us(), 2 * (4 * 10 - 7), 1e-6);
  // Backward two GEMMs, of inputs and of weights, for each of them.
  EXPECT_NEAR((apart.layer_backward - batched.layer_backward).us(), 4 * (4 * 10 - 7), 1e-6);
}

// Software whose one kernel goes through the tiles of all experts takes what a batch takes,
// measured or not: 7 us, two a layer forward, four backward.
TEST(ExpertCostsTest, OneKernelForAllExperts) {
  ClusterParameters p = GemmsAlone();
  p.kernel_gap = SimTime();
  p.measured = std::make_shared<const GemmsBySize>(false);
  const PassTimes apart = Times(Model(4), Mapping(1, 1), p);
  p.forms.grouped_experts = true;
  const PassTimes grouped = Times(Model(4), Mapping(1, 1), p);
  EXPECT_NEAR((apart.layer_forward - grouped.layer_forward).us(), 2 * (4 * 10 - 7), 1e-6);
  EXPECT_NEAR((apart.layer_backward - grouped.layer_backward).us(), 4 * (4 * 10 - 7), 1e-6);
}

// Of 8 experts on 4 devices, two to a node, a token of 2 reaches other nodes and devices as often
// as it has experts there, and no more: with limited groups fewer.
TEST(ExpertCostsTest, DeepEpSendsATokenOnceToEachNode) {
  TransformerConfig c = Model(8);
  ParallelMapping m = Mapping(1, 4);
  m.expert = 4;
  const auto exchanges = [&](int32_t devices_per_node, bool forward) {
    ClusterParameters cluster = GemmsAlone();
    SetExpertLinks(cluster);
    cluster.devices_per_node = devices_per_node;
    const PassTimes times = Times(c, m, cluster);
    PassExchanges::List found;
    for (const PassExchange& e : times.layer_exchanges.of(forward)) {
      if (OfExperts(e.group)) found.push_back(e);
    }
    return found;
  };
  const double token = static_cast<double>(c.hidden) * 2, tokens = static_cast<double>(c.sequence);
  // A copy for each of its experts, whatever node they are on.
  auto found = exchanges(2, true);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 2);
  EXPECT_NEAR(static_cast<double>(found[0].bytes.count()), tokens * token * 2, 1);
  m.dispatch = ExpertDispatch::kAllGather;
  found = exchanges(2, true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].op, CollectiveOp::kAllGather);
  EXPECT_EQ(found[1].op, CollectiveOp::kReduceScatter);
  EXPECT_NEAR(static_cast<double>(found[0].bytes.count()), tokens * token * 4, 1);
  // Gradients of results are gathered, of tokens scattered.
  EXPECT_EQ(exchanges(2, false)[0].op, CollectiveOp::kReduceScatter);
  EXPECT_EQ(exchanges(2, false)[1].op, CollectiveOp::kAllGather);
  // Nodes are missed by both experts with 4/8 * 3/7, devices with 6/8 * 5/7. There and back alike.
  m.dispatch = ExpertDispatch::kDeepEp;
  const double nodes = 2 * (1 - 12.0 / 56), devices = 4 * (1 - 30.0 / 56);
  found = exchanges(2, true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].group, ShardGroup::kExpertNodes);
  EXPECT_EQ(found[1].group, ShardGroup::kExpertPeers);
  EXPECT_EQ(found[0].count, 2);
  EXPECT_NEAR(static_cast<double>(found[0].bytes.count()), tokens * token * nodes, 1);
  EXPECT_NEAR(static_cast<double>(found[1].bytes.count()), tokens * token * devices, 1);
  found = exchanges(8, true);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].group, ShardGroup::kExpert);
  EXPECT_NEAR(static_cast<double>(found[0].bytes.count()), tokens * token * devices, 1);
  // Hybrid-EP sends the same copies, by other kernels there and back; before, four devices gather
  // a byte of each token and each of 8 experts, backward not again.
  m.dispatch = ExpertDispatch::kHybridEp;
  found = exchanges(8, true);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].op, CollectiveOp::kAllGather);
  EXPECT_NEAR(static_cast<double>(found[0].bytes.count()), 4 * tokens * 8, 1);
  EXPECT_NEAR(static_cast<double>(found[1].bytes.count()), tokens * token * devices, 1);
  EXPECT_EQ(found[2].bytes, found[1].bytes);
  EXPECT_NE(found[1].time, found[2].time);
  EXPECT_EQ(exchanges(8, false).size(), 2u);
  EXPECT_EQ(exchanges(2, true).size(), 5u);
  m.dispatch = ExpertDispatch::kDeepEp;
  // Tokens in 8 bits with a scale of 4 bytes for 128, results as they are.
  m.dispatch_fp8 = true;
  found = exchanges(2, true);
  ASSERT_EQ(found.size(), 4u);
  const ShardGroup order[] = {ShardGroup::kExpertNodes, ShardGroup::kExpertPeers,
                              ShardGroup::kExpertPeers, ShardGroup::kExpertNodes};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i].group, order[i]);
  EXPECT_NEAR(static_cast<double>(found[0].bytes.count()),
              tokens * static_cast<double>(c.hidden) * (1 + 4.0 / 128) * nodes, 1);
  EXPECT_NEAR(static_cast<double>(found[3].bytes.count()), tokens * token * nodes, 1);
  // Both experts of one of two groups, each a node's.
  c.expert_groups = 2;
  c.chosen_groups = 1;
  found = exchanges(2, true);
  EXPECT_NEAR(static_cast<double>(found[3].bytes.count()), tokens * token, 1);
}

// A pass hides what it exchanges behind its kernels, which lose 20 of 100 multiprocessors
// meanwhile.
TEST(ExpertCostsTest, ExchangesOfExpertsBesideKernels) {
  const TransformerConfig c = Model(8);
  ParallelMapping m = Mapping(1, 4);
  m.expert = 4;
  m.dispatch = ExpertDispatch::kDeepEp;
  const auto times = [&](double nic_gbps) {
    ClusterParameters cluster = GemmsAlone();
    SetExpertLinks(cluster, {.nic_gbps = nic_gbps});
    cluster.devices_per_node = 2;
    cluster.multiprocessors = 100;
    return Times(c, m, cluster);
  };
  for (const double nic : {1000.0, 0.001}) {
    m.overlap_experts = false;
    const PassTimes apart = times(nic);
    m.overlap_experts = true;
    const PassTimes beside = times(nic);
    for (const bool forward : {true, false}) {
      const double exchanged = apart.Exchanges(forward).seconds();
      const double kernels =
          (forward ? apart.layer_forward : apart.layer_backward).seconds() - exchanged;
      const double whole = (forward ? beside.layer_forward : beside.layer_backward).seconds();
      // What runs beside the exchange does 0.8 of its work in the same time.
      const double covered = std::min(exchanged, kernels / 0.8);
      EXPECT_NEAR(whole, kernels - 0.8 * covered + exchanged, 1e-9 + 1e-6 * whole);
    }
  }
  m.recompute = Recompute::kFull;
  EXPECT_FALSE(CheckMapping(c, m, 0).ok());
}

}  // namespace
}  // namespace foretrace
