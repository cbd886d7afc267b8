// The reports on public profiles (traces/README.md): invariants that hold whatever the prediction.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "simulator/engine/replay.h"
#include "simulator/importers/import.h"
#include "simulator/report/prediction_report.h"
#include "simulator/report/text_report.h"
#include "simulator/report/timeline.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

std::filesystem::path DataFolder() {
  const char* named = std::getenv("FORETRACE_REALDATA");
  return named != nullptr ? std::filesystem::path(named)
                          : std::filesystem::path(FORETRACE_SOURCE_DIR) / "../shared/realdata";
}

using GroupTimes = std::array<SimTime, static_cast<size_t>(WorkGroup::kCount)>;

// Predicts one profile and checks what must hold of any report; returns the time of each group.
void Report(const std::string& file, GroupTimes& groups) {
  const std::filesystem::path path = DataFolder() / file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent; set FORETRACE_REALDATA";
  const auto store = ImportTraces({path.string()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EventTable table(*store);
  CompileOptions options;
  options.allow_missing_ranks = true;
  EngineObserver* observers[] = {&table};
  const auto prediction = Predict(*store, options, nullptr, observers);
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  std::vector<std::vector<IterationWindow>> windows;
  for (const PredictedRank& rank : prediction->ranks) {
    windows.emplace_back();
    for (const PredictedIteration& i : rank.iterations) {
      windows.back().push_back(
          {i.number, i.predicted_start, i.predicted_end, i.recorded_start, i.recorded_end});
    }
  }
  const auto report = BuildPredictionReport(table, windows, {});
  ASSERT_TRUE(report.ok()) << report.status();
  if (std::getenv("FORETRACE_PRINT_REPORT") != nullptr) {
    std::cout << TextReport(*report, *store, {});
  }
  EXPECT_EQ(report->critical_path.total, report->iteration_time);
  const SimTime unexplained =
      report->critical_path.by_activity[static_cast<size_t>(PathActivity::kUnexplained)];
  EXPECT_EQ(unexplained, SimTime());
  for (const StreamBreakdown& s : report->streams) {
    EXPECT_EQ(s.busy() + s.idle_total(), report->ranks[s.rank].window.predicted());
    for (size_t g = 0; g < groups.size(); ++g) groups[g] += s.work[g];
  }
  const TempFolder folder;
  const std::string timeline = folder.path() + "/timeline.json.gz";
  const auto writer = MakeTimelineWriter(timeline);
  TimelineOptions timeline_options;
  timeline_options.windows = windows;
  timeline_options.predicted_cpu_time = [&](RankIndex rank, SimTime recorded) {
    return prediction->PredictedCpuTime(rank, recorded);
  };
  WriteTimeline(table, timeline_options, *writer);
  EXPECT_TRUE(writer->Close().ok());
  if (std::getenv("FORETRACE_PRINT_REPORT") == nullptr) std::filesystem::remove(timeline);
}

SimTime Of(const GroupTimes& groups, WorkGroup group) { return groups[static_cast<size_t>(group)]; }

TEST(RealData, DlrmOnEightRanks) {
  GroupTimes groups{};
  Report("param-et_replay/dlrm_kineto.tar.gz", groups);
  if (IsSkipped()) return;
  for (const WorkGroup group :
       {WorkGroup::kEmbeddingForward, WorkGroup::kEmbeddingBackward, WorkGroup::kGemmForward,
        WorkGroup::kGemmBackward, WorkGroup::kMemory, WorkGroup::kOther, WorkGroup::kAllToAll,
        WorkGroup::kAllReduce}) {
    EXPECT_GT(Of(groups, group), SimTime()) << Name(group);
  }
  EXPECT_EQ(Of(groups, WorkGroup::kConvolutionForward), SimTime());
  EXPECT_EQ(Of(groups, WorkGroup::kSendRecv), SimTime());  // NCCL's SendRecv here is all-to-all
}

TEST(RealData, ResNetOnOneRank) {
  GroupTimes groups{};
  Report("kineto-tb_plugin/resnet50_num_workers_0.worker0.1623143089861.pt.trace.json.gz", groups);
  if (IsSkipped()) return;
  EXPECT_GT(Of(groups, WorkGroup::kConvolutionForward), SimTime());
  EXPECT_GT(Of(groups, WorkGroup::kConvolutionBackward),
            Of(groups, WorkGroup::kConvolutionForward));
  EXPECT_GT(Of(groups, WorkGroup::kGemmForward), SimTime());  // the classifier's last layer
  EXPECT_GT(Of(groups, WorkGroup::kConvolutionForward), Of(groups, WorkGroup::kGemmForward));
}

TEST(RealData, Amd) {
  GroupTimes groups{};
  Report("hta-traces/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz", groups);
  if (IsSkipped()) return;
  EXPECT_GT(Of(groups, WorkGroup::kGemmForward), SimTime());
  EXPECT_GT(Of(groups, WorkGroup::kGemmBackward), SimTime());
}

}  // namespace
}  // namespace foretrace
