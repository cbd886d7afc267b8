// What the calibration by tables of operators says of what it did.
#include "simulator/planning/calibration/operator_calibration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "simulator/console/answer_files.h"
#include "simulator/console/output.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

class Keeping : public Console {
 public:
  absl::Status Print(std::string_view text) override {
    text_ += text;
    return absl::OkStatus();
  }
  TextStyle style() const override { return {}; }
  void Progress(std::string_view, int64_t, int64_t) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The answer, or the error.
std::string Answer(const OperatorCalibration& options) {
  Keeping console;
  AnswerFiles files;
  CommandContext context;
  context.console = &console;
  context.answer_files = &files;
  const absl::Status status =
      RunOperatorCalibration(options, *OperatorTableText(options.table), context);
  return status.ok() ? console.text() : std::string(status.message());
}

// Experts over `devices`, 10 us and what is left of 256 us.
std::string Experts(bool kernels, std::initializer_list<int> devices, double slower,
                    const std::string& type = "bfloat16") {
  std::string text;
  for (const int d : devices) {
    text += fmt::format("{}{},1024,512,256,8,1,{},balanced,4096,{}\n", kernels ? "cutlass," : "",
                        type, d, slower * (0.010 + 0.256 / d));
  }
  return text;
}
std::string Header(bool kernels) {
  return std::string(kernels ? "kernel_source," : "") +
         "moe_dtype,hidden_size,inter_size,num_experts,topk,moe_tp_size,moe_ep_size,distribution,"
         "num_tokens,latency_ms\n";
}

TEST(OperatorCalibrationTest, FewRowsWithoutKernelsCorrectAndAreNamed) {
  const TempFolder folder;
  OperatorCalibration options;
  options.command = "calibrate";
  options.table = folder.Write("table.csv", Header(true) + Experts(true, {1, 2, 4, 8, 16}, 1) +
                                                Experts(true, {1, 2, 4, 8, 16}, 1, "fp8"));
  options.test = folder.Write(
      "test.csv", Header(true) + Experts(true, {1, 8}, 2) + Experts(true, {8}, 1, "fp8"));
  options.few = folder.Write("few.csv", Header(false) + Experts(false, {2, 16}, 2));
  const std::string text = Answer(options);
  EXPECT_THAT(text, HasSubstr("median error of tested shapes 0.00 %"));
  EXPECT_THAT(text, HasSubstr("test.csv: each shape as " + options.table +
                              " has it, or predicted from its neighbours there, corrected by 2 "
                              "rows of " +
                              options.few));
  EXPECT_THAT(text, HasSubstr("few.csv has no column kernel_source: rows of all kernels count as"));
  EXPECT_THAT(text, HasSubstr("few.csv has no rows of fp8: these are not corrected"));
  EXPECT_THAT(text, testing::Not(HasSubstr("table.csv has no column")));
  options.json = true;
  EXPECT_THAT(Answer(options), HasSubstr("\"corrected by 2 rows of " + options.few + "\""));
}

// Experts of each width by tokens: 10 us, weights of 16 experts at 3 GB/ms, two thirds of 750
// GFLOP/ms; twice as long below 1,024 columns, which no rate says.
std::string Widths(std::initializer_list<int> widths) {
  std::string text = Header(true);
  for (const int inner : widths) {
    for (int tokens = 1; tokens <= 16384; tokens *= 2) {
      const double weights = 3.0 * 2048 * inner;
      const double read = std::min(16, 2 * tokens) * weights * 2 / 3e9;
      const double ms = 0.010 + std::max(read, 2 * 2.0 * tokens * weights / 5e11);
      text += fmt::format("cutlass,bfloat16,2048,{},16,2,1,1,balanced,{},{}\n", inner, tokens,
                          inner < 1024 ? 2 * ms : ms);
    }
  }
  return text;
}

// What other widths' rows say of two that the table lacks, one of them of the slow kind.
TEST(OperatorCalibrationTest, PredictsModelsThatTheTableLacks) {
  const TempFolder folder;
  OperatorCalibration options;
  options.command = "calibrate";
  options.table = folder.Write(
      "table.csv", Widths({256,  320,  384,  448,  512,  576,  640,  768,  832,  1024, 1152,
                           1280, 1408, 1536, 1664, 1792, 2048, 2304, 2560, 2816, 3072, 3584}));
  options.test = folder.Write("test.csv", Widths({704, 1920}));
  const std::string text = Answer(options);
  EXPECT_THAT(text, HasSubstr("30 of 30 rows lie between no measured ones"));
  const size_t at = text.find("median error of tested shapes ");
  ASSERT_NE(at, text.npos) << text;
  EXPECT_LT(std::stod(text.substr(at + 30)), 8) << text;
  options.json = true;
  EXPECT_THAT(Answer(options), HasSubstr("\"extrapolated_count\": 30"));
}

TEST(OperatorCalibrationTest, SaysWhyNothingIsPredicted) {
  const TempFolder folder;
  const std::string header = "gemm_dtype,m,n,k,latency_ms\n";
  OperatorCalibration options;
  options.command = "calibrate serving";
  options.table = folder.Write("table.csv", header + "bfloat16,16,512,1024,1\n");
  options.test = folder.Write("test.csv", header + "bfloat16,16,4096,1024,1\n");
  const std::string text = Answer(options);
  EXPECT_THAT(text, HasSubstr("test.csv: none of its 1 rows is covered by " + options.table));
  EXPECT_THAT(text, HasSubstr("'# device: H100' before the header, or by --platform"));
}

TEST(OperatorCalibrationTest, PlatformsAreOfTheStatedDevice) {
  const TempFolder folder;
  OperatorCalibration options;
  options.command = "calibrate serving";
  options.table =
      folder.Write("table.csv", "# device: H100\ngemm_dtype,m,n,k,latency_ms\nfp8,1,1,1,1\n");
  options.platform = "a100";
  EXPECT_THAT(Answer(options), HasSubstr("table.csv: its device is H100, but --platform a100 is "));
}

}  // namespace
}  // namespace foretrace
