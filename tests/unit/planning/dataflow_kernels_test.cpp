// Mappings of dataflow graphs with calibrated kernels and collectives against measured training.
#include "simulator/planning/dataflow/dataflow_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "simulator/base/shipped.h"
#include "simulator/hardware/catalog.h"
#include "simulator/planning/dataflow/dataflow_iteration.h"
#include "simulator/planning/mappings/mapping_validation.h"
#include "simulator/planning/mappings/training_validation.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

MappingValidationOptions Rows(const std::string& file, const std::string& platform) {
  MappingValidationOptions o;
  o.rows = file;
  o.platform = platform.empty() ? "" : *FindShipped(kPlatforms, platform);
  o.dataflow = true;
  return o;
}

// DFModel is 10 % off such rows (its figure 6). Nothing here is fitted to them: kernels and
// all-reduces within a node are those of the calibration, which has seen no training.
TEST(DataflowIteration, MeasuredOnA100) {
  const std::string vtrain = RealData("vtrain/ground_truth_multi.csv"),
                    megatron = RealData("calculon/megatron_seqsel_table5_measured.json");
  FORETRACE_SKIP_WITHOUT(vtrain);
  MappingValidationOptions o = Rows(vtrain, "dgx-a100-80gb");
  const auto rows = ValidateMappings(o);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->summary.count, 36U);
  EXPECT_LE(rows->summary.mape_percent, 8);
  o.kernels = "none";
  const auto closed = ValidateMappings(o);
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_LT(rows->summary.mape_percent, closed->summary.mape_percent);
  const auto table5 = ValidateMappings(Rows(megatron, "dgx-a100-80gb"));
  ASSERT_TRUE(table5.ok()) << table5.status();
  EXPECT_EQ(table5->summary.count, 8U);
  EXPECT_LE(table5->summary.mape_percent, 8);
  std::printf("vTrain %.2f %%, without measured kernels %.2f %%; Megatron %.2f, at most %.2f %%\n",
              rows->summary.mape_percent, closed->summary.mape_percent,
              table5->summary.mape_percent, table5->summary.max_percent);
}

// GPT-3 175B by NeMo: interleaved, its optimizer divided, with sequence parallelism.
TEST(DataflowIteration, MeasuredOnH100) {
  const std::string file = RealData("training_rows/dgxc_h100.csv");
  FORETRACE_SKIP_WITHOUT(file);
  const auto rows = ValidateTrainingRows(Rows(file, ""));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->summary.count, 15U);
  EXPECT_LE(rows->summary.mape_percent, 8);
  std::printf("H100 %.2f %%, at most %.2f %%\n", rows->summary.mape_percent,
              rows->summary.max_percent);
  for (const JudgedRow& row : rows->rows) {
    EXPECT_TRUE(!row.judged() || row.row.mapping.chunks > 1) << row.row.name;
  }
}

TEST(DataflowIteration, SaysWhatItDoesNotCover) {
  TransformerConfig model;
  model.hidden = 1024, model.heads = 16, model.layers = 8, model.sequence = 512;
  ParallelMapping mapping;
  mapping.data = 4, mapping.global_batch = 16;
  ASSERT_TRUE(DataflowIteration(model, mapping, {}).ok());
  mapping.zero = 3;
  EXPECT_EQ(DataflowIteration(model, mapping, {}).status().message(),
            "a dataflow mapping does not say zero3");
  mapping.zero = 1;
  mapping.fp8 = true;
  EXPECT_EQ(DataflowIteration(model, mapping, {}).status().message(),
            "a dataflow mapping does not say GEMMs in 8 or 4 bits");
  mapping.fp8 = false;
  model.kv_heads = 4;
  EXPECT_FALSE(DataflowIteration(model, mapping, {}).ok());
}

TEST(DataflowKernels, AllReducesOfNodesAlone) {
  const auto accelerators = AcceleratorCatalog::Load();
  ASSERT_TRUE(accelerators.ok()) << accelerators.status();
  const Accelerator* device = accelerators->Find("a100-sxm4-80gb");
  ASSERT_NE(device, nullptr);
  std::vector<std::string> notes;
  const std::string calibration = FORETRACE_SOURCE_DIR "/calibration/a100-sxm4-nvswitch";
  const auto kernels = FindKernelTimes(calibration, *device, InterconnectKind::kSwitch, notes);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const auto apart = FindKernelTimes(calibration, *device, InterconnectKind::kNone, notes);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_TRUE((*kernels)->AllReduce(8, RealBytes(1e8)).has_value());
  EXPECT_FALSE((*apart)->AllReduce(8, RealBytes(1e8)).has_value());
  EXPECT_FALSE((*kernels)->AllReduce(1024, RealBytes(1e8)).has_value());  // no node has so many
}

}  // namespace
}  // namespace foretrace
