#include "simulator/hardware/stated_device.h"

#include <gtest/gtest.h>

#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

TEST(StatedDevice, TheOnlyOneOfItsSizeIsMeant) {
  // As ROCm 6.2 states an MI250's die, PyTorch an MI300X.
  EXPECT_EQ(*NameOf({"AMD Radeon Graphics", 104, 64, 68'702'699'520}), "mi250");
  EXPECT_EQ(*NameOf({"AMD Radeon Graphics", 304, 64, 205'822'885'888}), "mi300x");
}

// Of as many multiprocessors and as much memory there is an H800 too.
TEST(StatedDevice, OfSeveralTheNamedModelIsMeant) {
  EXPECT_EQ(*NameOf({"NVIDIA H100", 132, 32, 84'929'347'584}), "h100-sxm5-80gb");
}

TEST(StatedDevice, KnownNamesAndUnknownDevicesStay) {
  EXPECT_EQ(*NameOf({"NVIDIA H100 80GB HBM3", 104, 64, 68'702'699'520}), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(*NameOf({"AMD Radeon Graphics", 96, 32, 25'000'000'000}), "AMD Radeon Graphics");
  EXPECT_EQ(*NameOf({"AMD Radeon Graphics"}), "AMD Radeon Graphics");
  // Another vendor's, of as many multiprocessors and as much memory.
  EXPECT_EQ(*NameOf({"Graphics", 104, 64, 68'702'699'520}), "Graphics");
}

TEST(StatedDevice, OfSeveralNoneIsMeant) {
  const auto catalog = AcceleratorCatalog::Load();
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  // A100s with 40 GB, as boards of two kinds.
  EXPECT_EQ(FindStated(catalog->all(), {"NVIDIA Graphics", 108, 32, 42'300'000'000}), nullptr);
}

}  // namespace
}  // namespace foretrace
