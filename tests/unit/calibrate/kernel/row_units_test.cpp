// Tables whose times are in another unit, or of another device than their platform's.
#include "simulator/calibrate/kernel/row_units.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/calibrate/calibrate.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

// GEMMs at 60 % of an H100's 989 TFLOP/s and 4 us more, times `scale`.
BenchmarkTable Gemms(double scale, const std::string& provenance = "",
                     const std::string& platform = "h100-sxm5-nvswitch") {
  std::string text = provenance;
  text += "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n";
  for (int m = 64; m <= 8192; m *= 2) {
    for (const int n : {1024, 4096, 14336}) {
      const double us = 2.0 * m * n * 8192 / (0.6 * 989e12) * 1e6 + 4;
      text += fmt::format("kernel,linear,forward,{},bfloat16,m={};n={};k=8192,{},0,1,torch,lab\n",
                          platform, m, n, us * scale);
    }
  }
  return ParseBenchmarkCsv("gemms.csv", text).value();
}

absl::Status Checked(const BenchmarkTable& table) {
  return CheckKernelTimes(FindGpuPeaksOfLabel("h100-sxm5-nvswitch").value(), table.rows);
}

TEST(RowUnits, TimesInOtherUnitsAreToldFromMicroseconds) {
  EXPECT_TRUE(Checked(Gemms(1)).ok());
  // A device half or a twentieth as fast as the file says is no matter of units.
  EXPECT_TRUE(Checked(Gemms(0.5)).ok());
  EXPECT_TRUE(Checked(Gemms(20)).ok());
  EXPECT_THAT(std::string(Checked(Gemms(1e-3)).message()),
              HasSubstr("are the times in milliseconds or seconds"));
  EXPECT_THAT(std::string(Checked(Gemms(1e3)).message()),
              HasSubstr("are the times in nanoseconds"));
}

TEST(RowUnits, OneSlowGemmIsNoOtherUnit) {
  BenchmarkTable table = Gemms(1);
  table.rows.back().time_us *= 1000;
  EXPECT_TRUE(Checked(table).ok());
}

std::string Fitted(const BenchmarkTable& table) {
  CalibrateOptions options;
  options.made_tables = {table};
  return std::string(RunCalibrate(KernelFitter(), options).status().message());
}

TEST(RowUnits, TheTablesDeviceIsThatOfItsPlatform) {
  EXPECT_EQ(Fitted(Gemms(1, "# device: h100-sxm5-80gb\n")), "");
  EXPECT_THAT(Fitted(Gemms(1, "# device: a100-sxm4-80gb\n")),
              HasSubstr("named after h100-sxm5-80gb; correct one"));
  EXPECT_THAT(Fitted(Gemms(1, "# device: h100-sxm5-80gb\n", "our-h100")),
              HasSubstr("write for example 'h100-sxm5-80gb-lab'"));
  EXPECT_EQ(Fitted(Gemms(1, "# device: H100\n", "h100-pcie-lab")), "");
  // What has no file here says nothing against it.
  EXPECT_EQ(Fitted(Gemms(1, "# device: prototype\n")), "");
}

}  // namespace
}  // namespace foretrace
