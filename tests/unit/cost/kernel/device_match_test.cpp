#include "simulator/cost/kernel/device_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrace {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const KernelModels> CalibratedOn(std::string_view name) {
  return std::make_shared<const KernelModels>(*FindGpuPeaks(name), std::vector<KernelModel>());
}

TEST(KernelsOn, TheSameDeviceTakesThemAsTheyAre) {
  std::vector<std::string> notes;
  const auto calibrated = CalibratedOn("v100-sxm2-32gb");
  const auto kernels = KernelsOn(*FindGpuPeaks("v100-sxm2-16gb"), calibrated, "c", notes);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ(*kernels, calibrated);
  EXPECT_TRUE(notes.empty());
}

TEST(KernelsOn, ASiblingHasItsOwnRatesAndSaysSo) {
  std::vector<std::string> notes;
  const auto kernels =
      KernelsOn(*FindGpuPeaks("a100-sxm4-40gb"), CalibratedOn("a100-sxm4-80gb"), "c", notes);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ((*kernels)->device().dram_gbps, 1555);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("calibrated on a100-sxm4-80gb and carried over to"));
}

TEST(KernelsOn, AnotherDeviceIsRefusedWithWhatToDo) {
  std::vector<std::string> notes;
  const auto kernels = KernelsOn(*FindGpuPeaks("h100"), CalibratedOn("v100-sxm2"), "c", notes);
  ASSERT_FALSE(kernels.ok());
  EXPECT_THAT(std::string(kernels.status().message()),
              HasSubstr("c is of v100-sxm2-16gb, but the device to predict for is h100-sxm5-80gb"));
}

}  // namespace
}  // namespace foretrace
