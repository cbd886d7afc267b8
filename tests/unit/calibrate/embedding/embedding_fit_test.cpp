// Synthetic tables made from known parameters: the fit finds them again.

#include "simulator/calibrate/embedding/embedding_fit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "simulator/calibrate/calibrate.h"
#include "simulator/calibrate/embedding/embedding_fitter.h"
#include "simulator/cost/embedding/embedding_operator.h"
#include "simulator/cost/embedding/expected_reuse.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

const GpuPeaks& Device() {
  static const GpuPeaks device = *FindGpuPeaks("a100-sxm4-40gb");
  return device;
}

LookupSample SampleOf(LookupPass pass, int tables, double batch, double rows, double dim,
                      double pooling, TimedPart part = TimedPart::kAll) {
  LookupSample sample;
  sample.pass = pass;
  sample.part = part;
  const ExpectedAccess access = UniformAccess(batch * pooling, rows);
  sample.query.tables.assign(static_cast<size_t>(tables),
                             {batch, rows, dim, pooling, access.reuse, access.unique_rows});
  return sample;
}

// Lookups bound by each mechanism in turn: hardly any work, one long bag, rows from DRAM, rows from
// L2.
std::vector<TimedLookup> Table(LookupPass pass, const EmbeddingParameters& truth,
                               TimedPart part = TimedPart::kAll) {
  std::vector<TimedLookup> table;
  EmbeddingModel model;
  model.parameters = truth;
  for (const double rows : {1e3, 1e5, 1e7}) {
    for (const double batch : {8.0, 512.0, 8192.0}) {
      for (const double pooling : {1.0, 10.0, 100.0}) {
        for (const int tables : {1, 8}) {
          TimedLookup lookup{
              SampleOf(pass, tables, batch, rows, tables == 1 ? 64 : 256, pooling, part), 0};
          lookup.time_us =
              PredictUs(model, Device(), lookup.sample, TrafficOf(Device(), lookup.sample.query));
          table.push_back(std::move(lookup));
        }
      }
    }
  }
  return table;
}

TEST(EmbeddingFit, FindsTheParametersOfAForwardTable) {
  EmbeddingParameters truth;
  truth.base_us = 3.7;
  truth.dram_efficiency = 0.61;
  truth.l2_gbps = 3300;
  truth.lookup_us = 0.35;
  const auto model =
      FitEmbeddingModel(Device(), LookupPass::kForward, Table(LookupPass::kForward, truth),
                        TypicalParameters(LookupPass::kForward), {});
  ASSERT_TRUE(model.ok()) << model.status();
  // 54 exact times against priors of 20 to 100 %: what is left of the priors is below 1 %.
  EXPECT_NEAR(model->parameters.base_us, 3.7, 0.04);
  EXPECT_NEAR(model->parameters.dram_efficiency, 0.61, 0.006);
  EXPECT_NEAR(model->parameters.l2_gbps, 3300, 100);
  EXPECT_NEAR(model->parameters.lookup_us, 0.35, 0.004);
  EXPECT_GT(model->informed[0], 0.9);
  EXPECT_EQ(model->points, 54);
  EXPECT_EQ(model->informed[4],
            0);  // pooling factors are known, so there is nothing to learn of skew
  EXPECT_EQ(model->parameters.length_skew, 1);
}

TEST(EmbeddingFit, FindsTheParametersOfABackwardTable) {
  EmbeddingParameters truth = TypicalParameters(LookupPass::kBackward);
  truth.base_us = 20;
  truth.dram_efficiency = 0.55;
  truth.sort_us = 30;
  truth.sort_bytes = 160;
  std::vector<TimedLookup> table = Table(LookupPass::kBackward, truth, TimedPart::kKernels);
  const auto sorts = Table(LookupPass::kBackward, truth, TimedPart::kSort);
  table.insert(table.end(), sorts.begin(), sorts.end());
  const auto model = FitEmbeddingModel(Device(), LookupPass::kBackward, table,
                                       TypicalParameters(LookupPass::kBackward), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NEAR(model->parameters.base_us, 20, 0.2);
  EXPECT_NEAR(model->parameters.dram_efficiency, 0.55, 0.01);
  EXPECT_NEAR(model->parameters.sort_us, 30, 0.3);
  // Sort bytes move at the fitted DRAM rate.
  EXPECT_NEAR(model->parameters.sort_bytes / model->parameters.dram_efficiency, 160 / 0.55, 3);
}

// One kernel that only pays its base says nothing of bandwidths: they stay where the prior has
// them.
TEST(EmbeddingFit, FewKernelsLeaveTheRestTypical) {
  TimedLookup tiny{SampleOf(LookupPass::kForward, 1, 1, 10, 4, 1), 9};
  const auto model = FitEmbeddingModel(Device(), LookupPass::kForward, {&tiny, 1},
                                       TypicalParameters(LookupPass::kForward), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NEAR(model->parameters.base_us, 8.4, 0.3);  // 9 less a lookup of about 0.5
  EXPECT_NEAR(model->parameters.dram_efficiency, 0.7, 0.001);
  EXPECT_NEAR(model->parameters.l2_gbps, 2000, 5);
  EXPECT_LT(model->informed[1], 0.01);
  EXPECT_GT(model->informed[0], 0.9);
}

TEST(EmbeddingFit, LearnsWhatPhysicsLeavesWhereThereAreRowsEnough) {
  const EmbeddingParameters truth;
  std::vector<TimedLookup> table;
  for (int copy = 0; copy < 5; ++copy) {
    for (TimedLookup lookup : Table(LookupPass::kForward, truth)) {
      // A mechanism that the physics does not know: many bags cost half as much again.
      if (lookup.sample.query.tables[0].batch > 1000) lookup.time_us *= 1.5;
      table.push_back(std::move(lookup));
    }
  }
  ASSERT_GE(table.size(), kResidualPoints);
  const auto error = [&](const EmbeddingModel& model) {
    double sum = 0;
    for (const TimedLookup& t : table) {
      sum += std::abs(std::log(
          PredictUs(model, Device(), t.sample, TrafficOf(Device(), t.sample.query)) / t.time_us));
    }
    return sum / static_cast<double>(table.size());
  };
  const auto learnt = FitEmbeddingModel(Device(), LookupPass::kForward, table, truth, {});
  ASSERT_TRUE(learnt.ok()) << learnt.status();
  EXPECT_FALSE(learnt->residual.empty());
  EmbeddingModel physics = *learnt;
  physics.residual = {};
  EXPECT_LE(learnt->residual_clip, std::log(1.6));
  EXPECT_LT(error(*learnt), 0.3 * error(physics));
}

TEST(EmbeddingRows, TurnIntoSamplesAndBack) {
  for (const LookupPass pass : {LookupPass::kForward, LookupPass::kBackward}) {
    LookupSample sample = SampleOf(pass, 3, 128, 1e5, 64, 12.5, TimedPart::kKernels);
    sample.query.mean_lengths = true;
    sample.query.optimizer = OptimizerKind::kAdagrad;
    BenchmarkRow row = RowOfSample(sample, "trace");
    const auto back = SampleOfRow(row);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->part, TimedPart::kKernels);
    EXPECT_EQ(back->kernels, LookupKernels::kBatched);
    EXPECT_TRUE(back->query.mean_lengths);
    const EmbeddingModel model;
    EXPECT_DOUBLE_EQ(PredictUs(model, Device(), *back, TrafficOf(Device(), back->query)),
                     PredictUs(model, Device(), sample, TrafficOf(Device(), sample.query)));
  }
}

class EmbeddingCalibration : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // One row with `shape`, `time_us` and `library` as given.
  absl::Status StatusOf(const std::string& shape, double time_us = 50,
                        const std::string& library = "torch;impl=concat") const {
    const std::string text = fmt::format(
        "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n"
        "embedding,embedding,forward,a100-sxm4-40gb,float32,{},{},0,3,{},lab\n",
        shape, time_us, library);
    CalibrateOptions options;
    options.tables = {Write("table.csv", text)};
    return RunCalibrate(EmbeddingFitter(), options).status();
  }
  static std::string Shape(const std::string& rf, const std::string& l = "4") {
    return fmt::format("tables=2;b=64;e=1000;d=32;l={};weights=0;rf={}", l, rf);
  }
  BenchmarkTable MadeTable() const {
    BenchmarkTable table;
    table.path = "made";
    table.provenance = {{"licence", "none"}, {"date", "2026-01-31"}};
    for (const LookupPass pass : {LookupPass::kForward, LookupPass::kBackward}) {
      int point = 0;
      for (const TimedLookup& t : Table(pass, TypicalParameters(pass))) {
        BenchmarkRow row = RowOfSample(t.sample, "fbgemm");
        row.platform = "a100-sxm4-40gb";
        row.time_us = t.time_us;
        row.source = fmt::format("lab;point={}", point++);
        row.line = static_cast<int64_t>(table.rows.size()) + 1;
        table.rows.push_back(std::move(row));
      }
    }
    return table;
  }

  static constexpr char kReuse[] = "0|0.5|0.5|0|0|0|0|0|0|0|0|0|0|0|0|0|0";
  const TempFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(EmbeddingCalibration, SameDataSameBytesAndTheFilePredictsWhatTheFitDid) {
  CalibrateOptions options;
  options.made_tables = {MadeTable()};
  options.hold_out = "every-third";
  options.output = (folder_ / "a").string();
  const auto fitted = RunCalibrate(EmbeddingFitter(), options);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_LT(fitted->models.back().errors.max_percent, 1);
  const std::string first = Read(fitted->written[0]);
  EXPECT_THAT(first, HasSubstr("kind: embedding"));
  EXPECT_THAT(first, HasSubstr("device: a100-sxm4-40gb"));
  // The same rows from a file.
  options.made_tables.clear();
  options.tables = {Write("made", BenchmarkCsv(MadeTable()))};
  options.output = (folder_ / "b").string();
  const auto again = RunCalibrate(EmbeddingFitter(), options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Read(again->written[0]), first);

  CalibrateOptions evaluate;
  evaluate.calibration = fitted->written[0];
  evaluate.test_tables = options.tables;
  const auto loaded = RunCalibrate(EmbeddingFitter(), evaluate);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->models.back().errors.count, 108u);
  EXPECT_LT(loaded->models.back().errors.max_percent, 1);
  EXPECT_EQ(loaded->models.back().extrapolated_count, 0u);

  // A few rows correct it: base costs double.
  CalibrateOptions adapt;
  adapt.adapt = fitted->written[0];
  BenchmarkTable few = MadeTable();
  few.rows.resize(3);
  EmbeddingModel slow;
  slow.parameters.base_us = 10;
  for (BenchmarkRow& row : few.rows) {
    const LookupSample sample = *SampleOfRow(row);
    row.time_us = PredictUs(slow, Device(), sample, TrafficOf(Device(), sample.query));
  }
  adapt.made_tables = {few};
  const auto adapted = RunCalibrate(EmbeddingFitter(), adapt);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  EXPECT_LT(adapted->models.back().errors.max_percent, 3);
}

TEST_F(EmbeddingCalibration, BadTablesGetOneClearLine) {
  EXPECT_TRUE(StatusOf(Shape(kReuse)).ok()) << StatusOf(Shape(kReuse));
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(StatusOf(Shape("0|1"))), HasSubstr("rf has 2 reuse factors, not 17"));
  EXPECT_THAT(message(StatusOf(Shape("0|0.5|0.1|0|0|0|0|0|0|0|0|0|0|0|0|0|0"))),
              HasSubstr("must add up to 1"));
  EXPECT_THAT(message(StatusOf(Shape("0|a|0.1|0|0|0|0|0|0|0|0|0|0|0|0|0|0"))),
              HasSubstr("joined by '|'"));
  EXPECT_THAT(message(StatusOf(Shape(kReuse, "many"))), HasSubstr("shape key 'l' is 'many'"));
  EXPECT_THAT(message(StatusOf(Shape(kReuse), 50, "torch")), HasSubstr("no tag impl="));
  EXPECT_THAT(message(StatusOf(
                  "tables=2;b=4000000;e=1000;d=32;l=4;weights=0;rf=" + std::string(kReuse), 1)),
              HasSubstr("milliseconds or seconds?"));
  EXPECT_THAT(message(StatusOf(
                  "tables=2;b=40000;e=1000;d=32;l=4;weights=0;rf=" + std::string(kReuse), 1e7 - 1)),
              HasSubstr("nanoseconds?"));
  // File and line are named.
  EXPECT_THAT(message(StatusOf(Shape("0|1"))), HasSubstr("table.csv:2"));
}

TEST_F(EmbeddingCalibration, FilesOfAnotherVersionOrOutOfRangeAreRefused) {
  CalibrateOptions options;
  options.made_tables = {MadeTable()};
  options.output = folder_.string();
  const auto fitted = RunCalibrate(EmbeddingFitter(), options);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  const std::string good = Read(fitted->written[0]);
  const auto load = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return std::string(LoadEmbeddingModels(Write("changed.yaml", text)).status().message());
  };
  EXPECT_EQ(load("", ""), "");
  EXPECT_THAT(load("foretrace_calibration: 1", "foretrace_calibration: 2"),
              HasSubstr("format version 2, this build reads version 1"));
  EXPECT_THAT(load("kind: embedding", "kind: kernel"), HasSubstr("expected 'embedding'"));
  EXPECT_THAT(load("dram_efficiency: 0", "dram_efficiency: 10"), HasSubstr("is not in [0.001, 1]"));
  EXPECT_THAT(load("pass: backward", "pass: sideways"), HasSubstr("is unknown"));
  EXPECT_THAT(load("lower: [", "lower: [9e99, "), HasSubstr("three numbers"));
  EXPECT_THAT(load("residual_trees: 0", "residual_trees: 4"), HasSubstr("embedding.pb"));
  EXPECT_THAT(load("sort_us", "sort_ms"), HasSubstr("sort_us is missing"));
}

// Queries beyond what was fitted are answered and flagged; what was not fitted is analytic.
TEST(EmbeddingModels, KnowsWhatItRestsOn) {
  EmbeddingModels models;
  EXPECT_EQ(models.Choose(LookupKernels::kBatched, LookupPass::kForward).source(),
            EstimateSource::kAnalytic);
  EmbeddingModel& bag = models.at(LookupKernels::kBag, LookupPass::kForward);
  bag.points = 10;
  const auto other = models.Choose(LookupKernels::kBatched, LookupPass::kForward);
  EXPECT_TRUE(other.other_kernels);
  EXPECT_EQ(other.source(), EstimateSource::kCalibrated);
  EXPECT_FALSE(models.Choose(LookupKernels::kBag, LookupPass::kForward).other_kernels);
  bag.lower = {1, 1, 1};
  bag.upper = {1e4, 1e6, 100};
  const auto inside = SampleOf(LookupPass::kForward, 1, 10, 100, 16, 5);  // 50, 6,400 bytes, 10
  const auto beyond = SampleOf(LookupPass::kForward, 1, 101, 100, 16, 5);
  EXPECT_TRUE(bag.InRange(TrafficOf(Device(), inside.query)));
  EXPECT_FALSE(bag.InRange(TrafficOf(Device(), beyond.query)));
}

// Two measured forward passes (NVIDIA's recsys-examples, FBGEMM on an H100) say nothing of the skew
// of lengths, which must not round to less than 1: a file with that is refused.
TEST(EmbeddingFit, KeepsParametersWithinTheirRange) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  LookupSample sample = SampleOf(LookupPass::kForward, 10, 104'857, 1'677'721, 128, 1);
  ReuseFactors reuse;
  reuse.fractions = {0,
                     0.818158186,
                     0.116775296,
                     0.0359066201,
                     0.0150306666,
                     0.00675044201,
                     0.00382158826,
                     0.00174845497,
                     0.000874227483,
                     0.000452186629,
                     0.000241166202,
                     0.000120583101,
                     6.02915506e-05,
                     3.01457753e-05,
                     3.01457753e-05,
                     0,
                     0};
  for (TableLookup& table : sample.query.tables) {
    table.reuse = reuse;
    table.unique_rows = 35'028.002;
  }
  const std::vector<TimedLookup> measured = {{sample, 347.491841}, {sample, 344.969921}};
  const auto model = FitEmbeddingModel(h100, LookupPass::kForward, measured,
                                       TypicalParameters(LookupPass::kForward), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GE(model->parameters.length_skew, 1);
}

// Without a calibration a forward pass from L2 goes with multiprocessors times clock: those of an
// H100 (132 at 1,830 MHz) have 1.586 times those of the A100 that the typical rate is of (108 at
// 1,410). What was fitted, and backward passes, keep their rate.
TEST(EmbeddingModels, TypicalRateFromL2GoesWithClocks) {
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  EmbeddingModel model;  // bound by L2 alone
  model.parameters.base_us = 0;
  model.parameters.lookup_us = 1e-6;
  model.parameters.dram_efficiency = 1;
  model.parameters.l2_gbps = 10;
  const auto us = [&](const GpuPeaks& device, LookupPass pass) {
    const LookupSample sample = SampleOf(pass, 1, 4096, 100'000, 128, 20);
    return model.Time(device, sample.query, TrafficOf(device, sample.query), pass).kernel.us();
  };
  const double clocks = 132 * 1830.0 / (108 * 1410.0);
  EXPECT_NEAR(us(Device(), LookupPass::kForward) / us(h100, LookupPass::kForward), clocks, 1e-6);
  EXPECT_NEAR(us(Device(), LookupPass::kBackward) / us(h100, LookupPass::kBackward), 1, 1e-6);
  model.points = 1;
  EXPECT_NEAR(us(Device(), LookupPass::kForward) / us(h100, LookupPass::kForward), 1, 1e-6);
}

}  // namespace
}  // namespace foretrace
