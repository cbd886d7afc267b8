#include "simulator/planning/mappings/row_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace foretrace {
namespace {

// Name of the platform's file, and what of the device differs.
std::pair<std::string, std::string> Taken(const std::string& gpu, const std::string& source = "",
                                          int32_t gpus_per_node = 8) {
  static RowPlatforms platforms;
  TrainingRow row;
  row.gpu = gpu;
  row.source = source;
  row.gpus_per_node = gpus_per_node;
  const auto found = platforms.Of(row);
  if (!found.ok()) return {"", std::string(found.status().message())};
  return {std::filesystem::path(found->file).stem().string(), found->note};
}

TEST(RowPlatformTest, NamesAsTablesWriteThem) {
  for (const char* gpu :
       {"H100", "H100-80GB", "H100 SXM", "H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", "DGX H100",
        "h100_sxm", "8xH100", "8 x NVIDIA H100"}) {
    EXPECT_EQ(Taken(gpu).first, "dgx-h100") << gpu;
    EXPECT_EQ(Taken(gpu).second, "") << gpu;
  }
  EXPECT_EQ(Taken("A100-80GB").first, "dgx-a100-80gb");
  EXPECT_EQ(Taken("A100-80GB", "bigscience").first, "jean-zay-a100");
  EXPECT_EQ(Taken("A100").first, "dgx-a100");
  EXPECT_EQ(Taken("H100-96GB HBM2e 500W").first, "h100-96gb-500w");
  EXPECT_EQ(Taken("H200-141GB").first, "dgx-h200");
  EXPECT_EQ(Taken("GB200 NVL72", "", 4).first, "gb200-nvl72");
  EXPECT_EQ(Taken("GB300", "", 4).first, "gb300-nvl72");
  EXPECT_EQ(Taken("B300").first, "dgx-b300");
  EXPECT_EQ(Taken("H20").first, "hgx-h20");
  EXPECT_EQ(Taken("L40S").first, "l40s-pcie");
  EXPECT_EQ(Taken("AMD Instinct MI300X").first, "mi300x-8");
}

TEST(RowPlatformTest, OtherBoardsAreSaid) {
  EXPECT_THAT(Taken("H100 PCIe").second, testing::HasSubstr("no platform has its pcie board"));
  EXPECT_THAT(Taken("H100-NVL").second, testing::HasSubstr("h100-sxm5-80gb"));
  // Of memories that differ the nearer node does not count.
  EXPECT_EQ(Taken("V100-32GB").first, "jean-zay-v100");
  EXPECT_EQ(Taken("V100-16GB").first, "summit");
  EXPECT_THAT(Taken("V100-16GB", "bigscience", 4).second, testing::HasSubstr("with 16 GB"));
  EXPECT_EQ(Taken("Q100").first, "");
  EXPECT_THAT(Taken("Q100").second, testing::HasSubstr("foretrace list platforms"));
}

}  // namespace
}  // namespace foretrace
