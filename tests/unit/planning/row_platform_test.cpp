#include "simulator/planning/mappings/row_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace foretrace {
namespace {

// Name of the platform's file, and what of the device differs.
std::pair<std::string, std::string> Taken(const std::string& gpu, const std::string& source = "",
                                          int32_t gpus_per_node = 8, int32_t gpus = 8,
                                          Bytes needed = Bytes()) {
  static RowPlatforms platforms;
  TrainingRow row;
  row.gpu = gpu;
  row.source = source;
  row.gpus_per_node = gpus_per_node;
  row.gpus = gpus;
  const auto found = platforms.Of(row, needed);
  if (!found.ok()) return {"", std::string(found.status().message())};
  return {std::filesystem::path(found->file).stem().string(), found->note};
}

TEST(RowPlatformTest, NamesAsTablesWriteThem) {
  for (const char* gpu :
       {"H100", "H100-80GB", "H100 SXM", "H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", "DGX H100",
        "h100_sxm", "8xH100", "8 x NVIDIA H100", "H100x8", "H100 SXM x 8"}) {
    EXPECT_EQ(Taken(gpu).first, "dgx-h100") << gpu;
    EXPECT_EQ(Taken(gpu).second, "") << gpu;
  }
  EXPECT_EQ(Taken("A100-80GB").first, "dgx-a100-80gb");
  EXPECT_EQ(Taken("A100 80 GB").first, "dgx-a100-80gb");
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
  EXPECT_EQ(Taken("MI325X").first, "mi325x-8");
  EXPECT_EQ(Taken("A800").first, "hgx-a800");
  EXPECT_EQ(Taken("A100 PCIe 80GB").first, "a100-pcie-8");
}

TEST(RowPlatformTest, ChipsOfPlatformsThatAreGiven) {
  EXPECT_TRUE(NamesChipOf("8x NVIDIA H100 SXM", "h100-sxm5-80gb"));
  EXPECT_TRUE(NamesChipOf("H100-96GB HBM2e 500W", "h100-sxm5-80gb"));
  EXPECT_FALSE(NamesChipOf("A100 80GB", "h100-sxm5-80gb"));
  EXPECT_FALSE(NamesChipOf("H200", "h100-sxm5-80gb"));
}

// Of a device in two sizes the one that the run fits in, where the row states none.
TEST(RowPlatformTest, MemoryThatIsNotStated) {
  const Bytes more(int64_t{60} << 30);
  EXPECT_EQ(Taken("A100", "", 8, 64, more).first, "dgx-a100-80gb");
  EXPECT_EQ(Taken("A100-40GB", "", 8, 64, more).first, "dgx-a100");
  EXPECT_THAT(Taken("A100", "", 8, 64, more).second, testing::HasSubstr("would not fit"));
  // Not the H100 of 96 GB, which is another, slower one.
  const Bytes most(int64_t{90} << 30);
  EXPECT_EQ(Taken("H100", "", 8, 64, most).first, "dgx-h100");
}

// A count beside the name is of all devices or of a node's; the X of AMD's names is no count's.
TEST(RowPlatformTest, CountsBesideNames) {
  for (const char* gpu :
       {"MI300X8", "mi300x8", "MI300Xx8", "MI300X x8", "8x AMD Instinct MI300X"}) {
    EXPECT_EQ(Taken(gpu).first, "mi300x-8") << gpu;
    EXPECT_EQ(Taken(gpu).second, "") << gpu;
  }
  EXPECT_EQ(Taken("64x H100", "", 8, 64).second, "");
  EXPECT_EQ(Taken("8x H100", "", 8, 64).second, "");
  EXPECT_EQ(Taken("H100x4", "", 8, 64).second,
            "gpu 'H100x4' counts 4 devices, but gpus says 64 and gpus_per_node 8");
  EXPECT_THAT(Taken("16x H100", "", 8, 64).second, testing::HasSubstr("counts 16 devices"));
}

TEST(RowPlatformTest, AsManyDevicesAsTheRowHas) {
  EXPECT_EQ(Taken("RTX 4090", "", 8, 8).first, "rtx-4090-pcie");
  EXPECT_THAT(Taken("RTX 4090", "", 8, 64).second, testing::HasSubstr("has 64 of the device"));
  EXPECT_EQ(Taken("V100-32GB", "", 4, 512).first, "jean-zay-v100");
  EXPECT_THAT(Taken("V100-32GB", "", 4, 1024).second, testing::HasSubstr("has 1024 of the device"));
}

TEST(RowPlatformTest, OtherBoardsAreSaid) {
  EXPECT_EQ(Taken("H100 PCIe").first, "h100-pcie-8");
  EXPECT_THAT(Taken("H100-NVL").second, testing::HasSubstr("no platform has its nvl board"));
  EXPECT_EQ(Taken("V100-32GB", "", 4).first, "jean-zay-v100");
  EXPECT_THAT(Taken("V100-32GB").second, testing::HasSubstr("which has not 32 GB"));
  EXPECT_EQ(Taken("V100-16GB").first, "dgx1-v100");
  EXPECT_EQ(Taken("V100-16GB", "", 8, 16).first, "summit");
  EXPECT_THAT(Taken("V100-16GB", "bigscience", 4).second, testing::HasSubstr("has not 16 GB"));
  EXPECT_EQ(Taken("Q100").first, "");
  EXPECT_THAT(Taken("Q100").second, testing::HasSubstr("foretrace list platforms"));
}

}  // namespace
}  // namespace foretrace
