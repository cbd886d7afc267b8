#include "simulator/cost/collective/collective_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrace {
namespace {

using ::testing::HasSubstr;

constexpr char kFile[] = R"(foretrace_calibration: 1
kind: collective
platform: "p"
interconnect: switch
stack: ["nccl 2.29.2", "torch 2.1.0"]
date: "2026-01-31"
command: "c"
sources:
  - "licence": "MIT"
errors:
  in_sample: {count: 3, gmae_percent: 1.5, mape_percent: 2, std_percent: 1, max_percent: 4}
models:
  - op: all_reduce
    ranks: 8
    nodes: 1
    inplace: 1
    dtype: "float32"
    library: "nccl"
    source: "lab \"one\""
    min_bytes: 1024
    max_bytes: 1073741824
    points: 3
    form: curve
    start_up_us: 20
    sigmoid: [1.2, 21, 0.6, 1.1]
    knots: "10 0.25;20 -0.1;30 0.0125"
)";

std::string With(const std::string& what, const std::string& by) {
  std::string text = kFile;
  text.replace(text.find(what), what.size(), by);
  return text;
}
std::string MessageFor(const std::string& text) {
  return std::string(ParseCollectiveCalibration("c.yaml", text).status().message());
}

TEST(CollectiveFile, RoundTripsToTheByte) {
  const auto calibration = ParseCollectiveCalibration("c.yaml", kFile);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_EQ(calibration->header().platform, "p");
  EXPECT_EQ(calibration->header().interconnect, Interconnect::kSwitch);
  EXPECT_EQ(calibration->header().in_sample->count, 3u);
  ASSERT_EQ(calibration->models().size(), 1u);
  EXPECT_EQ(calibration->models()[0].source, "lab \"one\"");
  EXPECT_EQ(calibration->models()[0].curve.spec().knots.size(), 3u);
  EXPECT_EQ(HeaderYaml(calibration->header()) + CollectiveModelsYaml(calibration->models()), kFile);
}

TEST(CollectiveFile, RefusesOtherVersionsAndKinds) {
  EXPECT_THAT(MessageFor(With("foretrace_calibration: 1", "foretrace_calibration: 2")),
              HasSubstr("c.yaml: calibration format version 2, this build reads version 1"));
  EXPECT_THAT(MessageFor(With("kind: collective", "kind: kernel")), HasSubstr("kind is 'kernel'"));
  EXPECT_THAT(MessageFor("a: 1\n"), HasSubstr("not a calibration file"));
  EXPECT_THAT(MessageFor("- 1\n"), HasSubstr("not a calibration file"));
  EXPECT_THAT(MessageFor("a: [\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(MessageFor(""), HasSubstr("not a calibration file"));
}

TEST(CollectiveFile, NamesTheLineOfABrokenModel) {
  EXPECT_THAT(MessageFor(With("ranks: 8", "ranks: eight")), HasSubstr("c.yaml:14:"));
  EXPECT_THAT(MessageFor(With("ranks: 8", "ranks: 1")), HasSubstr("c.yaml:13: model 0: 1 ranks"));
  EXPECT_THAT(MessageFor(With("op: all_reduce", "op: magic")), HasSubstr("unknown op"));
  EXPECT_THAT(MessageFor(With("form: curve", "form: spline")), HasSubstr("unknown form"));
  EXPECT_THAT(MessageFor(With("[1.2, 21, 0.6, 1.1]", "[1.2, 21, 0.6]")), HasSubstr("four numbers"));
  EXPECT_THAT(MessageFor(With("[1.2, 21, 0.6, 1.1]", "[4, 21, 3, 1.1]")), HasSubstr("L x k"));
  EXPECT_THAT(MessageFor(With("20 -0.1", "20,-0.1")), HasSubstr("knots"));
  EXPECT_THAT(MessageFor(With("20 -0.1", "9 -0.1")), HasSubstr("knot 1"));
  EXPECT_THAT(MessageFor(With("min_bytes: 1024", "min_bytes: 0")), HasSubstr("range"));
  EXPECT_THAT(MessageFor(With("    start_up_us: 20\n", "")), HasSubstr("c.yaml:"));
  const std::string model = std::string(kFile).substr(std::string(kFile).find("  - op"));
  EXPECT_THAT(MessageFor(kFile + model), HasSubstr("given twice"));
  EXPECT_THAT(MessageFor(std::string(kFile).substr(0, std::string(kFile).find("models"))),
              HasSubstr("no models"));
}

}  // namespace
}  // namespace foretrace
