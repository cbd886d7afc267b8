// Kept inputs of recomputed layers: several layers to each, divided over tensor-parallel ranks, or
// on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// 1,024 tokens of h in two bytes.
constexpr int64_t kInput = 1024 * 1024 * 2;

ParallelMapping Words(const std::string& words) {
  const auto m = ParseMapping(words, 8, "test");
  EXPECT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(ParseMapping(ToString(*m), 8, "test")->recomputed_together, m->recomputed_together);
  return m.value_or(ParallelMapping());
}

// Four layers' inputs of one micro-batch; while layers run again what they keep, W of each, is
// there instead of their input: W - 1 input of one layer, W - 1/2 where half of it was there
// before, W where none was, 2 W - 1 of two.
TEST(KeptInputsTest, MemoryOfWhatIsKept) {
  const auto of = [](const char* words) { return MemoryOf(Model(), Words(words)); };
  const MemoryLedger plain = of("tp2 full"), whole = of("tp2");
  EXPECT_EQ(plain.activations, Bytes(4 * kInput));
  const Bytes layer(whole.activations.count() / 4);
  EXPECT_EQ(plain.recomputed, layer - Bytes(kInput));
  const MemoryLedger divided = of("tp2 full partition-activations");
  EXPECT_EQ(divided.activations, Bytes(4 * kInput / 2));
  EXPECT_EQ(divided.recomputed, layer - Bytes(kInput / 2));
  const MemoryLedger paired = of("tp2 full uniform2");
  EXPECT_EQ(paired.activations, Bytes(2 * kInput));
  EXPECT_EQ(paired.recomputed, layer + layer - Bytes(kInput));
  EXPECT_EQ(of("tp2 full uniform2 partition-activations").activations, Bytes(kInput));
  const ParallelMapping away = Words("tp2 full uniform2 partition-activations offload-activations");
  const MemoryLedger on_host = MemoryOf(Model(), away);
  EXPECT_EQ(on_host.activations, Bytes());
  EXPECT_EQ(on_host.recomputed, layer + layer);
  EXPECT_EQ(HostMemoryOf(Model(), away, 0).total(), Bytes(kInput));
  EXPECT_EQ(on_host.weights, plain.weights);
}

// Both passes of all four layers of a stage, in microseconds.
std::array<double, 2> PassesOf(const char* words, const ClusterParameters& p, int32_t stage = 0) {
  const ParallelMapping m = Words(words);
  const auto at = static_cast<size_t>(stage);
  const LinePipeline line = LineOf(Model(), m, Times(Model(), m, p)).line;
  return {line.forward[at].us(), line.backward[at].us()};
}

// What `words` add to both of `plain`.
std::array<double, 2> More(const char* plain, const char* words, const ClusterParameters& p,
                           int32_t stage = 0) {
  const auto before = PassesOf(plain, p, stage), after = PassesOf(words, p, stage);
  return {after[0] - before[0], after[1] - before[1]};
}

// The other half comes at 100 GB/s in one step of 2 us before each of four layers runs again, or
// before each second one; what is copied takes no time. Three layers and a fourth: two inputs, as
// of three and three of six.
TEST(KeptInputsTest, PartsAreGatheredBeforeLayersRunAgain) {
  const ClusterParameters p = GemmsAlone();
  const double gather = kInput / 2 / 100e9 * 1e6 + 2;
  const auto [forward, backward] = More("tp2 full", "tp2 full partition-activations", p);
  EXPECT_NEAR(forward, 0, 0.1);
  EXPECT_NEAR(backward, 4 * gather, 0.1);
  const auto of = [&](const char* words) { return More("tp2 full", words, p)[1]; };
  EXPECT_NEAR(of("tp2 full uniform2 partition-activations"), 2 * gather, 0.1);
  EXPECT_NEAR(of("tp2 full uniform3 partition-activations"), 2 * gather, 0.1);
  EXPECT_NEAR(of("tp2 full uniform4 partition-activations"), gather, 0.1);
  // Of two chunks of two layers each one.
  EXPECT_NEAR(More("tp2 pp2 full", "tp2 pp2 full uniform2 partition-activations", p, 1)[1], gather,
              0.1);
}

// 2 MiB over 1 GB/s to the host, more than a layer's passes take, beside which they go; through
// pageable memory these wait: at what a core moves, or a third of a device's share of 0.8 of what
// the host's memory does.
TEST(KeptInputsTest, InputsGoToTheHostAndComeBack) {
  ClusterParameters p = GemmsAlone();
  p.host_link = Bandwidth::GBps(1);
  const PassTimes plain = Times(Model(), Words("full"), p);
  const double layer = plain.layer_forward.us(), layer_back = plain.layer_backward.us();
  EXPECT_GT(layer_back, layer);
  const auto more = [&](const char* words) { return More("full", words, p); };
  const double copy = kInput / 1e9 * 1e6;
  EXPECT_NEAR(more("full offload-activations")[0], 4 * (copy - layer), 0.1);
  EXPECT_NEAR(more("full offload-activations")[1], 4 * (copy - layer_back), 0.1);
  EXPECT_NEAR(more("full uniform2 offload-activations")[0], 2 * (copy - 2 * layer), 0.1);
  // Of three layers that hide the first copy and one that hides the second.
  ASSERT_GT(copy, 3 * layer);
  EXPECT_NEAR(more("full uniform3 offload-activations")[0], 2 * copy - 4 * layer, 0.1);
  p.host_link = Bandwidth::GBps(20);
  EXPECT_EQ(more("full offload-activations")[0], 0);  // shorter than the layer
  p.pageable_inputs = true;
  EXPECT_NEAR(more("full offload-activations")[0], 4 * copy / 20, 0.1);
  EXPECT_NEAR(more("full uniform3 offload-activations")[0], 2 * copy / 20, 0.1);
  p.host_staging = Bandwidth::GBps(10);
  EXPECT_NEAR(more("full offload-activations")[1], 4 * copy / 10, 0.1);
  p.host_memory = Bandwidth::GBps(60);  // 0.8 x 60 / 8 devices / 3 accesses: 2 GB/s
  EXPECT_NEAR(more("full offload-activations")[0], 4 * copy / 2, 0.1);
  p.host_link = Bandwidth();
  const auto unknown = TimePasses(Model(), Words("full offload-activations"), p);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), HasSubstr("level of kind host"));
}

// Three of four layers are frozen and keep nothing: one input leaves and one returns.
TEST(KeptInputsTest, FrozenLayersKeepNone) {
  ClusterParameters p = GemmsAlone();
  p.host_link = Bandwidth::GBps(1);
  p.pageable_inputs = true;
  const double copy = kInput / 1e9 * 1e6;
  for (const double more : More("full last1", "full last1 offload-activations", p)) {
    EXPECT_NEAR(more, copy, 0.1);
  }
  p.pageable_inputs = false;  // it has its own layer alone to hide behind
  const double layer = Times(Model(), Words("full last1"), p).layer_forward.us();
  EXPECT_NEAR(More("full last1", "full last1 offload-activations", p)[0], copy - layer, 0.1);
}

// Half of 12 h^2 weights of two bytes comes from the host for each layer's backward pass, and its
// input the same way: at 10 GB/s 1.26 ms and 0.21 ms, where kernels take 0.9. Gradients go the
// other way, as inputs do forward.
TEST(KeptInputsTest, InputsShareTheWayWithWeights) {
  ClusterParameters p = GemmsAlone();
  p.host_link = Bandwidth::GBps(10);
  p.host_memory = Bandwidth::GBps(1e6);
  const auto kept = [&](const char* words) {
    const PassTimes t = Times(Model(), Words(words), p);
    return std::array{t.kept_forward.room, t.kept_backward.room, t.layer_forward, t.layer_backward};
  };
  const auto alone = kept("dp2 full zero3 overlap offload offload-activations");
  EXPECT_EQ(alone[0], alone[2]);
  EXPECT_EQ(alone[1], alone[3]);
  const auto both = kept("dp2 full zero3 overlap offload offload-weights offload-activations");
  EXPECT_EQ(both[0], both[2]);
  EXPECT_EQ(both[1], SimTime());  // weights alone take longer than the kernels
  p.host_link = Bandwidth::GBps(20);
  const auto wide = kept("dp2 full zero3 overlap offload offload-weights offload-activations");
  EXPECT_NEAR((wide[3] - wide[1]).us(), MappedLayer(Model(), Words("dp2")).dense() / 20e9 * 1e6,
              0.1);
}

// Two layers that run again at once lie twice as far apart: what of 12 h^2 weights stays gathered
// within as many elements is half of one layer's, a quarter of each of two.
TEST(KeptInputsTest, GatheredWeightsStayShorter) {
  ClusterParameters p = GemmsAlone();
  p.gathers_ahead = false;
  p.reuse_distance = static_cast<int64_t>(12 * kH2);
  const auto gathers = [&](const char* words) {
    const PassTimes times = Times(Model(), Words(words), p);
    return times.gathers_backward.seconds() / times.gathers_forward.seconds();
  };
  EXPECT_NEAR(gathers("dp2 zero3 full"), 1.5, 0.01);
  EXPECT_NEAR(gathers("dp2 zero3 full uniform2"), 1.75, 0.01);
}

// Six layers: five and one are two inputs, four and two as well; divided into chunks of three,
// two and one are two each. What runs again at once are five layers, or four.
TEST(KeptInputsTest, LayersThatDoNotDivide) {
  TransformerConfig c = Model();
  c.layers = 6;
  const auto of = [&](const char* words) { return MemoryOf(c, Words(words)); };
  const Bytes layer(of("tp2").activations.count() / 6);
  for (const char* words : {"tp2 full uniform5", "tp2 full uniform4"}) {
    EXPECT_EQ(of(words).activations, Bytes(2 * kInput)) << words;
  }
  EXPECT_EQ(of("tp2 full uniform5").recomputed, Bytes(5 * layer.count() - kInput));
  EXPECT_EQ(of("tp2 full uniform4").recomputed, Bytes(4 * layer.count() - kInput));
  EXPECT_EQ(of("tp2 full uniform6").activations, Bytes(kInput));
  const ParallelMapping chunks = Words("pp2 full uniform2");
  EXPECT_EQ(InputsOf(c, chunks, 0, 0), 2);
  EXPECT_EQ(InputsOf(c, chunks, 1, 0), 2);
  const ModelLayers layers(c);
  EXPECT_EQ(ChunkStash(layers, chunks, 1, 0), 2 * kInput);
  // Five and one.
  const ParallelMapping uneven = Words("pp2 full uniform2 layers=5,1");
  EXPECT_EQ(ChunkStash(layers, uneven, 0, 0), 3 * kInput);
  EXPECT_EQ(ChunkStash(layers, uneven, 1, 0), kInput);
  // Of stages whose layers run again two at once, or one, one layer's lies between.
  EXPECT_EQ(StageMemoryOf(c, chunks, 0).recomputed - StageMemoryOf(c, uneven, 1).recomputed,
            Bytes(of("tp1").activations.count() / 6));
}

TEST(KeptInputsTest, WordsThatCannotBe) {
  const auto fault = [](const char* words) {
    return std::string(CheckMapping(Model(), Words(words), 0).message());
  };
  EXPECT_THAT(fault("uniform2"), HasSubstr("full would do"));
  EXPECT_THAT(fault("tp2 selective partition-activations"), HasSubstr("full would do"));
  EXPECT_THAT(fault("offload-activations"), HasSubstr("full would do"));
  EXPECT_THAT(fault("full partition-activations"), HasSubstr("tp1 has no such group"));
  EXPECT_THAT(fault("tp2 sp full partition-activations"), HasSubstr("has its own part"));
  EXPECT_THAT(fault("pp2 full uniform3"), HasSubstr("uniform3 is more than the 2 trained"));
  // The largest chunk counts, of layers with a backward pass.
  EXPECT_EQ(fault("pp2 full uniform3 layers=3,1"), "");
  EXPECT_THAT(fault("pp2 full uniform4 layers=3,1"), HasSubstr("uniform3 or less would do"));
  EXPECT_THAT(fault("full uniform3 last2"), HasSubstr("the 2 trained"));
  EXPECT_EQ(fault("pp2 full uniform2 offload-activations"), "");
  EXPECT_THAT(IdleChoice(Words("full uniform1")), HasSubstr("by itself anyway"));
  for (const char* word : {"uniform0", "hsdp0", "last=0", "lora0"}) {
    EXPECT_THAT(IdleWord(std::string("tp2 full ") + word, false), HasSubstr("leave it out"));
  }
  EXPECT_EQ(IdleWord("tp2 zero3 hsdp0", true), "");
  EXPECT_EQ(IdleWord("tp2 zero0 hsdp2x4 lora-all last2", false), "");
}

}  // namespace
}  // namespace foretrace
