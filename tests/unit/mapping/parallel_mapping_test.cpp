#include "simulator/mapping/parallel_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapping_file.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/memory_timeline.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/reserved_memory.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

using testing::HasSubstr;
using testing::Not;

TransformerConfig Gpt22B() {
  TransformerConfig c;
  c.hidden = 6144;
  c.layers = 48;
  c.heads = 64;
  c.vocabulary = 51200;
  c.sequence = 2048;
  return c;
}

ParallelMapping Mapping(int32_t t, int32_t p, int32_t d, int32_t batch) {
  ParallelMapping m;
  m.tensor = t;
  m.pipeline = p;
  m.data = d;
  m.global_batch = batch;
  return m;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ParallelMappingTest, TextRoundTrip) {
  ParallelMapping m = Mapping(4, 2, 8, 64);
  m.context = 2;
  m.expert = 4;
  m.micro_batch = 2;
  m.recompute = Recompute::kSelective;
  m.sequence_parallel = true;
  m.zero = 2;
  m.overlap_gradients = true;
  m.schedule = ScheduleKind::kKFKB;
  m.k = 4;
  EXPECT_EQ(ToString(m), "tp4 cp2 pp2 dp8 ep4 mb2 v1 selective sp zero2 overlap kfkb k4");
  const auto read = ParseMapping(ToString(m), 64, "test");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, m);
  const auto file = ParseMappingFile(MappingYaml(m), "m.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(std::get<ParallelMapping>(*file), m);
  EXPECT_THAT(Message(ParseMapping("tp8 pq4", 8, "here").status()), HasSubstr("'pq4'"));
  EXPECT_THAT(Message(ParseMapping("tp0", 8, "here").status()), HasSubstr("between 1 and"));
  EXPECT_FALSE(ParseMapping("", 8, "here").ok());
  // A file says the batch itself.
  EXPECT_FALSE(ParseMappingFile("parallel: tp1 pp1\n", "m.yaml").ok());
}

TEST(ParallelMappingTest, PartByPartAndHybrid) {
  const auto read = ParseMapping("tp4 pp1 dp16 mb1 v1 none sp zero3 tp-async hsdp4", 64, "test");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->async_tensor);
  EXPECT_EQ(read->shards(), 4);
  EXPECT_EQ(ToString(*read), "tp4 pp1 dp16 mb1 v1 none sp zero3 tp-async hsdp4");
  EXPECT_TRUE(CheckMapping(Gpt22B(), *read, 64).ok());
  const auto fault = [](const char* text) {
    const auto m = ParseMapping(text, 64, "test");
    return m.ok() ? Message(CheckMapping(Gpt22B(), *m, 0)) : Message(m.status());
  };
  EXPECT_THAT(fault("tp4 dp16 tp-async"), HasSubstr("need sequence parallelism"));
  EXPECT_THAT(fault("tp4 dp16 tp-chunked"), HasSubstr("need sequence parallelism"));
  EXPECT_THAT(fault("tp4 dp16 sp tp-async tp-chunked"), HasSubstr("say one"));
  EXPECT_THAT(fault("tp4 dp16 hsdp4"), HasSubstr("zero1, zero2 or zero3 too"));
  const std::string sixteen = fault("tp4 dp8 zero3 hsdp16");
  EXPECT_THAT(sixteen, HasSubstr("hsdp16 does not divide the 8 replicas (dp * cp); hsdp4 would"));
  EXPECT_THAT(sixteen, Not(HasSubstr("dualpipe")));
  EXPECT_THAT(fault("dp12 zero3 hsdp5"), HasSubstr("hsdp4 or hsdp6 would do"));
  EXPECT_EQ(fault("tp4 dp16 zero1 hsdp4"), "");
  EXPECT_THAT(fault("pp2 dp16 zero1 hsdp4 dualpipe"), HasSubstr("1f1b or zb-h1 would do"));
  const auto experts = [](const char* text) {
    TransformerConfig c = Gpt22B();
    c.experts = 16;
    c.top_k = 2;
    return Message(CheckMapping(c, *ParseMapping(text, 64, "test"), 0));
  };
  EXPECT_EQ(experts("dp16 ep8 zero3 hsdp8"), "");
  EXPECT_EQ(experts("tp2 sp dp16 ep16 etp1 zero3 hsdp8"), "");
  EXPECT_THAT(experts("dp16 ep16 zero3 hsdp8"),
              HasSubstr("hsdp8 replicas, whose 8 parts expert parallelism 16 does not divide"));
  EXPECT_THAT(experts("tp2 sp dp16 ep16 zero3 hsdp8"), HasSubstr("whose 8 parts"));
  EXPECT_THAT(fault("tp4 dp16 zero3 hsdp3"), HasSubstr("hsdp2 or hsdp4 would do"));
  EXPECT_THAT(fault("tp4 dp16 zero3 hsdp1"), HasSubstr("hsdp2 would do"));
  EXPECT_THAT(fault("tp4 dp16 zero3 hsdp2x4"),
              HasSubstr("hsdp2x4 is 8 replicas, but dp 16 x cp 1"));
  EXPECT_THAT(fault("tp4 dp16 zero3 hsdp4x4 hsdp4"), HasSubstr("given twice"));
  EXPECT_THAT(fault("tp4 dp16 zero3 hsdpx4"), HasSubstr("'hsdpx4' is not part of a mapping"));
  EXPECT_THAT(fault("hsdp4x4 tp4 dp16 zero3 sq"), HasSubstr("'sq' is not part of a mapping"));
  EXPECT_EQ(fault("hsdp4x4 tp4 dp16 zero3"), "");
  EXPECT_EQ(ParseMapping("hsdp2x8 dp16 zero3", 64, "test")->hybrid, 8);
}

TEST(ParallelMappingTest, StageFileRoundTrip) {
  StageMapping stages;
  stages.mini_batch = 32;
  stages.sequential = true;
  stages.stages = {{{"a", "b c"}, 2, 2, {4, 1}, {"b c"}}, {{"d"}, 1, 1, {8, 2}, {}}};
  const auto read = ParseMappingFile(MappingYaml(stages), "m.yaml");
  ASSERT_TRUE(read.ok()) << read.status();
  const auto& got = std::get<StageMapping>(*read);
  EXPECT_EQ(got.mini_batch, 32);
  EXPECT_TRUE(got.sequential);
  ASSERT_EQ(got.stages.size(), 2u);
  EXPECT_EQ(got.stages[0].operators, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(got.stages[0].recomputed, (std::vector<std::string>{"b c"}));
  EXPECT_EQ(got.stages[0].tensor, 2);
  EXPECT_EQ(got.stages[1].tensor, 1);
  EXPECT_EQ(got.stages[1].config, (StageConfig{8, 2}));
  EXPECT_TRUE(got.stages[1].recomputed.empty());
  // Whether operators are partitioned is checked against the model (GraphPipeTest).
}

// GEMMs and attention are divided alike over tensor-parallel ranks, or not at all: parts of a width
// that are rounded down would be less work than there is.
TEST(ParallelMappingTest, WidthsThatRanksCannotShareAreNamed) {
  const auto fault = [](const char* words, const auto& change) {
    TransformerConfig c = Gpt22B();
    change(c);
    return Message(CheckMapping(c, *ParseMapping(words, 64, "test"), 0));
  };
  const auto keys = [](int64_t n) { return [n](TransformerConfig& c) { c.kv_heads = n; }; };
  EXPECT_THAT(fault("tp2", [](TransformerConfig& c) { c.ffn = 13337; }),
              HasSubstr("tensor parallelism 2 does not divide the 13337 feed-forward columns"));
  EXPECT_THAT(fault("tp8", keys(10)), HasSubstr("10 heads of keys"));
  EXPECT_EQ(fault("tp2", keys(10)), "");
  EXPECT_EQ(fault("tp8", keys(2)), "");  // each is held by four ranks
  const auto experts = [](TransformerConfig& c) {
    c.experts = 8;
    c.top_k = 2;
    c.ffn = 1111;
  };
  EXPECT_THAT(fault("tp2 dp4 ep4 sp", experts), HasSubstr("1111 feed-forward columns"));
  EXPECT_EQ(fault("tp2 dp4 ep4 sp etp1", experts), "");
  EXPECT_THAT(fault("tp2 dp4 ep4 sp etp1",
                    [&](TransformerConfig& c) {
                      experts(c);
                      c.shared_ffn = 333;
                    }),
              HasSubstr("333"));
}

TEST(ParallelMappingTest, ViolatedConditionsAreNamed) {
  const TransformerConfig c = Gpt22B();
  EXPECT_THAT(Message(CheckMapping(c, Mapping(1, 5, 1, 8), 0)), HasSubstr("C1"));
  EXPECT_THAT(Message(CheckMapping(c, Mapping(8, 1, 1, 8), 16)), HasSubstr("C3"));
  EXPECT_THAT(Message(CheckMapping(c, Mapping(1, 1, 3, 8), 0)), HasSubstr("C5"));
  ParallelMapping m = Mapping(1, 8, 1, 12);
  m.chunks = 2;
  EXPECT_THAT(Message(CheckMapping(c, m, 0)), HasSubstr("C4"));
  m = Mapping(1, 1, 4, 8);
  m.expert = 2;
  EXPECT_THAT(Message(CheckMapping(c, m, 0)), HasSubstr("experts"));
}

// 48 layers as 11, 13, 13, 11; the counts must be as many as chunks and add up.
// Each choice in a mapping that has nothing for it, and beside it one that has.
TEST(ParallelMappingTest, ChoicesThatChangeNothing) {
  const auto idle = [](const char* words) { return IdleChoice(*ParseMapping(words, 16, "test")); };
  for (const char* word : {"zero1", "zero2", "overlap", "zero1 offload"}) {
    EXPECT_THAT(idle((std::string("tp2 pp2 dp1 mb1 ") + word).c_str()), HasSubstr("one replica"));
    EXPECT_EQ(idle((std::string("tp2 pp2 dp2 mb1 ") + word).c_str()), "");
    EXPECT_EQ(idle((std::string("tp2 cp2 pp1 dp1 mb1 ") + word).c_str()), "");
  }
  EXPECT_EQ(idle("tp1 pp1 dp1 mb1 zero2 offload"), "");  // the host keeps gradients
  EXPECT_EQ(idle("tp1 pp1 dp1 mb1 zero3"), "");          // weights come layer by layer
  EXPECT_THAT(idle("tp1 pp1 dp2 mb1 tp-exposed"), HasSubstr("tp1"));
  EXPECT_EQ(idle("tp2 pp1 dp1 mb1 tp-exposed"), "");
  EXPECT_THAT(idle("tp1 pp1 dp4 mb1 zero3 hsdp4"), HasSubstr("all 4 replicas"));
  EXPECT_EQ(idle("tp1 pp1 dp4 mb1 zero3 hsdp2"), "");
  EXPECT_THAT(idle("tp1 pp1 dp2 mb1 zb-h1"), HasSubstr("pp1"));
  EXPECT_EQ(idle("tp1 pp2 dp1 mb1 zb-h1"), "");
  // Each stage is on two devices.
  EXPECT_EQ(idle("tp1 pp2 dp1 mb1 dualpipe zero1 overlap"), "");
  for (const char* word : {"dispatch=deepep", "dispatch=hybridep", "dispatch=allgather",
                           "dispatch-fp8", "ep-overlap"}) {
    EXPECT_THAT(idle((std::string("tp1 pp1 dp2 mb1 ") + word).c_str()), HasSubstr("ep1"));
    EXPECT_EQ(idle((std::string("tp1 pp1 dp2 ep2 mb1 ") + word).c_str()), "");
  }
  EXPECT_THAT(idle("tp1 pp1 dp16 ep2 mb1 ep-overlap"), HasSubstr("so few micro-batches"));
  EXPECT_EQ(idle("tp1 pp4 dp4 ep2 mb1 v2 ep-overlap"), "");
  EXPECT_EQ(idle("tp1 pp4 dp2 ep2 mb1 v2 ep-overlap"), "");
  EXPECT_EQ(idle("tp1 pp1 dp1 mb1 none 1f1b grad32 v1 k1"), "");  // defaults
}

// How tokens go to experts; in any case of letters.
TEST(ParallelMappingTest, DispatchOfTokens) {
  const std::string text =
      "tp1 pp1 dp8 ep8 mb1 v1 none dispatch=deepep dispatch-fp8 ep-overlap fp8";
  const auto m = ParseMapping("DP8 EP8 Dispatch=DeepEP FP8 dispatch-fp8 ep-overlap", 8, "test");
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(m->dispatch, ExpertDispatch::kDeepEp);
  const auto again = ParseMapping(ToString(*m), 8, "test");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *m);
  EXPECT_EQ(*ParseMapping(text, 8, "test"), *m);
  EXPECT_EQ(ParseMapping("ep8 dispatch=alltoall", 8, "test")->dispatch, ExpertDispatch::kAllToAll);
  EXPECT_THAT(Message(ParseMapping("dispatch=alltoall dispatch=deepep", 8, "test").status()),
              HasSubstr("'dispatch' is given twice"));
  EXPECT_FALSE(ParseMapping("dispatch=ring", 8, "test").ok());
  TransformerConfig c = Gpt22B();
  c.experts = 8;
  c.top_k = 2;
  EXPECT_TRUE(CheckMapping(c, *m, 8).ok());
  EXPECT_THAT(Message(CheckMapping(c, *ParseMapping("dp8 ep8 ep-overlap gpipe", 8, "test"), 8)),
              HasSubstr("dualpipe or dualpipev"));
  EXPECT_THAT(
      Message(CheckMapping(c, *ParseMapping("dp8 ep8 ep-overlap alternate", 16, "test"), 8)),
      HasSubstr("alternate recomputation"));
  // Of experts that tensor parallelism divides.
  const auto divided = ParseMapping("tp2 dp8 ep8 sp dispatch=deepep", 8, "test");
  EXPECT_THAT(Message(CheckMapping(c, *divided, 16)), HasSubstr("whole experts"));
  EXPECT_TRUE(
      CheckMapping(c, *ParseMapping("tp2 dp8 ep8 sp etp1 dispatch=deepep", 8, "test"), 16).ok());
}

TEST(ParallelMappingTest, StatedLayers) {
  const std::string text = "tp1 pp4 dp1 mb1 v1 none layers=11,13,13,11";
  const auto m = ParseMapping(text, 8, "test");
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(ToString(*m), text);
  EXPECT_EQ(ParseMapping("pp4 layers=[11,13,13,11]", 8, "test")->layers, m->layers);
  // Said once more they replace those before.
  ParallelMapping again = *m;
  EXPECT_TRUE(AddWords("layers=12,12,12,12", "test", again).ok());
  EXPECT_THAT(again.layers, testing::ElementsAre(12, 12, 12, 12));
  EXPECT_TRUE(CheckMapping(Gpt22B(), *m, 4).ok());
  EXPECT_EQ(StageLayers(Gpt22B(), *m, 1), 13);
  for (const char* wrong :
       {"pp4 layers=12,12,12", "pp4 layers=12,12,12,13", "pp2 layers=24,24 ends"}) {
    const auto bad = ParseMapping(wrong, 8, "test");
    ASSERT_TRUE(bad.ok()) << wrong;
    EXPECT_THAT(Message(CheckMapping(Gpt22B(), *bad, 0)), HasSubstr("C1")) << wrong;
  }
  for (const char* bad : {"layers=", "layers=1,", "layers=0,2", "layers=[1,2", "layers=1;2"}) {
    EXPECT_FALSE(ParseMapping(bad, 8, "test").ok()) << bad;
  }
}

// The counts that memory is computed from are those of the schedules themselves.
TEST(ParallelMappingTest, InFlightIsTheSchedules) {
  for (const auto kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kKFKB}) {
    for (const int32_t p : {1, 2, 4, 8}) {
      for (const int32_t count : {1, 2, 8, 24}) {
        for (const int32_t chunks : {1, 3}) {
          ParallelMapping m = Mapping(1, p, 1, count);
          m.schedule = kind;
          m.k = kind == ScheduleKind::kKFKB ? 2 : 1;
          m.chunks = chunks;
          if (!CheckMapping(Gpt22B(), m, 0).ok()) continue;
          for (int32_t s = 0; s < p; ++s) {
            const auto passes = StagePasses(m, s);
            ASSERT_TRUE(passes.ok());
            EXPECT_EQ(ChunksInFlight(m, s), PeakInFlight(*passes))
                << ToString(m) << " batch " << count << " stage " << s;
          }
        }
      }
    }
  }
}

// Korthikanti et al., table 2: s b h (34 + 5 a s / h) bytes a layer without parallelism; with
// tensor parallelism t of 8: s b h (10 + 24/t + 5 a s / (h t)); with sequence parallelism all of it
// divided; selective recomputation drops the second term; full keeps 2 s b h.
// Where the embedding and the output layer count as layers, the second stage may be fuller than the
// first: it has a layer more, and one micro-batch less in flight.
TEST(MemoryModelTest, FullestOfStagesWithCountedEnds) {
  TransformerConfig c = Gpt22B();
  for (const int32_t layers : {6, 14, 126}) {
    c.layers = layers;
    ParallelMapping m = Mapping(1, 8, 1, 16);
    m.counted_ends = true;
    ASSERT_TRUE(CheckMapping(c, m, 8).ok()) << CheckMapping(c, m, 8);
    Bytes most, reserved;
    for (int32_t s = 0; s < 8; ++s) {
      const Bytes own = StageMemoryOf(c, m, s).total();
      most = std::max(most, own);
      reserved = std::max(reserved, own + FollowAllocations(c, m, s)->Fragments());
    }
    EXPECT_EQ(MemoryOf(c, m).total(), most) << layers;
    EXPECT_EQ(*ReservedMemoryOf(c, m), reserved) << layers;
  }
}

// ZB-V's first device has the model's both ends, each device a chunk of either half; what it keeps
// is as much as 1F1B's first stage.
TEST(MemoryModelTest, ZeroBubbleV) {
  TransformerConfig c = Gpt22B();
  c.tied = false;
  ParallelMapping m = Mapping(1, 8, 2, 64);
  const MemoryLedger plain = MemoryOf(c, m);
  m.schedule = ScheduleKind::kZeroBubbleV;
  EXPECT_FALSE(CheckMapping(c, m, 16).ok());  // one chunk
  m.chunks = 2;
  // 48 layers are three in each of 16 chunks.
  ASSERT_TRUE(CheckMapping(c, m, 16).ok()) << CheckMapping(c, m, 16);
  for (int32_t s = 0; s < 8; ++s) {
    EXPECT_EQ(HasHead(m, s), s == 0);
    EXPECT_EQ(HasEmbedding(m, s), s == 0);
    EXPECT_EQ(FirstLayer(c, m, s, 1), (15 - s) * 3);
  }
  EXPECT_TRUE(HasHead(m, 0, 1));
  EXPECT_FALSE(HasHead(m, 7, 1));
  const MemoryLedger v = MemoryOf(c, m);
  EXPECT_NEAR(
      static_cast<double>(v.activations.count()) / static_cast<double>(plain.activations.count()),
      1, 1e-9);
  EXPECT_GT(v.weights, plain.weights);
  // Tied, the first device has one table for both ends.
  c.tied = true;
  EXPECT_EQ(StageMemoryOf(c, m, 0).weights - StageMemoryOf(c, m, 1).weights,
            MemoryOf(c, Mapping(1, 1, 16, 64)).weights -
                Bytes(8 * StageMemoryOf(c, m, 1).weights.count()));
  // A stage more than twice half of a stage's.
  m.schedule = ScheduleKind::kDualPipeV;
  ASSERT_TRUE(CheckMapping(c, m, 16).ok()) << CheckMapping(c, m, 16);
  EXPECT_EQ(ChunksInFlight(m, 0), 17);
  m.zero = 2;
  EXPECT_FALSE(CheckMapping(c, m, 16).ok());
}

// A device of DualPipe has two stages, the first and the last one together, and of P stages P + 1
// activations where 1F1B has P; its copies of weights divide the optimizer's states among them.
TEST(MemoryModelTest, DualPipe) {
  TransformerConfig c = Gpt22B();
  c.tied = false;
  ParallelMapping m = Mapping(1, 8, 2, 64);
  m.zero = 1;
  const MemoryLedger plain = MemoryOf(c, m);
  const double last = static_cast<double>(StageMemoryOf(c, m, 7).weights.count());
  m.schedule = ScheduleKind::kDualPipe;
  ASSERT_TRUE(CheckMapping(c, m, 16).ok()) << CheckMapping(c, m, 16);
  for (int32_t s = 0; s < 8; ++s) {
    EXPECT_EQ(StageLayers(c, m, s), c.layers / 4);
    EXPECT_EQ(HasHead(m, s), s == 0 || s == 7);
    EXPECT_EQ(StageMemoryOf(c, m, s).total(), StageMemoryOf(c, m, 7 - s).total());
  }
  EXPECT_EQ(FirstLayer(c, m, 0, 1), c.layers / 8 * 7);
  const MemoryLedger dual = MemoryOf(c, m);
  const auto share = [](Bytes a, Bytes b) {
    return static_cast<double>(a.count()) / static_cast<double>(b.count());
  };
  EXPECT_NEAR(share(dual.activations, plain.activations), 9.0 / 8, 1e-9);
  EXPECT_NEAR(static_cast<double>(dual.weights.count()),
              static_cast<double>(plain.weights.count()) + last, 10);
  EXPECT_NEAR(share(dual.optimizer, dual.weights) / 1.5, 1, 1e-9);  // 12 of 2 bytes, over 4
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  const auto passes = TimePasses(c, m, cluster);
  ASSERT_TRUE(passes.ok()) << passes.status();
  const auto over_time = MemoryOverTime(c, m, *passes);
  ASSERT_TRUE(over_time.ok()) << over_time.status();
  for (int32_t s = 0; s < 8; ++s) {
    EXPECT_EQ((*over_time)[static_cast<size_t>(s)].peak.activations,
              StageMemoryOf(c, m, s).activations);
  }
}

// Where the embedding's gradient makes the peak, layers were recomputed before it all the same.
TEST(MemoryModelTest, RecomputedBesideALargeEmbedding) {
  TransformerConfig c = Gpt22B();
  c.layers = 4;
  c.vocabulary = 1 << 20;
  ParallelMapping m = Mapping(1, 2, 1, 4);
  m.recompute = Recompute::kFull;
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  const auto passes = TimePasses(c, m, cluster);
  ASSERT_TRUE(passes.ok()) << passes.status();
  const auto over_time = MemoryOverTime(c, m, *passes);
  ASSERT_TRUE(over_time.ok()) << over_time.status();
  const StageMemory& first = over_time->front();
  EXPECT_EQ(first.peak.total(), StageMemoryOf(c, m, 0).total());
  EXPECT_GT(first.peak.gathered, Bytes());
  const Bytes layer = StageMemoryAt(StageMoment::kLayers, ModelLayers(c), m, 0).total();
  EXPECT_GT(first.peak.total(), layer);
  const auto at_layers = [&](const MemorySample& sample) { return sample.bytes == layer; };
  EXPECT_TRUE(std::ranges::any_of(first.samples, at_layers));
}

TEST(ParallelMappingTest, DualPipeNeedsEvenNumbers) {
  const auto fault = [](const std::string& text) {
    const auto m = ParseMapping(text + " dualpipe", 64, "test");
    return m.ok() ? Message(CheckMapping(Gpt22B(), *m, 0)) : Message(m.status());
  };
  EXPECT_EQ(fault("tp1 pp8 dp2 mb1"), "");
  EXPECT_THAT(fault("tp1 pp8 dp8 mb1"),
              HasSubstr("at least twice as many; stages are 8, micro-batches 8;"));
  EXPECT_THAT(fault("tp1 pp3 dp2 mb1"), HasSubstr("stages are 3,"));
  EXPECT_THAT(fault("tp1 pp1 dp2 mb1"), HasSubstr("stages are 1,"));
  EXPECT_THAT(fault("tp1 pp2 dp2 mb1 v2"), HasSubstr("only 1F1B and ZB-H1 interleave"));
  EXPECT_THAT(fault("tp1 pp4 dp2 mb1 zero2"), HasSubstr("zero1 without lastN"));
}

TEST(MemoryModelTest, ActivationsOfALayer) {
  const TransformerConfig c = Gpt22B();
  const double sbh = 2048.0 * 4 * 6144, matrix = 5.0 * 64 * 2048 / 6144;
  ParallelMapping m = Mapping(1, 1, 1, 4);
  m.micro_batch = 4;
  EXPECT_DOUBLE_EQ(LayerStash(c, m, Recompute::kNone), sbh * (34 + matrix));
  m.tensor = 8;
  EXPECT_DOUBLE_EQ(LayerStash(c, m, Recompute::kNone), sbh * (10 + 24 / 8.0 + matrix / 8));
  m.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(LayerStash(c, m, Recompute::kNone), sbh * (34 + matrix) / 8);
  EXPECT_DOUBLE_EQ(LayerStash(c, m, Recompute::kSelective), sbh * 34 / 8);
  EXPECT_DOUBLE_EQ(LayerStash(c, m, Recompute::kFull), sbh * 2 / 8);
  m.context = 2;
  EXPECT_DOUBLE_EQ(LayerStash(c, m, Recompute::kSelective), sbh * 34 / 16);
}

// 2 + 2 + 12 bytes a parameter; what ZeRO divides over 8 replicas.
TEST(MemoryModelTest, ZeroDividesStates) {
  const TransformerConfig c = Gpt22B();
  ParallelMapping m = Mapping(1, 1, 8, 8);
  const double weights = static_cast<double>(MemoryOf(c, m).weights.count());
  EXPECT_NEAR(weights / 2, 22e9, 0.5e9);
  for (const int32_t zero : {0, 1, 2, 3}) {
    m.zero = zero;
    const MemoryLedger use = MemoryOf(c, m);
    EXPECT_NEAR(static_cast<double>(use.optimizer.count()), 6 * weights / (zero >= 1 ? 8 : 1), 64);
    EXPECT_NEAR(static_cast<double>(use.gradients.count()), weights / (zero >= 2 ? 8 : 1), 64);
    EXPECT_NEAR(static_cast<double>(use.weights.count()), weights / (zero >= 3 ? 8 : 1), 64);
  }
}

// Experts are divided by expert parallelism, the rest is not.
TEST(MemoryModelTest, ExpertParallelism) {
  TransformerConfig c = Gpt22B();
  c.layers = 1;
  c.vocabulary = 1;
  c.experts = 8;
  c.top_k = 2;
  ParallelMapping m = Mapping(1, 1, 8, 8);
  const double one = 8.0 * 6144 * 6144 + 5 * 6144;  // two matrices of h x 4h, and their biases
  const auto weights = [&] { return static_cast<double>(MemoryOf(c, m).weights.count()) / 2; };
  const double all = weights();
  m.expert = 8;
  EXPECT_NEAR(all - weights(), 7 * one, 10);
}

// Inputs go to a host that devices can reach.
TEST(MemoryModelTest, TheHostWouldFitWhereItsLinkIsKnown) {
  const TransformerConfig c = Gpt22B();
  ParallelMapping m = Mapping(8, 1, 1, 16);
  m.micro_batch = 16;
  m.recompute = Recompute::kFull;
  const Bytes capacity = MemoryOf(c, m).total() - Bytes(1 << 30);
  EXPECT_THAT(Message(CheckMemory(c, m, capacity, {.inputs = true})),
              HasSubstr("offload-activations"));
  EXPECT_THAT(Message(CheckMemory(c, m, capacity, {})), Not(HasSubstr("offload-activations")));
}

// 22 G parameters with 16 bytes each fit on no device, with 2 for the weights and 2 for a gradient
// on one of 192 GB; of what is not divided no other degree is said to help.
TEST(MemoryModelTest, TheOptimizerWouldFitOnTheHost) {
  const TransformerConfig c = Gpt22B();
  ParallelMapping m = Mapping(1, 1, 1, 1);
  m.recompute = Recompute::kFull;
  const auto message = [&](HostUse host) {
    return Message(CheckMemory(c, m, Bytes(192'000'000'000), host));
  };
  EXPECT_THAT(message({true, true}), HasSubstr("optimizer's states on the host (offload) would"));
  EXPECT_THAT(message({true, false}), HasSubstr("); more devices are needed"));
  m.offload = true;
  EXPECT_EQ(message({true, true}), "");
}

TEST(MemoryModelTest, SaysWhatWouldFit) {
  const TransformerConfig c = Gpt22B();
  ParallelMapping m = Mapping(8, 1, 1, 16);
  m.micro_batch = 16;
  const std::string message = Message(CheckMemory(c, m, Bytes(80'000'000'000), {.inputs = true}));
  EXPECT_THAT(message, HasSubstr("full recomputation would fit"));
  EXPECT_THAT(message, HasSubstr("micro-batches of 1 would fit"));
}

}  // namespace
}  // namespace foretrace
