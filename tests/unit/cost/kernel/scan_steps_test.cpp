#include "simulator/cost/kernel/scan_steps.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// 32 rows of 128,256, a block of 512 threads each: 126 turns of 1,024 elements. In each, a trip to
// memory (700 cycles) and 2 x 9 + 1 meetings of 61 cycles.
TEST(ScanSteps, ThreadsOfARowMeet) {
  constexpr std::string_view kName =
      "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(float*)";
  const LaunchAttr launch = {{32, 1, 1}, {512, 1, 1}};
  ElementAccess access;
  access.elements = 32 * 128256;
  access.rows = 32;
  const auto trips = [&](std::string_view name, const LaunchAttr* attr, uint32_t waves) {
    return TripsOfScan({.name = name, .waves_milli = waves, .attr = attr}, access);
  };
  EXPECT_NEAR(static_cast<double>(trips(kName, &launch, 60)), 126 * (700 + 19 * 61) / 700.0, 2);
  // Twice as many blocks as the device holds come one after the other.
  EXPECT_NEAR(static_cast<double>(trips(kName, &launch, 2000)), 252 * (700 + 19 * 61) / 700.0, 2);
  EXPECT_EQ(trips(kName, nullptr, 60), 0);
  EXPECT_EQ(trips("void at::native::tensor_kernel_scan_outer_dim<float>", &launch, 60), 0);
}

}  // namespace
}  // namespace foretrace
