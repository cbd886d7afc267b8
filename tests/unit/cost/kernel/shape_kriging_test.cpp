#include "simulator/cost/kernel/shape_kriging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cost/calibration_file.h"
#include "simulator/cost/kernel/kernel_file.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

constexpr ShapeDevice kDevice = {108, 40};

TEST(ShapeKriging, AShapeVariesMostWithItself) {
  // All parts for many rows at distance 0: 1 + 0.798^2 + 0.186^2 + 0.111^2 + 0.044^2 + 0.0857^2
  // + 0.134^2 + 0.0554^2 + 0.0494^2 = 1.716467.
  const ShapeCovariance covariance(4096);
  const ShapeCoordinates x = CoordinatesOf(kDevice, 4096, 1024, 2048);
  EXPECT_NEAR(covariance(x, x), 1.716467, 1e-6);
  const ShapeCoordinates near = CoordinatesOf(kDevice, 4096, 1536, 2048),
                         far = CoordinatesOf(kDevice, 4096, 65536, 32);
  EXPECT_DOUBLE_EQ(covariance(x, near), covariance(near, x));
  EXPECT_GT(covariance(x, x), covariance(x, near));
  EXPECT_GT(covariance(x, near), covariance(x, far));
  EXPECT_GT(covariance(x, far), 1);
}

TEST(ShapeKriging, RowsDecideWhatResembles) {
  // Few rows: 1 + 2.79^2 + 0.336^2 + 0.0456^2 + 0.0809^2 + 0.0236^2 + 0.148^2 + 0.0639^2
  // = 8.932164.
  const auto self = [](int64_t m) {
    const ShapeCoordinates x = CoordinatesOf(kDevice, m, 1024, 2048);
    return ShapeCovariance(m)(x, x);
  };
  EXPECT_NEAR(self(1), 8.932164, 1e-6);
  EXPECT_EQ(self(1), self(48));
  EXPECT_EQ(self(49), self(640));
  EXPECT_EQ(self(641), self(1 << 20));
  EXPECT_NE(self(48), self(49));
  EXPECT_NE(self(640), self(641));
}

TEST(ShapeKriging, DividedReductionsAreCoordinates) {
  // 16 rows by 512 columns are 8 blocks of 64 x 64; 108 multiprocessors take 13 parts of each,
  // which leaves 4 idle.
  const ShapeCoordinates x = CoordinatesOf(kDevice, 16, 512, 2600);
  EXPECT_FLOAT_EQ(x[16], static_cast<float>(std::log(200.0)));
  EXPECT_FLOAT_EQ(x[20], static_cast<float>(std::log(104.0 / 108)));
}

TEST(ShapeKriging, WavesAreCoordinates) {
  // 108 * 128 rows by 256 columns are one wave of 128 x 256 tiles on 108 multiprocessors, whose log
  // loss is 0; one row more needs 109 tiles, 2 waves of 109 / 108: log(2 / (109 / 108)).
  EXPECT_FLOAT_EQ(CoordinatesOf(kDevice, 108 * 128, 256, 64)[2], 0);
  EXPECT_FLOAT_EQ(CoordinatesOf(kDevice, 108 * 128 + 1, 256, 64)[2],
                  static_cast<float>(std::log(216.0 / 109)));
}

TEST(ShapeKriging, WeightsTimesCovariancesBetweenSlices) {
  const std::vector<KrigingSlice> slices = {{64, {{512, 512, 0.25f}}}, {256, {{512, 512, 0.5f}}}};
  const auto kriging = ShapeKriging::Create(kDevice, slices);
  ASSERT_TRUE(kriging.ok());
  // At the point itself the covariance is 1 + 0.774^2 + 0.139^2 + 0.0838^2 + 0.0691^2 + 0.032^2
  // + 0.161^2 + 0.0506^2 + 0.144^2; 128 is half way between 64 and 256 in log m.
  constexpr double kSelf = 1.6804356;
  EXPECT_NEAR(kriging->LogResidual(64, 512, 512), 0.25 * kSelf, 1e-6);
  EXPECT_NEAR(kriging->LogResidual(256, 512, 512), 0.5 * kSelf, 1e-6);
  EXPECT_NEAR(kriging->LogResidual(128, 512, 512), 0.375 * kSelf, 1e-6);
  EXPECT_NEAR(kriging->LogResidual(1, 512, 512), 0.25 * kSelf, 1e-6);
  EXPECT_NEAR(kriging->LogResidual(1 << 20, 512, 512), 0.5 * kSelf, 1e-6);
  EXPECT_EQ(ShapeKriging().LogResidual(64, 512, 512), 0);
  // Sizes without limits stay finite, and resemble less than the point itself.
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_GT(kriging->LogResidual(kHuge, kHuge, kHuge), 0.5);
  EXPECT_LT(kriging->LogResidual(kHuge, kHuge, kHuge), 0.5 * kSelf);
}

TEST(ShapeKriging, RefusesFilesThatAreOutOfOrderOrRange) {
  const KrigingPoint good = {512, 512, 0.1f};
  const auto ok = [](const ShapeDevice& device, std::vector<KrigingSlice> slices) {
    return ShapeKriging::Create(device, std::move(slices)).ok();
  };
  EXPECT_TRUE(ok(kDevice, {{1, {good}}, {2, {good}}}));
  EXPECT_FALSE(ok(kDevice, {{2, {good}}, {1, {good}}}));
  EXPECT_FALSE(ok(kDevice, {{1, {good}}, {1, {good}}}));
  EXPECT_FALSE(ok(kDevice, {{0, {good}}}));
  EXPECT_FALSE(ok(kDevice, {{1, {}}}));
  EXPECT_FALSE(ok(kDevice, {{1, {{0, 512, 0.1f}}}}));
  EXPECT_FALSE(ok(kDevice, {{1, {{512, 512, std::nanf("")}}}}));
  EXPECT_FALSE(ok({0, 40}, {{1, {good}}}));
}

TEST(ShapeKriging, SurvivesTheFileOfItsModel) {
  KernelModel model;
  model.form = KernelForm::kGemm;
  model.key = {KernelKind::kGemm, Precision::kHalf, Direction::kForward, 0};
  model.upper = {1 << 20, 1 << 20, 1 << 20, 1};
  const auto kriging = ShapeKriging::Create(
      kDevice, {{64, {{512, 512, 0.25f}, {1024, 64, -0.5f}}}, {256, {{512, 512, 0.5f}}}});
  ASSERT_TRUE(kriging.ok());
  model.kriging = *kriging;
  model.kriging_share = 0.5;
  // Looks at what kriging says alone: 0.1 below 0.3, and 0.2 from there on.
  const auto feature = static_cast<uint8_t>(GemmFeatureCount(KernelKind::kGemm));
  const auto trees =
      TreeEnsemble::Create(1, model.feature_count(), {feature}, {0.3f}, {0.1f, 0.2f});
  ASSERT_TRUE(trees.ok()) << trees.status();
  model.residual = *trees;
  model.residual_clip = 1;
  const KernelModels models(*FindGpuPeaks("a100-sxm4-80gb"), {model});
  CalibrationHeader header;
  header.kind = "kernel";
  header.platform = "a100-sxm4-nvswitch";
  header.date = "2026-01-01";
  header.command = "test";
  const TempFolder temporary;
  const std::filesystem::path folder = temporary.path();
  std::ofstream(folder / "kernels.yaml") << HeaderYaml(header) << KernelModelsYaml(models);
  std::ofstream(folder / std::string(kKernelResidualFile)) << KernelResidualBytes(models);
  const auto loaded = LoadKernelModels((folder / "kernels.yaml").string());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(KernelResidualBytes(loaded->models), KernelResidualBytes(models));
  const KernelWork work =
      Kernels({LinearOp{100, 768, 512}, DType::kFloat16, Direction::kForward}).front();
  EXPECT_EQ(loaded->models.Predict(work, Precision::kHalf).time,
            models.Predict(work, Precision::kHalf).time);
  // The roofline by half of what kriging says, by what the trees say of all of that.
  const KernelPoint point = model.Point(models.device(), work);
  const double kriged = kriging->LogResidual(100, 768, 512);
  const double left = kriged < 0.3 ? 0.1 : 0.2;
  EXPECT_NEAR(model.InterpolatedUs(models.device(), point, work),
              point.kernel_us * std::exp(0.5 * kriged + left), 1e-5 * point.kernel_us);
}

}  // namespace
}  // namespace foretrace
