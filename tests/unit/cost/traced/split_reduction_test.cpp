// GEMMs whose reduction is split: parts that take turns wait for each other.

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/trace/builder.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

constexpr std::string_view kName =
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>";

GpuPeaks A100() { return *FindGpuPeaks("a100-sxm4-40gb"); }

// trace_diff/control, A100: mm of 1024x4864 by 4864x128 takes 90 us, 8 blocks of results in 12
// parts each behind a cleared flag.
TEST(SplitReduction, PartsThatTakeTurnsWaitForEachOther) {
  OperatorCall call;
  call.shape = LinearOp{1024, 128, 4864, false};
  call.dtype = DType::kFloat32;
  const KernelWork work = Kernels(call)[0];
  BlockedGemm gemm = BlockedGemmOf(A100(), GemmBlockOf(kName), work, 96 / 108.0);
  ASSERT_EQ(gemm.split, 12);
  const auto us = [&] { return BlockedGemmUs(A100(), Precision::kTensorFloat32, 0.85, gemm); };
  const double apart = us();
  gemm.in_turn = true;
  EXPECT_NEAR(us() / 90.5, 1, 0.1) << us();
  // Eleven turns of three trips and eight steps, a trip 700 cycles of 1.41 GHz, of which the parts'
  // bytes hide some.
  const double turns = 11 * (3 + 8) * 700 / 1410.0;
  EXPECT_GT(us() - apart, 0.8 * turns);
  EXPECT_LT(us() - apart, turns);
  // Where a wave has no room for two parts of all results, the first is through when the next runs.
  gemm.blocks = 108;
  gemm.split = 1;
  const double whole = us();
  gemm.in_turn = false;
  EXPECT_EQ(us(), whole);
}

// The time of the GEMM's kernel, or of the one that adds its parts up, where the call launches
// these kernels too.
SimTime KernelTime(std::string_view of, bool cleared, std::string_view reduced) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::mm", {0, 90});
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1024, 4864}, {4864, 128}}) {
    Tensor tensor;
    tensor.dtype = DType::kFloat32;
    rank.builder().AddTensor(rank.Of("aten::mm"), tensor, dims);
  }
  if (cleared) rank.Device("Memset", NodeKind::kMemset, 0, {5, 7}, 7, {8, 9});
  rank.Kernel(kName, {10, 12}, 7, {20, 110}).Waves(kName, 889);
  if (!reduced.empty()) rank.Kernel(reduced, {14, 16}, 7, {111, 115});
  const TraceStore store = job.Build();
  const KernelCostModel model(
      std::make_shared<const KernelModels>(A100(), std::vector<KernelModel>{}), store);
  return model.Predict(store, store.ranks()[0], rank.Of(of))->time;
}

TEST(SplitReduction, ClearedFlagsSayThatPartsTakeTurns) {
  constexpr std::string_view kReduce = "splitKreduce_kernel";
  const SimTime apart = KernelTime(kName, false, "");
  EXPECT_GT(KernelTime(kName, true, ""), apart + Us(50));
  // What is cleared is no flag.
  EXPECT_EQ(KernelTime(kName, true, kReduce), KernelTime(kName, false, kReduce));
}

// nccl_parser_config, A100: 3.3 to 3.55 us for small results.
TEST(SplitReduction, RowsOfABlockWaitForEachOther) {
  constexpr std::string_view kRows = "void splitKreduce_kernel<32, 16, int, float, float>(x)",
                             kFlat = "void splitKreduce_kernel<float, float>(x)";
  const SimTime rows = KernelTime(kRows, false, kRows), flat = KernelTime(kFlat, false, kFlat);
  EXPECT_GT(rows, flat);
  EXPECT_NEAR(rows.us() / 3.4, 1, 0.25) << rows.us();
}

}  // namespace
}  // namespace foretrace
