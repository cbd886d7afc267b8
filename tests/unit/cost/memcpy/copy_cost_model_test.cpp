#include "simulator/cost/memcpy/copy_cost_model.h"

#include <gtest/gtest.h>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

std::shared_ptr<const KernelModels> Device(std::string_view name) {
  return std::make_shared<const KernelModels>(*FindGpuPeaks(name), std::vector<KernelModel>());
}

TraceStore Copies() {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  double at = 0;
  const auto copy = [&](std::string_view name, MemcpyKind kind) {
    rank.Device(name, NodeKind::kMemcpy, static_cast<uint8_t>(kind), {at, at + 1}, 7,
                {at + 5, at + 6});
    at += 10;
  };
  copy("pinned", MemcpyKind::kHostToDevicePinned);
  copy("pageable", MemcpyKind::kDeviceToHostPageable);
  copy("device", MemcpyKind::kDeviceToDevice);
  copy("unsized", MemcpyKind::kHostToDevicePinned);
  copy("large", MemcpyKind::kHostToDevicePageable);
  copy("peer", MemcpyKind::kPeerToPeer);
  copy("host", MemcpyKind::kHostToHost);
  copy("few", MemcpyKind::kHostToDevicePinned);
  for (const char* name : {"pinned", "pageable", "device", "peer", "host"})
    rank.CopiedBytes(name, 1'000'000);
  rank.CopiedBytes("large", 100'000'000);
  rank.CopiedBytes("few", 8192);
  return job.Build();
}

TEST(CopyCostModel, HostCopiesGoOverTheLink) {
  const TraceStore store = Copies();
  const RankTrace& rank = store.ranks()[0];
  const CopyCostModel model(Device("v100-sxm2"), nullptr);
  const auto predict = [&](std::string_view name) {
    return model.Predict(store, rank, FindNode(store, 0, name));
  };
  // PCIe 3.0 x16: 15.75 GB/s x 0.85 = 13387.5 bytes per us; pageable memory 10000 where
  // no cache holds it, twice that where one does; 1.5 us to start, 2.4 of an engine that fetches.
  EXPECT_NEAR(predict("pinned")->time.us(), 2.4 + 1e6 / 13387.5, 1e-3);
  // Up to 20 KiB go with the command, at the link's rate of 13.4 GB/s at most.
  EXPECT_NEAR(predict("few")->time.us(), 0.85 + 8192 / 13387.5, 1e-3);
  EXPECT_NEAR(predict("pageable")->time.us(), 1.5 + 1e6 / 13387.5, 1e-3);
  EXPECT_NEAR(predict("large")->time.us(), 1.5 + 1e8 / 10000, 1e-3);
  EXPECT_EQ(predict("pinned")->source, EstimateSource::kAnalytic);
  EXPECT_TRUE(predict("pinned")->extrapolated);
  // Read and written at DRAM speed: at least 2e6 / 900e3 us.
  ASSERT_TRUE(predict("device").has_value());
  EXPECT_GT(predict("device")->time.us(), 2e6 / 900e3);
  EXPECT_FALSE(predict("unsized").has_value());
}

TEST(CopyCostModel, CopiesToAnotherDeviceGoOverItsLinks) {
  const TraceStore store = Copies();
  const auto time = [&](std::string_view device, std::string_view copy) {
    return CopyCostModel(Device(device), nullptr)
        .Predict(store, store.ranks()[0], FindNode(store, 0, copy))
        ->time.us();
  };
  // Six links of 25 GB/s one way: 6.7 us, as long as the copy's own kernel at most.
  EXPECT_GE(time("v100-sxm2", "peer"), 1e6 / 150e3);
  EXPECT_LT(time("v100-sxm2", "peer"), 2 * 1e6 / 150e3);
  EXPECT_NEAR(time("t4", "peer"), time("t4", "pinned"), 1e-9);  // no links
  EXPECT_NEAR(time("v100-sxm2", "host"), 1e6 / 10e3, 1e-3);     // by a core of 10 GB/s
}

// PCIe x16, 85 % of it payload: 4.0 with 31.5 GB/s, 5.0 with 63, 3.0 with 15.75; 2.4 us to start.
TEST(CopyCostModel, NewerDevicesHaveFasterLinks) {
  const TraceStore store = Copies();
  const auto pinned = [&](std::string_view device) {
    return CopyCostModel(Device(device), nullptr)
        .Predict(store, store.ranks()[0], FindNode(store, 0, "pinned"))
        ->time.us();
  };
  EXPECT_NEAR(pinned("a100-sxm4"), 2.4 + 1e6 / (31.5e3 * 0.85), 1e-3);
  EXPECT_NEAR(pinned("h100-sxm5"), 2.4 + 1e6 / (63e3 * 0.85), 1e-3);
  EXPECT_NEAR(pinned("t4"), 2.4 + 1e6 / (15.75e3 * 0.85), 1e-3);
}

}  // namespace
}  // namespace foretrace
