// Mappings of models each of whose layers is one part: their stages, times and memory are sums over
// the parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mapping_file.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/memory_timeline.h"
#include "simulator/mapping/scan_kernels.h"
#include "simulator/mapping/trained_flop.h"
#include "simulator/workload/workload_yaml.h"
#include "tests/support/hybrid_model.h"
#include "tests/unit/mapping/hand_derived.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

ParallelMapping Of(const std::string& words) {
  const auto m = ParseMapping(words, 0, "test");
  EXPECT_TRUE(m.ok()) << m.status();
  return m.value_or(ParallelMapping());
}

std::string Refused(const TransformerConfig& c, const std::string& words) {
  return std::string(CheckMapping(c, Of(words), 0).message());
}

// M-M* on the first of two stages, -M*- on the second.
TEST(HybridLayersTest, StagesDivideThePattern) {
  const TransformerConfig c = HybridModel("M-M*-M*-");
  const ParallelMapping m = Of("pp2 dp1 mb1 gb4");
  EXPECT_EQ(StageLayersByKind(c, m, 0), (LayerCounts{2, 1, 1, 0}));  // mixers, attention, dense
  EXPECT_EQ(StageLayersByKind(c, m, 1), (LayerCounts{1, 1, 2, 0}));
  const auto passes = TimePasses(c, m, Cluster());
  ASSERT_TRUE(passes.ok()) << passes.status();
  const auto alone = [&](size_t kind) {
    return TimePasses(WithLayerKind(c, kind), m, Cluster())->layer_forward;
  };
  const std::array<SimTime, 3> of = {alone(0), alone(1), alone(2)};
  EXPECT_NE(of[0], of[2]);
  const MappedLine line = LineOf(c, m, *passes);
  EXPECT_EQ(line.line.forward[0], passes->embedding_forward + of[0] + of[0] + of[1] + of[2]);
  EXPECT_EQ(line.line.forward[1], passes->head_forward + of[0] + of[1] + of[2] + of[2]);
}

// A stage keeps what its layers do by themselves; its weights are theirs and the tables'.
TEST(HybridLayersTest, MemoryIsTheLayersSum) {
  const TransformerConfig c = HybridModel("M-M*");
  TransformerConfig four = c;
  four.layers = 4;
  const ParallelMapping m = Of("pp1 dp1 mb1 gb1");
  double kept = 0, weights = 0;
  for (size_t kind = 0; kind < LayerKinds(four); ++kind) {
    const TransformerConfig own = WithLayerKind(four, kind);
    const double layers = static_cast<double>(LayersOfKindIn(four, kind));
    kept += layers * LayerStash(own, m, Recompute::kNone);
    weights += layers * MappedLayer(own, m).dense();
  }
  const MappedLayer any(WithLayerKind(four, 0), m);
  const MemoryLedger use = StageMemoryOf(four, m, 0);
  EXPECT_NEAR(static_cast<double>(use.activations.count()), kept, 2);
  EXPECT_NEAR(static_cast<double>(use.weights.count()),
              2 * (weights + any.embedding() + any.head()), 4);
}

// Each of two further tokens takes a layer of attention and one of experts, the output layer and
// the GEMM that joins, on the last stage alone: its time, what it keeps, its weights.
TEST(HybridLayersTest, FurtherTokensHaveAPatternOfTheirOwn) {
  TransformerConfig c = HybridExperts();
  const ParallelMapping m = Of("pp2 dp1 mb1 gb4");
  const auto plain = TimePasses(c, m, Cluster());
  const MemoryLedger first = StageMemoryOf(c, m, 0), last = StageMemoryOf(c, m, 1);
  c.further_tokens = 2;
  c.further_pattern = "*E";
  ASSERT_TRUE(CheckTransformer(c).ok()) << CheckTransformer(c);
  const auto further = TimePasses(c, m, Cluster());
  ASSERT_TRUE(plain.ok() && further.ok()) << further.status();
  double kept = 0, weights = 0;
  SimTime layers;
  for (size_t kind = 0; kind < LayerKinds(c); ++kind) {
    const TransformerConfig own = WithLayerKind(c, kind);
    const LayerPart part = PartOf(own);
    const bool has = part == LayerPart::kAttention || part == LayerPart::kExperts;
    EXPECT_EQ(FurtherLayersOfKind(c, kind), has ? 2 : 0);
    if (!has) continue;
    layers += TimePasses(own, m, Cluster())->layer_forward;
    kept += 2 * LayerStash(own, m, Recompute::kNone);
    weights += 2 * (MappedLayer(own, m).dense() + MappedLayer(own, m).expert());
  }
  EXPECT_EQ(FurtherLayers(c), 4);
  EXPECT_EQ(further->layer_forward, plain->layer_forward);
  const SimTime more = further->head_forward - plain->head_forward;
  const SimTime without_join = plain->head_forward + layers;
  EXPECT_GT(more, without_join + without_join);
  EXPECT_LT(more.seconds(), 2 * without_join.seconds() + 2 * plain->head_forward.seconds());
  const MemoryLedger with = StageMemoryOf(c, m, 1);
  EXPECT_EQ(StageMemoryOf(c, m, 0).total(), first.total());
  EXPECT_NEAR(static_cast<double>((with.activations - last.activations).count()), kept, 4);
  const double join = 2 * 2.0 * c.hidden * c.hidden;
  const auto over_time = MemoryOverTime(c, m, *further);
  ASSERT_TRUE(over_time.ok()) << over_time.status();
  EXPECT_EQ(over_time->back().peak.logits, with.logits);
  // Each of two layers of attention and of experts, two output layers and joins more.
  double flop = 2 * 3 * 2.0 * 64 * c.hidden * (c.vocabulary + 2.0 * c.hidden);
  const auto of_pattern = [&](const std::string& pattern) {
    TransformerConfig own = HybridExperts();
    own.pattern = pattern;
    own.layers = static_cast<int64_t>(pattern.size());
    return ModelFlopOf(own).count();
  };
  flop += 2 * (of_pattern("MEM*-EME*E") - of_pattern("MEM*-EME"));
  EXPECT_NEAR((ModelFlopOf(c).count() - of_pattern("MEM*-EME")) / flop, 1, 1e-9);
  EXPECT_NEAR(static_cast<double>((with.weights - last.weights).count()), 2 * (weights + join), 8);
}

// 2^17 micro-batches of two further tokens with 50,000 layers of attention each are longer than
// what 64 bits hold of picoseconds.
TEST(HybridLayersTest, IterationsOfWeeksAreRefused) {
  TransformerConfig c = HybridExperts();
  const ParallelMapping m = Of("pp1 dp1 mb1 gb131072");
  EXPECT_TRUE(IterationModel(c, Cluster()).Estimate(m).ok());
  c.further_tokens = 2;
  c.further_pattern = std::string(50'000, '*');
  EXPECT_THAT(std::string(IterationModel(c, Cluster()).Estimate(m).status().message()),
              HasSubstr("over 12 days"));
}

// Recomputed whole, a layer keeps its input, h of 2 bytes a token, whatever it is.
TEST(HybridLayersTest, FullRecomputationKeepsInputs) {
  const TransformerConfig c = HybridModel();
  const MemoryLedger use = StageMemoryOf(c, Of("pp1 dp1 mb1 gb1 full"), 0);
  EXPECT_EQ(use.activations.count(), 8 * 64 * 256 * 2);
  const ParallelMapping none = Of("pp1 dp1 mb1 gb1"), full = Of("pp1 dp1 mb1 gb1 full");
  const auto plain = TimePasses(c, none, Cluster()), again = TimePasses(c, full, Cluster());
  ASSERT_TRUE(plain.ok() && again.ok());
  EXPECT_EQ(again->layer_backward, plain->layer_backward + plain->layer_forward);
}

// Selective recomputation is of attention, which mixers do not have.
TEST(HybridLayersTest, SelectiveRecomputationLeavesMixers) {
  TransformerConfig mixer = HybridModel("M");
  const auto plain = TimePasses(mixer, Of("pp1 dp1 mb1 gb1"), Cluster());
  const auto again = TimePasses(mixer, Of("pp1 dp1 mb1 gb1 selective"), Cluster());
  ASSERT_TRUE(plain.ok() && again.ok());
  EXPECT_EQ(plain->layer_backward, again->layer_backward);
}

// GEMMs with decays take no less than 0.76 TFLOP/s a multiprocessor: of 64 tokens those of results
// and of the gradients of input, products and decays multiply 2 x 64 x 512 x (48 + 48 + 16 + 16),
// and at 0.76 TFLOP/s in all, far below what their bytes ask for, a layer takes that much longer.
TEST(HybridLayersTest, GemmsWithDecays) {
  const TransformerConfig mixer = HybridModel("M");
  const ParallelMapping m = Of("pp1 dp1 mb1 gb1");
  ClusterParameters one = Cluster(), none = Cluster();
  one.multiprocessors = 1;
  one.issue = none.issue = SimTime();
  const auto slow = TimePasses(mixer, m, one), fast = TimePasses(mixer, m, none);
  ASSERT_TRUE(slow.ok() && fast.ok());
  const double flop = 2.0 * 64 * 512 * 128;
  const double more =
      (slow->layer_forward + slow->layer_backward - fast->layer_forward - fast->layer_backward)
          .seconds();
  EXPECT_LT(more, flop / 0.76e12);
  EXPECT_GT(more, 0.9 * flop / 0.76e12);
}

// Three passes over all GEMMs: of each kind's layers and of what is outside of them.
TEST(HybridLayersTest, ModelFlop) {
  const TransformerConfig c = HybridModel("M-M*-M*-");
  const auto of = [](const TransformerConfig& model, int64_t layers) {
    const TransformerGraph graph = MakeTransformerGraph(model);
    return GemmFlop(graph.graph, BindTransformer(graph, model, {}), layers).count();
  };
  const double outside = of(WithLayerKind(c, 0), 0);
  double all = outside;
  const int64_t layers[] = {3, 2, 3};
  for (size_t kind = 0; kind < 3; ++kind) {
    all += of(WithLayerKind(c, kind), layers[kind]) - outside;
  }
  EXPECT_DOUBLE_EQ(ModelFlopOf(c).count(), 3 * all);
}

TEST(HybridLayersTest, WhatDoesNotDivideOrIsNotCovered) {
  const TransformerConfig c = HybridModel();
  EXPECT_EQ(Refused(c, "tp2 sp pp2 dp2 mb1 gb4"), "");
  EXPECT_EQ(Refused(c, "tp2 cp2 dp1 mb1 gb4"), "");
  EXPECT_THAT(Refused(c, "tp2 cp4 dp1 mb1 gb4"),
              HasSubstr("a part of the 4 groups of states, which tp * cp, 8, does not divide"));
  EXPECT_THAT(Refused(c, "tp8 dp1 mb1 gb4"), HasSubstr("does not divide the 4 groups of states"));
  EXPECT_THAT(Refused(c, "pp1 dp1 mb1 gb4 last2"), HasSubstr("lastN"));
  EXPECT_EQ(Refused(HybridExperts(), "ep2 dp2 mb1 gb4"), "");
}

// Chunks of 64 tokens with keys of 128 elements go one after the other, 1.2 us each forward and,
// the states again, 1.2 and 2.3 backward: of 16 chunks 19.2 and 56 us at least, of which kernels
// without that take some; of a device whose multiprocessors are not known nothing.
TEST(HybridLayersTest, ChunksOfADeltaRuleWait) {
  const TransformerConfig delta = DeltaModel("G");
  TransformerConfig c = delta;
  c.sequence = c.positions = 1024;
  c.state_chunk = 64;
  c.state_size = 128;
  c.state_heads = c.state_groups = 1;
  const ParallelMapping m = Of("pp1 dp1 mb1 gb1");
  ClusterParameters p = Cluster();
  p.issue = SimTime();
  p.multiprocessors = 0;
  const auto unknown = TimePasses(c, m, p);
  p.multiprocessors = 1'000'000;  // so that decays take no time
  const auto known = TimePasses(c, m, p);
  ASSERT_TRUE(known.ok() && unknown.ok());
  EXPECT_GT((known->layer_forward - unknown->layer_forward).us(), 16 * 1.2 - 4);
  EXPECT_LT((known->layer_forward - unknown->layer_forward).us(), 16 * 1.2 + 0.001);
  EXPECT_GT((known->layer_backward - unknown->layer_backward).us(), 16 * 3.5 - 8);
  EXPECT_THAT(Refused(delta, "cp2 dp1 mb1 gb1"), HasSubstr("not covered"));
  EXPECT_EQ(Refused(delta, "tp4 sp dp1 mb1 gb1"), "");
  EXPECT_THAT(Refused(delta, "tp8 dp1 mb1 gb1"), HasSubstr("does not divide"));
}

// Nemotron-H 8B: for each FLOP mixers take longer than feed-forward layers, as memory bounds their
// scans, and less than twice as long, as GEMMs are 97 % of their FLOP: 2 h (3 X + 2 B + H) = 219
// of 226 million a token (h = 4,096, X = 8,192, B = 1,024, H = 128; scans 2 X (128 + 128 + 128) + 2
// x 8 x 128 x 128).
TEST(HybridLayersTest, TimeOfPublishedMixers) {
  const auto file =
      LoadModel(std::string(FORETRACE_SOURCE_DIR "/traces/workloads/nemotron-h-8b.yaml"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto seconds_a_flop = [&](LayerPart part) {
    for (size_t kind = 0; kind < LayerKinds(*file->transformer); ++kind) {
      const TransformerConfig own = WithLayerKind(*file->transformer, kind);
      if (PartOf(own) != part) continue;
      ClusterParameters p = Cluster();
      p.multiprocessors = 108;
      const auto passes = TimePasses(own, Of("pp1 dp1 mb1 gb1"), p);
      EXPECT_TRUE(passes.ok()) << passes.status();
      const TransformerGraph graph = MakeTransformerGraph(own);
      const Binding sizes = BindTransformer(graph, own, {});
      const double flop =
          GemmFlop(graph.graph, sizes, 1).count() - GemmFlop(graph.graph, sizes, 0).count();
      return (passes->layer_forward + passes->layer_backward).seconds() / flop;
    }
    return 0.0;
  };
  const double ratio = seconds_a_flop(LayerPart::kMixer) / seconds_a_flop(LayerPart::kFeedForward);
  EXPECT_GT(ratio, 1.1);
  EXPECT_LT(ratio, 2);
}

// Qwen3-Next: a gated delta net takes longer than its FLOP at the peak's rate, as bytes, chunks
// that wait and copies are most of it, and as long for a token however many there are, where
// attention's share grows: of 4,096 tokens a layer takes more than one with attention, of 131,072
// less.
TEST(HybridLayersTest, TimeOfPublishedDeltaNets) {
  const auto file =
      LoadModel(std::string(FORETRACE_SOURCE_DIR "/traces/workloads/qwen3-next-80b-a3b.yaml"));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto seconds = [&](LayerPart part, int64_t tokens) {
    for (size_t kind = 0; kind < LayerKinds(*file->transformer); ++kind) {
      TransformerConfig own = WithLayerKind(*file->transformer, kind);
      if (PartOf(own) != part) continue;
      own.sequence = tokens;
      ClusterParameters p = Cluster();
      p.multiprocessors = 108;
      const auto passes = TimePasses(own, Of("pp1 dp1 mb1 gb1"), p);
      EXPECT_TRUE(passes.ok()) << passes.status();
      const double time = (passes->layer_forward + passes->layer_backward).seconds();
      const TransformerGraph graph = MakeTransformerGraph(own);
      const Binding sizes = BindTransformer(graph, own, {});
      const double flop =
          GemmFlop(graph.graph, sizes, 1).count() - GemmFlop(graph.graph, sizes, 0).count();
      if (part == LayerPart::kDelta) {
        EXPECT_GT(time, 3 * flop / 312e12) << tokens;
        EXPECT_LT(time, 30 * flop / 312e12) << tokens;
      }
      return time;
    }
    return 0.0;
  };
  const double few = seconds(LayerPart::kDelta, 4096), many = seconds(LayerPart::kDelta, 131'072);
  EXPECT_NEAR(many / few, 32, 4);
  EXPECT_GT(few, seconds(LayerPart::kAttention, 4096));
  EXPECT_LT(many, seconds(LayerPart::kAttention, 131'072));
}

absl::StatusOr<std::optional<TransformerConfig>> KnownHybrid(const std::string& name, bool) {
  if (name != "nemotron-h-small") return std::nullopt;
  TransformerConfig c = HybridModel();
  c.name = name;
  return c;
}

// Of 32 of 64 tokens all that is projected goes to other devices in five exchanges, 2 X + 2 B + H
// elements of 2 bytes, and the result, X, comes back; backward the other way round.
TEST(HybridLayersTest, MixersExchangeGroupsForSequences) {
  const TransformerConfig mixer = HybridModel("M");
  const auto passes = TimePasses(mixer, Of("cp2 dp1 mb1 gb1"), Cluster());
  ASSERT_TRUE(passes.ok()) << passes.status();
  for (const bool forward : {true, false}) {
    int64_t bytes = 0, count = 0;
    for (const PassExchange& e : passes->layer_exchanges.of(forward)) {
      EXPECT_EQ(e.group, ShardGroup::kContext);
      EXPECT_EQ(e.op, CollectiveOp::kAllToAll);
      bytes += e.bytes.count() * e.count;
      count += e.count;
    }
    EXPECT_EQ(count, 6);
    EXPECT_EQ(bytes, 32 * 2 * (3 * 512 + 2 * 128 + 16));
  }
}

// Around the scan 3 copies of what is projected and 2 of the result, each way, and half the tokens
// are left.
TEST(HybridLayersTest, CopiesAroundExchangedGroups) {
  const TransformerConfig mixer = HybridModel("M");
  const MappedLayer layer(mixer, Of("cp2 dp1 mb1 gb1"));
  const auto& ops = layer.graph().ops();
  const auto scan = std::ranges::find(ops, GraphOpKind::kStateScan, &GraphOp::kind);
  ASSERT_NE(scan, ops.end());
  int64_t bytes = 0;
  for (const KernelWork& work : ScanCopies(layer, *scan)) bytes += work.total_bytes();
  EXPECT_EQ(bytes, 32 * 2 * 2 * (3 * (2 * 512 + 2 * 128 + 16) + 2 * 512));
}

// A model whose layers are known is judged, with fewer of them its first ones; others are refused.
TEST(HybridLayersTest, PublishedRows) {
  const TempFolder folder;
  const std::string path = folder.path() + "/rows.csv";
  std::ofstream(path)
      << kHeader
      << "nemotron-h-small,,,,,,,,8,H100,8,2,1,4,1,,,1,,8,BF16,none,none,NeMo,0,1,\n"
         "nemotron-h-small,6,,,,,,,8,H100,8,2,1,4,1,,,1,,8,BF16,none,none,NeMo,0,1,"
         "\n"
         "nemotron-h-small,9,,,,,,,8,H100,8,2,1,4,1,,,1,,8,BF16,none,none,NeMo,0,1,"
         "\n"
         "mamba-9B,,,,,,,,8,H100,8,1,1,8,1,,,1,,8,BF16,none,,NeMo,0,1,\n"
         "AI21-Jamba-1.5-Large,,,,,,,,8,H100,8,1,1,8,1,,,1,,8,BF16,none,,NeMo,0,1,\n"
         "MiniMax-Text-01,,,,,,,,8,H100,8,1,1,8,1,,,1,,8,BF16,none,,NeMo,0,1,\n"
         "Kimi-Linear-48B-A3B,,,,,,,,8,H100,8,1,1,8,1,,,1,,8,BF16,none,,NeMo,0,1,\n";
  const auto rows = LoadTrainingRows(path, KnownHybrid, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].refused, "");
  EXPECT_EQ((*rows)[0].config.pattern, "M-M*-M*-");
  EXPECT_EQ((*rows)[1].refused, "");
  EXPECT_EQ((*rows)[1].config.pattern, "M-M*-M");
  EXPECT_THAT((*rows)[2].refused, HasSubstr("pattern has 8 letters for 9 layers"));
  for (size_t i = 3; i < rows->size(); ++i) {
    EXPECT_THAT((*rows)[i].refused, HasSubstr("a model with state-space layers")) << i;
  }
}

}  // namespace
}  // namespace foretrace
