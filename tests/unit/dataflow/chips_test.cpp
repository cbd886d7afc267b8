// Chips out of accelerators' files.
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/dataflow/files.h"
#include "tests/support/temp_folder.h"

namespace foretrace::dataflow {
namespace {

System SystemOf(const std::string& accelerator) {
  const TempFolder folder;
  const std::string file = folder.path() + "/system_" + accelerator + ".yaml";
  std::ofstream(file)
      << "name: s\nchip: {accelerator: " << accelerator
      << ", execution: kernel-by-kernel}\nmemory: {bandwidth_GBps: 1600, capacity_GB: 80}\n"
         "links: [{bandwidth_GBps: 200}]\nnetwork: [{kind: ring, size: 8}]\n";
  const auto catalogue = AcceleratorCatalog::Load();
  const auto system = LoadSystem(file, *catalogue);
  EXPECT_TRUE(system.ok()) << system.status();
  return system.ok() ? *system : System{};
}

// Datasheets: 989.4 and 312 TFLOP/s dense in 16 bits, 528 and 432 tensor cores.
TEST(Chips, TensorCoresByTheirRate) {
  const Chip h100 = SystemOf("h100-sxm5-80gb").chip, a100 = SystemOf("a100-sxm4-80gb").chip;
  EXPECT_NEAR(h100.gflops(), 989'400, 1e-6);
  EXPECT_EQ(h100.tiles, 528);
  EXPECT_EQ(h100.width * h100.depth, 512);
  EXPECT_EQ(h100.sram, Bytes(50'000'000));
  EXPECT_NEAR(a100.gflops(), 312'000, 1e-6);
  EXPECT_EQ(a100.width * a100.depth, 256);
}

// A board's power is that of its memory and NVLink too; DFModel's fits are of chips alone.
TEST(Chips, BoardsHoldTheirMemory) {
  const auto bill = [](const std::string& accelerator) {
    System s = SystemOf(accelerator);
    s.memory.watt_per_gbps = 0.1;
    s.dimensions.push_back(s.dimensions.front());
    for (SystemDimension& d : s.dimensions) d.link.watt_per_gbps = 0.05;
    return PowerWatt(s);
  };
  const Bill board = bill("h100-sxm5-80gb"), chip = bill("sn30");
  EXPECT_EQ(board.chips, 64 * 700);
  EXPECT_EQ(board.memory, 0);
  EXPECT_EQ(board.links, 64 * 200 * 0.05);  // of the second dimension
  EXPECT_NEAR(chip.chips, 64 * 444.7, 1e-6);
  EXPECT_NEAR(chip.memory, 64 * 1600 * 0.1, 1e-9);
  EXPECT_NEAR(chip.links, 2 * 64 * 200 * 0.05, 1e-9);
}

TEST(Chips, StatedTilesStay) {
  const Chip sn30 = SystemOf("sn30").chip;
  EXPECT_EQ(sn30.tiles, 1280);
  EXPECT_EQ(sn30.width, 32);
  EXPECT_EQ(sn30.depth, 6);
}

}  // namespace
}  // namespace foretrace::dataflow
