#include "simulator/cost/kernel/observed_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/trace/builder.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Dependent loads of a thread of `kernel`, which a copy of those sizes launched.
int64_t Trips(std::string_view kernel, const std::vector<int64_t>& sizes,
              std::string_view chip = "GH100") {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::copy_", {0, 90});
  for (int i = 0; i < 2; ++i) {
    Tensor tensor;
    tensor.dtype = DType::kFloat32;
    rank.builder().AddTensor(rank.Of("aten::copy_"), tensor, sizes);
  }
  rank.Kernel(kernel, {10, 12}, 7, {20, 24});
  const TraceStore store = job.Build();
  const RankTrace& trace = store.ranks()[0];
  const TensorShape shape{sizes, DType::kFloat32};
  const auto traced = OperatorFromTrace("aten::copy_", std::vector{shape, shape}, {});
  const std::vector<NodeIndex> kernels = {rank.Of(kernel)};
  GpuPeaks device;
  device.accelerator.chip = chip;
  return Observe(device, store, trace, *traced, kernels).list[0].trips;
}

TEST(ObservedKernels, TripsByWhatAThreadHasToLookUp) {
  constexpr std::string_view kVectors =
      "void at::native::vectorized_elementwise_kernel<4, copy, at::detail::Array<char*, 2> >";
  constexpr std::string_view kConverted =
      "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda, "
      "LoadWithCast<1>, StoreWithCast<1> >";
  constexpr std::string_view kStrided =
      "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
      "at::native::direct_copy_kernel_cuda> >";
  EXPECT_EQ(Trips(kVectors, {64}), 1);
  // Beyond 128 elements a thread has a second one, and a third and a fourth.
  EXPECT_EQ(Trips(kConverted, {64}), 1);
  EXPECT_EQ(Trips(kConverted, {5184}), 4);
  EXPECT_EQ(Trips(kConverted, {5184}, "GA100"), 6);  // and its code
  // A matrix is divided once, three dimensions twice; ones of a single element not at all.
  EXPECT_EQ(Trips(kStrided, {8, 16}), 1);
  EXPECT_EQ(Trips(kStrided, {1, 4, 5, 6}), 2);
  EXPECT_EQ(Trips(kStrided, {2, 2, 2, 2, 2, 2, 2}), 4);
  EXPECT_EQ(Trips(kStrided, {8, 32}), 2);
  EXPECT_EQ(Trips(kStrided, {16, 48}), 4);
  constexpr std::string_view kLookedUp =
      "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<"
      "at::native::direct_copy_kernel_cuda> >";
  EXPECT_EQ(Trips(kLookedUp, {8, 16}), 1);
  EXPECT_EQ(Trips(kLookedUp, {16, 48}), 4);
}

TEST(ObservedKernels, ACopyWithinTheDeviceLoadsOnce) {
  constexpr std::string_view kCopy = "Memcpy DtoD (Device -> Device)";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::copy_", {0, 90});
  rank.SyncCopy(kCopy, MemcpyKind::kDeviceToDevice, {10, 30}, 7, {20, 24});
  const TraceStore store = job.Build();
  const std::vector<int64_t> sizes = {64};
  const TensorShape shape{sizes, DType::kFloat32};
  const auto traced = OperatorFromTrace("aten::copy_", std::vector{shape, shape}, {});
  const std::vector<NodeIndex> kernels = {rank.Of(kCopy)};
  EXPECT_EQ(Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list[0].trips, 1);
}

// Of the kernel that sums the gradients of a layer norm's weights over its rows.
int64_t TripsOfWeights(int64_t rows) {
  constexpr std::string_view kInput =
      "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float, float>";
  constexpr std::string_view kWeights =
      "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::native_layer_norm_backward", {0, 90});
  rank.Kernel(kInput, {10, 12}, 7, {20, 24});
  rank.Kernel(kWeights, {14, 16}, 7, {26, 30});
  const TraceStore store = job.Build();
  const std::vector<int64_t> matrix = {rows, 512}, column = {rows, 1}, row = {512};
  std::vector<TensorShape> shapes;
  for (const auto* dims : {&matrix, &matrix, &column, &column, &row, &row}) {
    shapes.push_back({*dims, DType::kFloat32});
  }
  const auto traced = OperatorFromTrace("aten::native_layer_norm_backward", shapes, {});
  const std::vector<NodeIndex> kernels = {rank.Of(kInput), rank.Of(kWeights)};
  return Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list[1].trips;
}

TEST(ObservedKernels, WeightsOfANormAreSummedInStepsOf256Rows) {
  EXPECT_EQ(TripsOfWeights(256), 1 + 3);
  EXPECT_EQ(TripsOfWeights(1024), 1 + 4 * 3);
}

}  // namespace
}  // namespace foretrace
