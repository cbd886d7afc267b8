#include "simulator/replay/durations/retarget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/replay/simulation_setup.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// One rank that copies a million bytes from pinned memory in 40 us, and runs a kernel of no known
// call for `unknown_us`.
TraceStore Copies(std::string device, double unknown_us) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.builder().info().device_name = std::move(device);
  rank.Device("copy", NodeKind::kMemcpy, static_cast<uint8_t>(MemcpyKind::kHostToDevicePinned),
              {0, 5}, 7, {20, 60});
  rank.CopiedBytes("copy", 1'000'000);
  rank.Kernel("mystery", {100, 105}, 7, {110, 110 + unknown_us});
  return job.Build();
}

absl::StatusOr<SimulationSetup> On(const TraceStore& store, const std::string& platform) {
  SimulationOptions options;
  options.on = platform;
  return SimulationSetup::Make(options, store);
}

SimTime DurationOf(const SimulationSetup& setup, const TraceStore& store, std::string_view name) {
  const auto estimate =
      setup.compile().durations->Predict(store, store.ranks()[0], FindNode(store, 0, name));
  EXPECT_TRUE(estimate.has_value()) << name;
  return estimate.has_value() ? estimate->time : SimTime();
}

// PCIe 3.0 takes 2.4 + 1e6 / (15.75e3 x 0.85) = 77.097 us by the model, 4.0 2.4 + 1e6 / (31.5e3 x
// 0.85) = 39.748 us: 40 us become 40 x 39.748 / 77.097 = 20.623.
TEST(Retarget, ACopyOverTheHostLinkScalesWithIt) {
  const TraceStore store = Copies("Tesla V100-SXM2-32GB", 1);
  const auto setup = On(store, "dgx-a100");
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_TRUE(setup->retargets());
  EXPECT_NEAR(DurationOf(*setup, store, "copy").us(), 20.623, 1e-3);
  // 1 of 41 us without a model stays as recorded, and is named.
  EXPECT_EQ(DurationOf(*setup, store, "mystery"), SimTime::FromNs(1000));
  EXPECT_THAT(setup->notes(), Contains(HasSubstr("2.4 % of the recorded device time has no model "
                                                 "and stays as recorded: mystery 2.4 %")));
}

// A convolution by a kernel that the other chip would not run: the ratio is of both devices' models
// of the operator, whatever the recorded kernel's own name says of the first.
TEST(Retarget, KernelsOfAnotherChipSayNothingOfTheRatio) {
  const auto on = [](std::string_view kernel) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    rank.builder().info().device_name = "NVIDIA H100 80GB HBM3";
    rank.Op("aten::cudnn_convolution", {0, 90});
    const NodeIndex call = rank.Of("aten::cudnn_convolution");
    Tensor tensor;
    tensor.dtype = DType::kFloat32;
    rank.builder().AddTensor(call, tensor, std::vector<int64_t>{16, 256, 14, 14});
    rank.builder().AddTensor(call, tensor, std::vector<int64_t>{256, 256, 3, 3});
    tensor.is_output = true;
    rank.builder().AddTensor(call, tensor, std::vector<int64_t>{16, 256, 14, 14});
    rank.Kernel(kernel, {10, 12}, 7, {20, 120});
    const TraceStore store = job.Build();
    const auto setup = On(store, "dgx-a100");
    EXPECT_TRUE(setup.ok()) << setup.status();
    return setup.ok() ? DurationOf(*setup, store, kernel) : SimTime();
  };
  const SimTime named =
      on("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_"
         "warpsize1x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn");
  EXPECT_EQ(named, on("volta_scudnn_unheard_of"));
  const auto model = [](std::string_view device) {
    const KernelModels models(*FindGpuPeaks(device), std::vector<KernelModel>());
    const Conv2dOp op{16, 256, 14, 14, 256, 3, 3, 14, 14};
    const KernelList kernels = Kernels({op, DType::kFloat32, Direction::kForward});
    return models.Predict(kernels.front(), Precision::kFloat32).time.us();
  };
  EXPECT_NEAR(named.us(), 100 * model("a100-sxm4-40gb") / model("h100-sxm5-80gb"), 0.01);
}

TEST(Retarget, TellsWhereADeviceHasNoBfloat) {
  const auto notes = [](DType dtype, const std::string& platform) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    rank.builder().info().device_name = "NVIDIA H100 80GB HBM3";
    rank.Op("aten::add", {0, 90});
    Tensor tensor;
    tensor.dtype = dtype;
    for (const bool output : {false, false, true}) {
      tensor.is_output = output;
      rank.builder().AddTensor(rank.Of("aten::add"), tensor, std::vector<int64_t>{1024, 1024});
    }
    rank.Kernel("vectorized_elementwise_kernel", {10, 12}, 7, {20, 30});
    const TraceStore store = job.Build();
    const auto setup = On(store, platform);
    EXPECT_TRUE(setup.ok()) << setup.status();
    return setup.ok() ? setup->notes() : std::vector<std::string>();
  };
  const auto told = Contains(
      HasSubstr("states no rate of bfloat16, in which the job was recorded: timed as float16"));
  EXPECT_THAT(notes(DType::kBFloat16, "dgx1-v100"), told);
  EXPECT_THAT(notes(DType::kFloat16, "dgx1-v100"), testing::Not(told));
  EXPECT_THAT(notes(DType::kBFloat16, "dgx-a100"), testing::Not(told));
}

TEST(Retarget, OnTheSameDeviceNothingChanges) {
  const TraceStore store = Copies("Tesla V100-SXM2-32GB", 10);
  const auto setup = On(store, "dgx1-v100");
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_FALSE(setup->retargets());
  EXPECT_EQ(setup->network(), nullptr);
  EXPECT_EQ(DurationOf(*setup, store, "copy"), SimTime::FromUs(40));
  EXPECT_EQ(DurationOf(*setup, store, "mystery"), SimTime::FromUs(10));
}

TEST(Retarget, RefusesWhatItCannotKnow) {
  const auto message = [](const TraceStore& store, const std::string& platform) {
    return std::string(On(store, platform).status().message());
  };
  // 10 of 50 us.
  EXPECT_THAT(message(Copies("Tesla V100-SXM2-32GB", 10), "dgx-h100"),
              HasSubstr("no model covers 20.0 % of the recorded device time (mystery 20.0 %)"));
  EXPECT_THAT(message(Copies("", 1), "dgx-h100"), HasSubstr("does not name the device"));
  EXPECT_THAT(message(Copies("Voodoo 2", 1), "dgx-h100"), HasSubstr("recorded on \"Voodoo 2\""));
  SimulationOptions both;
  both.on = "dgx-h100";
  both.platform = "dgx-a100";
  const TraceStore store = Copies("Tesla V100-SXM2-32GB", 1);
  EXPECT_THAT(std::string(SimulationSetup::Make(both, store).status().message()),
              HasSubstr("leave out --platform"));
  // A calibration is the target's.
  SimulationOptions other;
  other.on = "dgx-h100";
  other.durations.calibrations = {"v100-sxm2-nvlink"};
  EXPECT_THAT(std::string(SimulationSetup::Make(other, store).status().message()),
              HasSubstr("is of v100-sxm2-16gb, but the device to predict for is h100-sxm5-80gb"));
}

}  // namespace
}  // namespace foretrace
