#include "simulator/cost/traced/sparse_lookups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

constexpr std::string_view kLookup =
    "void (anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long "
    "const*)";
constexpr std::string_view kGather = "void at::native::vectorized_gather_kernel<16, long>(char*)";
constexpr std::string_view kAddRows =
    "void at::native::indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true>()";
constexpr std::string_view kPairsBack =
    "void (anonymous namespace)::indexing_backward_kernel_stride_1<float>(long const*)";
constexpr std::string_view kProduct =
    "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize64x32x8_stage3_warpsize2x2x1_ffma_execute";
constexpr std::string_view kOfPairs =
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_execute";

constexpr uint32_t kBatch = 2048;
constexpr int64_t kWidth = 64;
const std::vector<uint32_t> kPooling = {1, 20, 3};

// One step of a DLRM with a table for each of kPooling. A row's 256 bytes are 16 threads', which
// are a warp; an H100 has up to 1,056 blocks of an addition.
LaunchedCalls Job() {
  LaunchedCalls calls;
  const LaunchAttr gathers = {{1024, 1, 1}, {32, 8, 1}};
  calls.Moves(kAdd, kBatch * 512).Moves(kAdd, kBatch * kWidth);
  for (size_t t = 0; t < kPooling.size(); ++t) calls.Add("aten::_embedding_bag", kLookup, gathers);
  calls.Add("aten::bmm", kOfPairs, {{1, 1, kBatch}, {64, 1, 1}});
  // 6 pairs of 4 features, a warp each.
  calls.Within({"IndexBackward0"}, "aten::_index_put_impl_", kPairsBack,
               {{2, 1, kBatch}, {32, 4, 1}});
  calls.Within({"BmmBackward0"}, "aten::bmm", kProduct, {{1, 2, kBatch}, {128, 1, 1}});
  for (size_t t = kPooling.size(); t-- > 0;) {
    calls.Within({"EmbeddingBagBackward0"}, "aten::gather", kGather,
                 {{kBatch * kPooling[t], 1, 1}, {32, 1, 1}});
  }
  for (const uint32_t pooling : kPooling) {
    const uint32_t blocks = kBatch * pooling * kWidth / 128;
    calls.Add("aten::index_add_", kAddRows, {{std::min(blocks, 1056u), 1, 1}, {128, 1, 1}});
  }
  return calls;
}

TEST(SparseLookups, GradientsTellHowManyRowsAreLookedUp) {
  const auto found = Job().Inferred("aten::_embedding_bag");
  ASSERT_EQ(found.size(), kPooling.size());
  for (size_t t = 0; t < found.size(); ++t) {
    const auto& op = std::get<EmbeddingOp>(found[t].shape);
    EXPECT_EQ(op.lookups, int64_t{kBatch} * kPooling[t]);
    EXPECT_EQ(op.bags, kBatch);
    EXPECT_EQ(op.dim, kWidth);
  }
}

TEST(SparseLookups, UpdatesFollowInTheOrderOfTables) {
  const auto found = Job().Inferred("aten::index_add_");
  ASSERT_EQ(found.size(), kPooling.size());
  for (size_t t = 0; t < found.size(); ++t) {
    const auto& op = std::get<IndexOp>(found[t].shape);
    EXPECT_EQ(op.index_count, int64_t{kBatch} * kPooling[t]);
    EXPECT_EQ(op.elements, op.index_count * kWidth);
  }
}

// Three tables' and the dense feature.
TEST(SparseLookups, FeaturesMeetEachOther) {
  const auto found = Job().Inferred("aten::bmm");
  ASSERT_EQ(found.size(), 2u);
  const auto& forward = std::get<BatchedMatmulOp>(found[0].shape);
  EXPECT_EQ(forward.b, kBatch);
  EXPECT_EQ(forward.m, 4);
  EXPECT_EQ(forward.n, 4);
  EXPECT_EQ(forward.k, kWidth);
  const auto& backward = std::get<BatchedMatmulOp>(found[1].shape);
  EXPECT_EQ(backward.m, 4);
  EXPECT_EQ(backward.n, kWidth);
  EXPECT_EQ(backward.k, 4);
}

TEST(SparseLookups, PairsAreWrittenByAWarpEach) {
  const auto found = Job().Inferred("aten::_index_put_impl_");
  ASSERT_EQ(found.size(), 1u);
  const auto& op = std::get<IndexOp>(found[0].shape);
  EXPECT_EQ(op.index_count, 8);
  EXPECT_EQ(op.elements, 8 * kBatch);
}

// Nothing is gathered.
TEST(SparseLookups, WithoutABackwardPassNothingIsSaid) {
  LaunchedCalls calls;
  calls.Moves(kAdd, kBatch * kWidth);
  calls.Add("aten::_embedding_bag", kLookup, {{1024, 1, 1}, {32, 8, 1}});
  EXPECT_TRUE(calls.Inferred("aten::_embedding_bag").empty());
}

}  // namespace
}  // namespace foretrace
