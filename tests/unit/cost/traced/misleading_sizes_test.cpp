// Calls whose sizes or types alone mislead: of sparse matrices, of integers, of lists.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/trace/builder.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Of one kernel within a call with these matrices.
double Us(std::string_view call, std::string_view kernel, DType dtype,
          const std::vector<std::vector<int64_t>>& matrices,
          std::string_view device = "h100-sxm5-80gb") {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op(call, {0, 90});
  for (const auto& dims : matrices) {
    Tensor tensor;
    tensor.dtype = dtype;
    rank.builder().AddTensor(rank.Of(call), tensor, dims);
  }
  rank.Kernel(kernel, {10, 12}, 7, {20, 110}).Waves(kernel, 2000);
  const TraceStore store = job.Build();
  const KernelCostModel model(
      std::make_shared<const KernelModels>(*FindGpuPeaks(device), std::vector<KernelModel>{}),
      store);
  return model.Predict(store, store.ranks()[0], rank.Of(kernel))->time.us();
}

// A graph of 170,000 nodes with 256 features: dense it would be 1.5e13 FLOP, of which 67 TFLOP/s
// took 221 ms. The factor is read, the result is added to and written: 3 x 174 MB at 3.35 TB/s.
TEST(SparseProducts, AreNotDense) {
  const double least = 3 * 170000 * 256 * 4 / 3.35e6;
  for (std::string_view call : {"aten::mm", "aten::_sparse_addmm"}) {
    const double us = Us(call, "void cusparse::csrmm_v2_kernel<256, 3, int, float, float, float>",
                         DType::kFloat32, {{170000, 170000}, {170000, 256}});
    EXPECT_GT(us, least) << call;
    EXPECT_LT(us, 1.5 * least) << call;
  }
  // What is added to stands first.
  const double us = Us("aten::addmm", "void cusparse::csrmm_v2_kernel<256, 3, int, float, float>",
                       DType::kFloat32, {{170000, 256}, {170000, 170000}, {170000, 256}});
  EXPECT_GT(us, least);
  EXPECT_LT(us, 1.5 * least);
}

// 64 x 256 x 256 complex numbers of 8 bytes, of which cuFFT's kernels for rows and for columns read
// and write all.
TEST(FourierTransforms, EachKernelPassesOverAll) {
  constexpr std::string_view kRows = "void vector_fft<256u, EPT<16u>, 16u, 8u>(x)",
                             kColumns = "void regular_fft<256u, EPT<16u>, 16u, 2u>(x)";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::_fft_c2c", {0, 90});
  Tensor tensor;
  tensor.dtype = DType::kComplex64;
  rank.builder().AddTensor(rank.Of("aten::_fft_c2c"), tensor, std::vector<int64_t>{64, 256, 256});
  rank.Kernel(kRows, {10, 12}, 7, {20, 50}).Kernel(kColumns, {13, 15}, 7, {51, 80});
  const TraceStore store = job.Build();
  const KernelCostModel model(std::make_shared<const KernelModels>(*FindGpuPeaks("h100-sxm5-80gb"),
                                                                   std::vector<KernelModel>{}),
                              store);
  const double least = 2.0 * 64 * 256 * 256 * 8 / 3.35e6;
  int kernels = 0;
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    const NodeIndex node(i);
    if (store.ranks()[0].kind(node) != NodeKind::kKernel) continue;
    ++kernels;
    const double us = model.Predict(store, store.ranks()[0], node)->time.us();
    EXPECT_GT(us, least);
    EXPECT_LT(us, 1.5 * least);
  }
  EXPECT_EQ(kernels, 2);
}

// Liger's fused loss of 8,192 tokens, of which this launch has 256: scores for 128,256 words, which
// the weights have rows for, of two bytes, are read twice and written once.
TEST(Losses, OfSomeRowsAtATime) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  constexpr std::string_view kCall = "LigerFusedLinearCrossEntropyFunction",
                             kKernel = "liger_cross_entropy_kernel";
  rank.Op(kCall, {0, 90});
  for (const auto& dims : {std::vector<int64_t>{8192, 4096}, {128256, 4096}, {8192}}) {
    Tensor tensor;
    tensor.dtype = DType::kBFloat16;
    rank.builder().AddTensor(rank.Of(kCall), tensor, dims);
  }
  rank.Kernel(kKernel, {10, 12}, 7, {20, 110});
  rank.Launched(kKernel, {{256, 1, 1}, {1024, 1, 1}}).Waves(kKernel, 970);
  const TraceStore store = job.Build();
  const KernelCostModel model(std::make_shared<const KernelModels>(*FindGpuPeaks("h100-sxm5-80gb"),
                                                                   std::vector<KernelModel>{}),
                              store);
  const double us = model.Predict(store, store.ranks()[0], rank.Of(kKernel))->time.us();
  const double least = 3.0 * 256 * 128256 * 2 / 3.35e6;
  EXPECT_GT(us, least);
  EXPECT_LT(us, 1.5 * least);
}

// Kernels that a CUDA graph launches have no call whose tensors could be looked at.
TEST(Graphs, GeneratedKernelsHaveNoCall) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  constexpr std::string_view kKernel = "triton_poi_fused_add_gelu_0";
  rank.InFlight(kKernel, 7, {20, 30});
  rank.Launched(kKernel, {{4096, 1, 1}, {128, 1, 1}}).Waves(kKernel, 1940);
  const TraceStore store = job.Build();
  const KernelCostModel model(std::make_shared<const KernelModels>(*FindGpuPeaks("h100-sxm5-80gb"),
                                                                   std::vector<KernelModel>{}),
                              store);
  // 4,096 blocks of 1,024 elements of four bytes, of which two tensors are read.
  const double us = model.Predict(store, store.ranks()[0], rank.Of(kKernel))->time.us();
  EXPECT_GT(us, 3.0 * 4096 * 1024 * 4 / 3.35e6);
}

// Profiles leave out the types of lists; the functor has that of its tensors: 100 million of two
// bytes, read and written at 3.35 TB/s.
TEST(Lists, HaveTheTypeOfTheirFunctor) {
  const auto us = [](std::string_view type) {
    const std::string kernel =
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, "
        "BinaryOpScalarFunctor<" +
        std::string(type) + ", 1, 1, 0>, std::multiplies<float>, float>";
    return Us("aten::_foreach_mul_", kernel, DType::kUnknown, {{100000000}, {1}});
  };
  const double least = 2 * 2 * 1e8 / 3.35e6;
  EXPECT_GT(us("c10::BFloat16"), least);
  EXPECT_LT(us("c10::BFloat16"), 1.5 * least);
  EXPECT_GT(us("float"), 2 * least);
}

// 2 x 4,096^3 at 1,979 TOP/s, not at the rate of fp32.
TEST(IntegerProducts, RunOnTensorCores) {
  const double least = 2.0 * 4096 * 4096 * 4096 / 1979e6;
  const double us = Us("aten::_int_mm", "cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16",
                       DType::kInt8, {{4096, 4096}, {4096, 4096}});
  EXPECT_GT(us, least);
  EXPECT_LT(us, 4 * least);
}

// 2 x 8,192^3: 1,762 us at an A100's 624 TOP/s, of which libraries reach most; at the 312 of 16
// bits it would be twice that. A V100's tensor cores take no integers, so that it has the 15.7
// TFLOP/s of its multiprocessors: 70 ms, 8.8 at the 125 of its tensor cores.
TEST(IntegerProducts, RunAtTheRateThatTheDeviceHasForThem) {
  const auto us = [](std::string_view device) {
    return Us("aten::_int_mm", "cutlass_80_tensorop_i16832gemm_s8_256x128_64x3_tn_align16",
              DType::kInt8, {{8192, 8192}, {8192, 8192}}, device);
  };
  const double operations = 2.0 * 8192 * 8192 * 8192;
  EXPECT_GT(us("a100-sxm4-80gb"), operations / 624e6);
  EXPECT_LT(us("a100-sxm4-80gb"), 1.4 * operations / 624e6);
  EXPECT_GT(us("v100-sxm2-16gb"), 0.95 * operations / 15.7e6);
  EXPECT_LT(us("v100-sxm2-16gb"), 1.4 * operations / 15.7e6);
}

}  // namespace
}  // namespace foretrace
