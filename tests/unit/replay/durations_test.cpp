#include "simulator/replay/durations/durations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulator/engine/replay.h"
#include "simulator/replay/simulation_setup.h"
#include "tests/support/job_script.h"
#include "tests/support/test_driver.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

TEST(DurationPlan, Grammar) {
  EXPECT_FALSE(DurationPlan::Parse({})->models_something());
  EXPECT_FALSE(DurationPlan::Parse({"recorded"})->models_something());
  EXPECT_TRUE(DurationPlan::Parse({"model"})->models_something());
  EXPECT_TRUE(
      DurationPlan::Parse({"model-for=name=gemm", "model-for=kind=memcpy"})->models_something());
  const auto message = [](std::vector<std::string> texts) {
    return std::string(DurationPlan::Parse(texts).status().message());
  };
  EXPECT_THAT(message({"models"}), HasSubstr("expected recorded, model or model-for=SELECTOR"));
  EXPECT_THAT(message({"model-for="}), HasSubstr("no selector"));
  EXPECT_THAT(message({"model-for=kind=banana"}), HasSubstr("cannot read \"kind=banana\""));
  EXPECT_THAT(message({"model-for=name=("}), HasSubstr("not a valid regular expression"));
  EXPECT_THAT(message({"model", "recorded"}), HasSubstr("exclude each other"));
}

// Two ranks: a GEMM, a copy, an all-reduce and a kernel of no known call. Recorded device
// work takes `scale` times as long as in the first recording; launches are the same.
TraceStore Job(double scale, const std::string& device = "") {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    RankScript& rank = job.rank(r);
    rank.builder().info().device_name = device;
    const auto at = [scale](double start, double us) { return Span{start, start + scale * us}; };
    rank.Group("world", {0, 1});
    rank.Step(0, {0, 2000});
    rank.Op("aten::mm", {10, 40});
    rank.Kernel("sgemm", {20, 25}, 7, at(30, 50));
    rank.Device("copy", NodeKind::kMemcpy, static_cast<uint8_t>(MemcpyKind::kHostToDevicePinned),
                {100, 105}, 7, at(300, 40));
    rank.CopiedBytes("copy", 1'000'000);
    rank.Collective("nccl", CollectiveOp::kAllReduce, "world", {200, 205}, 8, at(600, 60), 1 << 20);
    rank.Kernel("unknown", {900, 905}, 7, at(1000, 20));
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{1024, 512}, std::vector<int64_t>{512, 256}}) {
      Tensor tensor;
      tensor.dtype = DType::kFloat32;
      rank.builder().AddTensor(rank.Of("aten::mm"), tensor, dims);
    }
  }
  return job.Build();
}

SimulationOptions Modelled(std::vector<std::string> durations) {
  SimulationOptions options;
  options.durations.durations = std::move(durations);
  if (!options.durations.durations.empty()) {
    options.platform = std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx1-v100.yaml";
  }
  return options;
}

Prediction Simulated(const TraceStore& store, const SimulationOptions& options) {
  auto setup = SimulationSetup::Make(options, store);
  EXPECT_TRUE(setup.ok()) << setup.status();
  // Latencies are measured between recorded ends and starts; here they are given.
  setup->compile().latencies = LatenciesOf(TestDriver().latencies);
  auto prediction = Predict(store, setup->compile(), setup->network());
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  return *std::move(prediction);
}

const Item& ItemOf(const TraceStore& store, const Prediction& prediction, std::string_view name) {
  const NodeIndex node = FindNode(store, 0, name);
  for (const Item& item : prediction.job.program.ranks[0].items) {
    if (item.node == node) return item;
  }
  ADD_FAILURE() << name << " was not executed";
  return prediction.job.program.ranks[0].items[0];
}

TEST(Durations, NoRecordedDurationReachesAModelledPrediction) {
  const TraceStore once = Job(1), longer = Job(2.5);
  const Prediction a = Simulated(once, Modelled({"model"})),
                   b = Simulated(longer, Modelled({"model"}));
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(a.schedule.ranks[r].start, b.schedule.ranks[r].start);
    EXPECT_EQ(a.schedule.ranks[r].end, b.schedule.ranks[r].end);
  }
  // The replay does follow the recording.
  EXPECT_NE(Simulated(once, Modelled({})).schedule.ranks[0].end,
            Simulated(longer, Modelled({})).schedule.ranks[0].end);
}

TEST(Durations, NoneIsNoCalibration) {
  const auto none = FindCalibrations({"none"});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_THAT(FindCalibrations({"none", "v100-pcie"}).status().message(),
              testing::HasSubstr("excludes others"));
}

TEST(Durations, AMaskIsOfModelledAttention) {
  DurationOptions options;
  options.attention_mask = "none";
  const auto mask = [&](std::vector<std::string> texts) {
    return MaskOf(options, *DurationPlan::Parse(texts));
  };
  EXPECT_EQ(*mask({"model"}), AttentionMask::kNone);
  EXPECT_THAT(std::string(mask({}).status().message()),
              HasSubstr("--attention-mask none would change nothing: add --durations model"));
  options.attention_mask = "causal";
  EXPECT_EQ(*mask({"model"}), AttentionMask::kCausal);
  options.attention_mask = "";
  EXPECT_EQ(*mask({}), AttentionMask::kUnknown);
}

TEST(Durations, EveryEstimateHasItsSource) {
  const TraceStore store = Job(1);
  const Prediction p = Simulated(store, Modelled({"model"}));
  EXPECT_EQ(ItemOf(store, p, "sgemm").source, EstimateSource::kAnalytic);
  EXPECT_TRUE(ItemOf(store, p, "sgemm").extrapolated);
  EXPECT_EQ(ItemOf(store, p, "copy").source, EstimateSource::kAnalytic);
  EXPECT_EQ(ItemOf(store, p, "unknown").source, EstimateSource::kMissing);
  EXPECT_EQ(p.schedule.rendezvous_source[0], EstimateSource::kAnalytic);
  ASSERT_EQ(p.job.missing.size(), 2u);  // on both ranks
}

TEST(Durations, ModelForTakesOnlyWhatItSelects) {
  const TraceStore store = Job(1);
  const Prediction p = Simulated(store, Modelled({"model-for=gemm"}));
  EXPECT_EQ(ItemOf(store, p, "sgemm").source, EstimateSource::kAnalytic);
  EXPECT_EQ(ItemOf(store, p, "copy").source, EstimateSource::kRecorded);
  EXPECT_EQ(ItemOf(store, p, "copy").duration, SimTime::FromUs(40));
  EXPECT_EQ(p.schedule.rendezvous_source[0], EstimateSource::kRecorded);
  const Prediction q = Simulated(store, Modelled({"model-for=kind=collective,comm=world"}));
  EXPECT_EQ(ItemOf(store, q, "sgemm").source, EstimateSource::kRecorded);
  EXPECT_EQ(q.schedule.rendezvous_source[0], EstimateSource::kAnalytic);
}

TEST(Durations, CommunicationNeedsAPlatformAndKernelsADevice) {
  const TraceStore store = Job(1);
  SimulationOptions options = Modelled({"model"});
  options.platform.clear();
  EXPECT_THAT(std::string(SimulationSetup::Make(options, store).status().message()),
              HasSubstr("--platform"));
  options.durations.durations = {"model-for=gemm"};
  EXPECT_THAT(std::string(SimulationSetup::Make(options, store).status().message()),
              HasSubstr("name one with --platform"));
  const auto on = [&](const std::string& device) {
    return std::string(SimulationSetup::Make(options, Job(1, device)).status().message());
  };
  EXPECT_THAT(on("Abacus 3"), HasSubstr("the recording names \"Abacus 3\""));
  // Of which there is a file, so that one more would change nothing.
  EXPECT_THAT(on("wse-2"), AllOf(HasSubstr("kernels cannot be modelled on wse-2"),
                                 HasSubstr("states no compute of kind simt with count"),
                                 HasSubstr("no occupancy.threads")));
  options.durations.calibrations = {"no-such-folder"};
  EXPECT_THAT(std::string(SimulationSetup::Make(options, store).status().message()),
              HasSubstr("\"no-such-folder\": there is no such file"));
}

}  // namespace
}  // namespace foretrace
