// Kept inputs of recomputed layers: several layers to each, divided over tensor-parallel ranks, or
// on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "simulator/mapping/idle_choice.h"
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

// The other half comes at 100 GB/s in one step of 2 us before each layer runs again, or before each
// second one; what is copied takes no time.
TEST(KeptInputsTest, PartsAreGatheredBeforeLayersRunAgain) {
  const ClusterParameters p = GemmsAlone();
  const auto of = [&](const char* words) { return Times(Model(), Words(words), p); };
  const PassTimes plain = of("tp2 full"), divided = of("tp2 full partition-activations");
  const double gather = kInput / 2 / 100e9 * 1e6 + 2;
  EXPECT_NEAR((divided.layer_forward - plain.layer_forward).us(), 0, 0.1);
  EXPECT_NEAR((divided.layer_backward - plain.layer_backward).us(), gather, 0.1);
  EXPECT_EQ(CountOf(divided, false, ShardGroup::kTensor, CollectiveOp::kAllGather), 1);
  EXPECT_EQ(CountOf(plain, false, ShardGroup::kTensor, CollectiveOp::kAllGather), 0);
  const PassTimes paired = of("tp2 full uniform2 partition-activations");
  EXPECT_NEAR((paired.layer_backward - plain.layer_backward).us(), gather / 2, 0.1);
}

// 2 MiB over 1 GB/s to the host, more than a layer's passes take, beside which they go; through
// pageable memory these wait: at what a core moves, or a third of a device's share of 0.8 of what
// the host's memory does.
TEST(KeptInputsTest, InputsGoToTheHostAndComeBack) {
  ClusterParameters p = GemmsAlone();
  p.host_link = Bandwidth::GBps(1);
  const auto more = [&](const char* words) {
    const PassTimes plain = Times(Model(), Words("full"), p),
                    with = Times(Model(), Words(words), p);
    EXPECT_GT(plain.layer_backward, plain.layer_forward);
    return std::array{(with.layer_forward - plain.layer_forward).us(),
                      (with.layer_backward - plain.layer_backward).us(), plain.layer_forward.us(),
                      plain.layer_backward.us()};
  };
  const double copy = kInput / 1e9 * 1e6;
  auto [forward, backward, layer, layer_back] = more("full offload-activations");
  EXPECT_NEAR(forward, copy - layer, 0.1);
  EXPECT_NEAR(backward, copy - layer_back, 0.1);
  EXPECT_NEAR(more("full uniform2 offload-activations")[0], copy / 2 - layer, 0.1);
  p.host_link = Bandwidth::GBps(20);
  EXPECT_EQ(more("full offload-activations")[0], 0);  // shorter than the layer
  p.pageable_inputs = true;
  EXPECT_NEAR(more("full offload-activations")[0], copy / 20, 0.1);
  p.host_staging = Bandwidth::GBps(10);
  EXPECT_NEAR(more("full offload-activations")[1], copy / 10, 0.1);
  p.host_memory = Bandwidth::GBps(60);  // 0.8 x 60 / 8 devices / 3 accesses: 2 GB/s
  EXPECT_NEAR(more("full offload-activations")[0], copy / 2, 0.1);
  p.host_link = Bandwidth();
  const auto unknown = TimePasses(Model(), Words("full offload-activations"), p);
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), HasSubstr("level of kind host"));
}

// Two layers that run again at once lie twice as far apart: what of 12 h^2 weights stays gathered
// within as many elements is half of one layer's, a quarter of each of two.
TEST(KeptInputsTest, GatheredWeightsStayShorter) {
  ClusterParameters p = GemmsAlone();
  p.gathers_ahead = false;
  p.reuse_distance = static_cast<int64_t>(12 * kH2);
  const auto gathers = [&](const char* words) {
    const PassTimes times = Times(Model(), Words(words), p);
    return times.waited_backward.seconds() / times.waited_gathers.seconds();
  };
  EXPECT_NEAR(gathers("dp2 zero3 full"), 1.5, 0.01);
  EXPECT_NEAR(gathers("dp2 zero3 full uniform2"), 1.75, 0.01);
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
  EXPECT_THAT(fault("pp2 full uniform3"), HasSubstr("uniform3 is more than the 2 layers"));
  EXPECT_EQ(fault("pp2 full uniform2 offload-activations"), "");
  EXPECT_THAT(IdleChoice(Words("full uniform1")), HasSubstr("by itself anyway"));
}

}  // namespace
}  // namespace foretrace
