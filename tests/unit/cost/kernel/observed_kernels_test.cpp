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

}  // namespace
}  // namespace foretrace
