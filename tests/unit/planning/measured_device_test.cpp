// Kernels of a searched mapping on a device of which nothing was measured: the analytic chain.
#include "simulator/planning/mappings/measured_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "simulator/base/shipped.h"
#include "simulator/hardware/catalog.h"
#include "simulator/planning/mappings/training_job.h"
#include "simulator/replay/durations/device_calibration.h"
#include "simulator/topology/platform_loader.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

// Far from bounded by memory, so that times are to one another as the peaks are.
KernelWork Gemm(KernelKind kind) {
  KernelWork work;
  work.kind = kind;
  work.flop = Flop(2 * int64_t{8192} * 8192 * 8192);
  work.read = Bytes(2 * 4 * int64_t{8192} * 8192);
  work.written = Bytes(4 * int64_t{8192} * 8192);
  work.batch = 1;
  work.m = work.n = work.k = 8192;
  return work;
}

double Microseconds(const std::string& gpu, KernelKind kind) {
  NodeSpec node;
  const auto accelerator = FindAccelerator(gpu);
  EXPECT_TRUE(accelerator.ok()) << accelerator.status();
  node.accelerator = accelerator.value_or(Accelerator());
  std::vector<std::string> notes, files;
  const auto device = FindMeasurements("auto", node, notes, files);
  EXPECT_TRUE(device.ok()) << device.status();
  return (*device)->KernelTime(Gemm(kind)).time.us();
}

// PyTorch's defaults since 1.12: TF32 for convolutions alone. An A10's datasheet has 31.2 TFLOP/s
// without and 62.5 with it; of a P4, which has no tensor cores, both are the same.
TEST(MeasuredDeviceTest, ThirtyTwoBits) {
  const double a10 =
      Microseconds("a10", KernelKind::kGemm) / Microseconds("a10", KernelKind::kConvolution);
  const double p4 =
      Microseconds("p4", KernelKind::kGemm) / Microseconds("p4", KernelKind::kConvolution);
  // 62.5 / 31.2 are 2.0, of which GEMMs and convolutions reach unlike shares.
  EXPECT_GT(a10, 1.4);
  EXPECT_LT(a10, 2.2);
  EXPECT_NEAR(p4, 1, 0.25);
}

// An H800 has 8 of an H100's 18 NVLinks: what was measured over those takes longer there, by no
// more than that, as on a platform of H100 whose links are so slow.
TEST(MeasuredDeviceTest, CollectivesOverOtherLinks) {
  const auto time = [](const std::string& platform) {
    Accelerator device;
    int64_t devices = 0;
    std::vector<std::string> notes;
    const auto cluster =
        ClusterOf({platform, "none", "auto", 16}, DType::kBFloat16, &device, &devices, notes);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    const auto all =
        cluster->measured->CollectiveTime(CollectiveOp::kAllReduce, 8, Bytes(256 << 20));
    EXPECT_TRUE(all.has_value());
    return all.value_or(Estimate());
  };
  const Estimate h100 = time("dgx-h100"), h800 = time("hgx-h800");
  EXPECT_FALSE(h100.extrapolated);
  EXPECT_TRUE(h800.extrapolated);
  EXPECT_GT(h800.time.us() / h100.time.us(), 1.5);
  EXPECT_LE(h800.time.us() / h100.time.us(), 18.0 / 8);
}

// Kernels of a device of which nothing was measured are not called measured.
TEST(MeasuredDeviceTest, AnalyticKernelsAreNotCalledMeasured) {
  Accelerator device;
  int64_t devices = 0;
  std::vector<std::string> notes;
  ASSERT_TRUE(
      ClusterOf({"mi300x-8", "none", "auto", 8}, DType::kBFloat16, &device, &devices, notes).ok());
  EXPECT_EQ(notes.back().find("analytic kernels of mi300x, peak"), 0u) << notes.back();
}

// Whichever way its file is written; of a bad one that calibrate wrote the lines that say so do.
TEST(MeasuredDeviceTest, CalibrationsAreFoundByTheirDevice) {
  const TempFolder temporary;
  const std::filesystem::path data = temporary.path() + "/kernel_calibrations";
  const auto found = [&](const std::string& text) {
    std::filesystem::create_directories(data / "calibration/a-own");
    std::ofstream(data / "calibration/a-own/kernels.yaml") << text;
    setenv("FORETRACE_DATA", data.c_str(), 1);
    const auto folder = FindKernelCalibration(*FindAccelerator("b200-sxm"));
    unsetenv("FORETRACE_DATA");
    return folder.ok() ? std::filesystem::path(*folder).filename().string()
                       : std::string(folder.status().message());
  };
  EXPECT_EQ(found("models: {device: b200-sxm}\n"), "a-own");
  EXPECT_EQ(found("kind: kernel\nmodels:\n  device: b200-sxm\n  entries: [\n"), "a-own");
  EXPECT_EQ(found("kind: kernel\nmodels:\n  device: h20\n"), "b200-sxm-nvswitch");
  EXPECT_NE(found("models: {device: b200-sxm\n").find("not valid YAML"), std::string::npos);
}

// What was measured over other links than the platform's is not what they take: half the rate, at
// least 1.5 times as long and no more than twice; twice the rate, no longer.
TEST(MeasuredDeviceTest, CollectivesFollowThePlatformsLinks) {
  const auto platform =
      LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-h100.yaml");
  ASSERT_TRUE(platform.ok()) << platform.status();
  const auto time = [&](double rate) {
    PlatformSpec spec = *platform;
    LinkType& link = spec.links[static_cast<size_t>(spec.node.interconnect_link)];
    link.bandwidth = Bandwidth::BytesPerSecond(link.bandwidth.bytes_per_second() * rate);
    std::vector<std::string> notes, files;
    const auto device = MeasurementsOn(spec, "auto", notes, files);
    EXPECT_TRUE(device.ok()) << device.status();
    const auto all = (*device)->CollectiveTime(CollectiveOp::kAllReduce, 8, Bytes(256 << 20));
    EXPECT_TRUE(all.has_value());
    return all ? all->time.us() : 0;
  };
  EXPECT_GT(time(0.5) / time(1), 1.5);
  EXPECT_LE(time(0.5) / time(1), 2);
  EXPECT_LT(time(2), time(1));
}

// Links of a device's file are those of the platforms that ship with it: there nothing is scaled
// but where another board of the chip was measured.
TEST(MeasuredDeviceTest, ShippedPlatformsHaveTheirDevicesLinks) {
  std::vector<std::string> scaled;
  for (const ShippedFile& file : ListShipped(kPlatforms)) {
    const auto platform = LoadPlatform(file.path);
    ASSERT_TRUE(platform.ok()) << platform.status();
    std::vector<std::string> notes, files;
    const auto device = MeasurementsOn(*platform, "auto", notes, files);
    ASSERT_TRUE(device.ok()) << device.status();
    if (std::ranges::any_of(notes, [](const std::string& note) {
          return note.find("measured collectives are scaled") != std::string::npos;
        })) {
      scaled.push_back(file.name);
    }
  }
  EXPECT_EQ(scaled, (std::vector<std::string>{"hgx-a800", "hgx-h800"}));
}

// What kernels and collectives share is the platform's; where it is not known it is said what is
// taken.
TEST(MeasuredDeviceTest, WhatKernelsAndCollectivesShare) {
  Accelerator device;
  int64_t devices = 0;
  std::vector<std::string> notes;
  const auto cluster_of = [&](const char* platform, const char* kernels) {
    const auto cluster =
        ClusterOf({platform, "none", kernels}, DType::kBFloat16, &device, &devices, notes);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return cluster.value_or(ClusterParameters());
  };
  const ClusterParameters h100 = cluster_of("dgx-h100", "auto");
  EXPECT_EQ(h100.measured->Shared().multiprocessors, 132);
  const KernelList gemm = Kernels({LinearOp{8192, 4096, 4096}, DType::kBFloat16});
  EXPECT_EQ(h100.measured->Demand(gemm.front()).value_or(KernelDemand()).tiles, 1024);
  EXPECT_EQ(h100.exchanges->Channels(CollectiveOp::kAllGather, {8, 1}).value(), 24);
  EXPECT_EQ(h100.exchanges->Channels(CollectiveOp::kAllGather, {32, 1}).value(), 16);
  EXPECT_EQ(h100.exchanges->Channels(CollectiveOp::kAllGather, {1, 1}).value(), 0);
  EXPECT_EQ(BesideNote(h100), "");
  // Of links that were not measured: the same device.
  EXPECT_EQ(cluster_of("hgx-h800", "auto").measured->Shared().multiprocessors, 132);
  EXPECT_NE(BesideNote(cluster_of("dgx-h100", "none")).find("share of multiprocessors"),
            std::string::npos);
  EXPECT_NE(BesideNote(cluster_of("tpu-v4-512", "auto")).find("1.126 times as long"),
            std::string::npos);
}

// Where 8 bits are twice as fast as 16 they take 0.58 of the time. The board of 500 W was measured
// at 575 of 720 TFLOP/s in 16 bits and 1,083 of 1,280 in 8: 0.58 x (575 / 720) / (1,083 / 1,280).
TEST(MeasuredDeviceTest, EightBitsByTheirRates) {
  const auto share = [](const std::string& platform) {
    Accelerator device;
    int64_t devices = 0;
    std::vector<std::string> notes;
    const auto cluster =
        ClusterOf({platform, "none", "none", 8}, DType::kBFloat16, &device, &devices, notes);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return cluster.ok() ? cluster->eight_bit_share : 0;
  };
  EXPECT_EQ(share("dgx-h100"), 0.58);
  EXPECT_NEAR(share("h100-96gb-500w"), 0.5475, 1e-4);
}

// By what boards keep up in both, where their files say so: 0.58 x (1,383 / 2,745) / (720 / 1,280)
// of a GB200, in 4 bits half of that, and no less where the peak is three times that of 8 bits.
TEST(MeasuredDeviceTest, SharesAtThePowerLimit) {
  const auto cluster_of = [](const std::string& platform) {
    Accelerator device;
    int64_t devices = 0;
    std::vector<std::string> notes;
    return *ClusterOf({platform, "none", "none", 8}, DType::kBFloat16, &device, &devices, notes);
  };
  const ClusterParameters gb200 = cluster_of("gb200-nvl72"), gb300 = cluster_of("gb300-nvl72");
  EXPECT_NEAR(gb200.eight_bit_share, 0.51950, 1e-4);
  EXPECT_NEAR(gb200.four_bit_share, 0.51950 / 2, 1e-4);
  EXPECT_NEAR(gb300.eight_bit_share, 0.58 * 1657 / 3288 / 0.5625, 1e-9);
  EXPECT_NEAR(gb300.four_bit_share, gb300.eight_bit_share / 2, 1e-9);
}

// Norms of 16 heads of 64 for each of 16,384 tokens, of queries and of keys: 2 x 16.8 million
// values of 2 bytes, read and written, at 3,350 GB/s. Kernels that give each row a block of 128
// threads take several times that (an H100 has 2,112 at once).
TEST(MeasuredDeviceTest, NormsOfHeadsShareBlocks) {
  Accelerator device;
  int64_t devices = 0;
  std::vector<std::string> notes;
  const auto cluster =
      ClusterOf({"dgx-h100", "none", "auto", 8}, DType::kBFloat16, &device, &devices, notes);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  TransformerConfig model;
  model.family = TransformerFamily::kLlama;
  model.dtype = DType::kBFloat16;
  model.fused_attention = true;
  model.hidden = 1024;
  model.layers = 2;
  model.heads = 16;
  model.ffn = 4096;
  model.vocabulary = 1024;
  model.sequence = 16384;
  const auto forward_us = [&](bool norms, bool fused) {
    TransformerConfig c = model;
    c.qk_norm = norms;
    ClusterParameters p = *cluster;
    p.fused_pointwise = fused;
    p.forms.fused_norms = true;  // of those that are a framework's own
    const auto times = TimePasses(c, ParallelMapping(), p);
    EXPECT_TRUE(times.ok()) << times.status();
    return times.ok() ? times->layer_forward.us() : 0;
  };
  const double bytes = 2.0 * 16384 * 1024 * 2 * 2, least_us = bytes / 3350e3;
  const double shared = forward_us(true, true) - forward_us(false, true);
  EXPECT_GT(shared, least_us);
  EXPECT_LT(shared, 2 * least_us);
  EXPECT_GT(forward_us(true, false) - forward_us(false, false), 4 * least_us);
}

// GEMMs of 16 bits go by one rate, which a file with two is told.
TEST(MeasuredDeviceTest, TwoRatesOfSixteenBits) {
  Accelerator device = *FindAccelerator("h100-sxm5-80gb");
  EXPECT_EQ(BfloatNote(device, DType::kBFloat16), "");
  for (ComputeUnit& unit : device.units) {
    unit.rates[static_cast<size_t>(RateKind::kBf16)] = FlopRate::PerSecond(1.5e15);
  }
  EXPECT_EQ(BfloatNote(device, DType::kBFloat16),
            "h100-sxm5-80gb states 1500 TFLOP/s for bfloat16, in which the model is, and 989.4 for "
            "float16: timed as float16");
  EXPECT_EQ(BfloatNote(device, DType::kFloat16), "");
}

}  // namespace
}  // namespace foretrace
