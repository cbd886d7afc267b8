#include "simulator/cost/retarget/retarget_cost_model.h"

#include <gtest/gtest.h>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Says how long each named piece of work takes.
class Table : public CostModel {
 public:
  Table(std::map<std::string, double> us, EstimateSource source)
      : us_(std::move(us)), source_(source) {}
  std::string_view name() const override { return "table"; }
  std::optional<Estimate> Predict(const TraceStore& store, const RankTrace& rank,
                                  NodeIndex node) const override {
    const auto it = us_.find(std::string(store.name(rank, node)));
    if (it == us_.end()) return std::nullopt;
    return Estimate{SimTime::FromUs(it->second), source_, false};
  }

 private:
  std::map<std::string, double> us_;
  EstimateSource source_;
};

// gemm took 30 us, relu 5 us, odd 2 us.
TraceStore Recorded() {
  JobScript job(1);
  job.rank(0)
      .Kernel("gemm", {0, 2}, 7, {10, 40})
      .Kernel("relu", {3, 5}, 7, {40, 45})
      .Kernel("odd", {6, 8}, 7, {45, 47});
  return job.Build();
}

std::optional<Estimate> Of(const RetargetCostModel& model, const TraceStore& store,
                           std::string_view name) {
  return model.Predict(store, store.ranks()[0], FindNode(store, 0, name));
}

TEST(Retarget, RecordedTimesScaleByTheRatioOfTheModels) {
  const TraceStore store = Recorded();
  const Table from({{"gemm", 20}, {"relu", 4}}, EstimateSource::kCalibrated);
  const Table to({{"gemm", 5}, {"relu", 2}, {"odd", 1}}, EstimateSource::kCalibrated);
  const RetargetCostModel model(store, {{&from, &to}});
  // 30 x 5 / 20, although the models say 20 and 5; 5 x 2 / 4.
  EXPECT_EQ(Of(model, store, "gemm")->time, SimTime::FromNs(7500));
  EXPECT_EQ(Of(model, store, "relu")->time, SimTime::FromNs(2500));
  EXPECT_EQ(Of(model, store, "gemm")->source, EstimateSource::kCalibrated);
  // Without a model of both devices there is no ratio: 2 of 37 us.
  EXPECT_FALSE(Of(model, store, "odd").has_value());
  EXPECT_EQ(model.uncovered(), SimTime::FromNs(2000));
  EXPECT_EQ(model.total(), SimTime::FromNs(37000));
  ASSERT_EQ(model.uncovered_names().size(), 1u);
  EXPECT_EQ(model.uncovered_names()[0].name, "odd");
}

TEST(Retarget, TheSameModelsChangeNothing) {
  const TraceStore store = Recorded();
  const Table both({{"gemm", 7}, {"relu", 3}, {"odd", 11}}, EstimateSource::kAnalytic);
  const RetargetCostModel model(store, {{&both, &both}});
  for (const char* name : {"gemm", "relu", "odd"}) {
    const NodeIndex node = FindNode(store, 0, name);
    EXPECT_EQ(Of(model, store, name)->time, store.ranks()[0].duration(node)) << name;
  }
  EXPECT_EQ(model.uncovered(), SimTime());
}

TEST(Retarget, ARatioIsOfModelsOfOneForm) {
  const TraceStore store = Recorded();
  // The calibration of the target lacks relu: measured over analytic would be no ratio of devices.
  const Table from({{"gemm", 20}, {"relu", 4}}, EstimateSource::kCalibrated);
  const Table mixed({{"relu", 4}}, EstimateSource::kAnalytic);
  const Table from_peaks({{"relu", 2}}, EstimateSource::kAnalytic);
  const Table to_peaks({{"relu", 1}}, EstimateSource::kAnalytic);
  const RetargetCostModel model(store, {{&from, &mixed}, {&from_peaks, &to_peaks}});
  EXPECT_EQ(Of(model, store, "relu")->time, SimTime::FromNs(2500));
  EXPECT_EQ(Of(model, store, "relu")->source, EstimateSource::kAnalytic);
}

}  // namespace
}  // namespace foretrace
