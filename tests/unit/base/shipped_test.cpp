#include "simulator/base/shipped.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

// Two folders of $FORETRACE_DATA with calibrations of one name.
class Shipped : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* root : {"first", "second"}) {
      std::filesystem::create_directories(folder_ / root / "calibration" / "twice");
    }
    std::filesystem::create_directories(folder_ / "second/calibration/once");
    for (const char* file :
         {"first/calibration/twice/power.yaml", "second/calibration/twice/power.yaml",
          "second/calibration/once/power.yaml", "second/calibration/twice/kernels.yaml"}) {
      std::ofstream(folder_ / file) << "x";
    }
    setenv("FORETRACE_DATA", (Of("first") + ":" + Of("second")).c_str(), 1);
  }
  void TearDown() override { unsetenv("FORETRACE_DATA"); }
  std::string Of(const std::string& path) const { return (folder_ / path).string(); }
  static bool Has(const std::vector<std::string>& all, const std::string& path) {
    return std::find(all.begin(), all.end(), path) != all.end();
  }

  const TempFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(Shipped, OfEqualNamesTheFirstIsMeant) {
  EXPECT_EQ(*FindShipped(kCalibrations, "twice"), Of("first/calibration/twice"));
  EXPECT_EQ(*FindShipped(kCalibrations, "once"), Of("second/calibration/once"));
  for (const ShippedFile& file : ListShipped(kCalibrations)) {
    EXPECT_NE(file.path, Of("second/calibration/twice"));
  }
  const std::vector<std::string> powers = ListShipped("calibration", "power.yaml");
  EXPECT_TRUE(Has(powers, Of("first/calibration/twice/power.yaml")));
  EXPECT_TRUE(Has(powers, Of("second/calibration/once/power.yaml")));
  EXPECT_FALSE(Has(powers, Of("second/calibration/twice/power.yaml")));
  // What its folder lacks, a calibration lacks.
  EXPECT_FALSE(
      Has(ListShipped("calibration", "kernels.yaml"), Of("second/calibration/twice/kernels.yaml")));
}

TEST_F(Shipped, NamesAreFoundInWhateverCase) {
  EXPECT_EQ(*FindShipped(kCalibrations, "Once"), Of("second/calibration/once"));
  std::filesystem::create_directories(folder_ / "first/calibration/ONCE");
  EXPECT_EQ(*FindShipped(kCalibrations, "ONCE"), Of("first/calibration/ONCE"));
}

TEST_F(Shipped, AnUnknownNameIsToldWhichHaveItAsAPart) {
  std::filesystem::create_directories(folder_ / "first/calibration/of-twice");
  const std::string message(FindShipped(kCalibrations, "TWIC").status().message());
  EXPECT_NE(message.find("did you mean of-twice or twice?"), std::string::npos) << message;
}

}  // namespace
}  // namespace foretrace
