#include "simulator/cost/power/power_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "simulator/base/error.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

// 10 MFLOP and 3 kB in 2 us: 5 TFLOP/s, 1.5 GB/s. A cache of 2 kB has half of what is beyond it.
TEST(PowerModel, ActivityOfARepeatedKernel) {
  const Activity a = ActivityOf(Flop(1e7), Bytes(3000), SimTime::FromUs(2), Bytes(2000));
  EXPECT_DOUBLE_EQ(a.compute.per_second(), 5e12);
  EXPECT_DOUBLE_EQ(a.memory.bytes_per_second(), 0.75e9);
  EXPECT_DOUBLE_EQ(a.cache.bytes_per_second(), 0.75e9);
  EXPECT_EQ(ActivityOf(Flop(1), Bytes(2000), SimTime::FromUs(1), Bytes(2000)).memory, Bandwidth());
  EXPECT_EQ(ActivityOf(Flop(1), Bytes(100), SimTime::FromUs(1), Bytes()).cache, Bandwidth());
}

PowerModel Made() {
  PowerModel model;
  model.device = "h200-sxm5";
  model.idle_w = 100;
  model.limit_w = 400;
  model.wide = {10, 0.5, 100, 50};
  model.narrow = {20, 0.25, 80, 40};
  return model;
}

// 200 TFLOP/s at 0.5 pJ and 1 TB/s at 100 pJ are 200 W, for 1 ms, with 10 W of any kernel; twice as
// much is held at the limit, 300 W above idle.
TEST(PowerModel, JoulesAreThoseOfTheWorkUpToTheLimit) {
  const PowerModel model = Made();
  const SimTime ms = SimTime::FromUs(1000);
  EXPECT_NEAR(model.JoulesAboveIdle(DType::kBFloat16, Flop(2e11), Bytes(1000000000), ms), 0.21,
              1e-9);
  EXPECT_NEAR(model.JoulesAboveIdle(DType::kBFloat16, Flop(4e11), Bytes(2000000000), ms), 0.3,
              1e-9);
  EXPECT_NEAR(model.JoulesAboveIdle(DType::kFloat8, Flop(2e11), Bytes(1000000000), ms), 0.15, 1e-9);
}

TEST(PowerModel, FilesAreReadAsTheyWereWritten) {
  const TempFolder folder;
  const std::string path = folder.path() + "/power.yaml";
  CalibrationHeader header;
  header.kind = "power";
  header.platform = "p";
  std::ofstream(path) << HeaderYaml(header) + PowerModelYaml(Made());
  const auto loaded = LoadPowerModel(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model.device, "h200-sxm5");
  EXPECT_EQ(loaded->model.limit_w, 400);
  EXPECT_EQ(loaded->model.narrow.pj_per_cache_byte, 40);
  std::ofstream(path) << HeaderYaml(header) + "device: d\nidle_W: -1\n";
  const std::string message(LoadPowerModel(path).status().message());
  EXPECT_NE(message.find("idle_W"), std::string::npos) << message;
}

}  // namespace
}  // namespace foretrace
