#include "simulator/cost/traced/observed_kernels.h"

#include <gtest/gtest.h>

#include <string>
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

// A transposed copy reads each element by itself.
TEST(ObservedKernels, ScatteredTensorsAreAccessedElementByElement) {
  constexpr std::string_view kKernel =
      "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<copy> >";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::copy_", {0, 90});
  rank.Kernel(kKernel, {10, 12}, 7, {20, 24});
  const TraceStore store = job.Build();
  const std::vector<int64_t> sizes = {3000, 2000};
  const TensorShape shape{sizes, DType::kFloat32};
  auto traced = OperatorFromTrace("aten::copy_", std::vector{shape, shape}, {});
  const std::vector<NodeIndex> kernels = {rank.Of(kKernel)};
  const auto scattered = [&] {
    return Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list[0].scattered;
  };
  EXPECT_EQ(scattered(), 0);  // not known
  traced->access.scattered = 1;
  EXPECT_EQ(scattered(), 6'000'000);
}

// The only kind of work of a call that launched these kernels.
KernelWork WorkOf(std::string_view call, const TracedOperator& traced,
                  const std::vector<std::string_view>& names) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op(call, {0, 90});
  double at = 10;
  for (const std::string_view name : names) {
    rank.Kernel(name, {at, at + 2}, 7, {20 * at, 20 * at + 4});
    at += 10;
  }
  const TraceStore store = job.Build();
  std::vector<NodeIndex> kernels;
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    if (store.ranks()[0].kind(NodeIndex(i)) == NodeKind::kKernel) kernels.emplace_back(i);
  }
  return Observe(*FindGpuPeaks("h100-sxm5-80gb"), store, store.ranks()[0], traced, kernels).list[0];
}

// Tensors of more than 2^31 bytes are copied by two launches, which convert all elements together:
// 24 instructions of an element and 6 for each of its types.
TEST(ObservedKernels, LargeTensorsAreConvertedInParts) {
  constexpr std::string_view kKernel =
      "void at::native::unrolled_elementwise_kernel<direct_copy, std::array<char*, 2ul>, 4, "
      "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >";
  const std::vector<int64_t> sizes = {8192, 128256};
  const auto traced = OperatorFromTrace(
      "aten::copy_",
      std::vector{TensorShape{sizes, DType::kFloat32}, TensorShape{sizes, DType::kBFloat16}}, {});
  const double elements = 8192.0 * 128256;
  EXPECT_EQ(WorkOf("aten::copy_", *traced, {kKernel}).instructions, 36 * elements);
  EXPECT_EQ(WorkOf("aten::copy_", *traced, {kKernel, kKernel}).instructions, 36 * elements);
}

// 24 instructions of an element, 73 of a thread, which has four.
TEST(ObservedKernels, PackedGradientsAreConvertedElementByElement) {
  constexpr std::string_view kKernel =
      "void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>(c10::BFloat16**, "
      "float*, long*)";
  const std::vector<int64_t> gradient = {1024, 4096}, packed = {1, 1024 * 4096};
  const auto traced = OperatorFromTrace(
      "fsdp::chunk_cat",
      std::vector{TensorShape{gradient, DType::kUnknown}, TensorShape{packed, DType::kFloat32}},
      {});
  EXPECT_EQ(WorkOf("fsdp::chunk_cat", *traced, {kKernel}).instructions,
            1024.0 * 4096 * (24 + 73 / 4.0));
}

// 19 instructions for each of the scores, whose largest and whose sum are all that is written.
TEST(ObservedKernels, ASoftmaxInOnePassComputes) {
  constexpr std::string_view kKernel =
      "triton_red_fused__log_softmax__to_copy_prepare_softmax_online_view_0";
  const std::vector<int64_t> rows = {8192, 1}, scores = {1, 8192, 32000};
  const std::vector<TensorShape> in = {
      {rows, DType::kFloat32}, {scores, DType::kBFloat16}, {rows, DType::kFloat32}};
  EXPECT_EQ(WorkOf(kKernel, *OpaqueOperator(kKernel, in, {}), {kKernel}).instructions,
            19 * 8192.0 * 32000);
}

// Rows of 4,096 bytes that lie across a block of a row each: 2,048 blocks of 256 threads are 1.9
// waves of an H100's 1,056, whose 138 MB of sectors its cache does not hold, so that each of 8.4 M
// elements costs a sector read and written beside 2.1 M elements of two bytes and their likes.
TEST(ObservedKernels, RowsThatAreStoredAcrossOutgrowTheCache) {
  constexpr std::string_view kKernel = "triton_per_fused_rms_norm_clamp_t_view_20";
  const auto work = [&](uint32_t blocks, std::optional<int> scattered) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    rank.Op(kKernel, {0, 90});
    rank.Kernel(kKernel, {10, 12}, 7, {20, 24});
    rank.builder().SetLaunch(rank.Of(kKernel), {{blocks, 1, 1}, {256, 1, 1}});
    rank.builder().SetWaves(rank.Of(kKernel), blocks * 1000 / 1056);
    const TraceStore store = job.Build();
    const std::vector<int64_t> sizes = {2048, 4096};
    auto traced = OpaqueOperator(
        kKernel,
        std::vector{TensorShape{sizes, DType::kBFloat16}, TensorShape{sizes, DType::kInt8}}, {});
    traced->access.scattered = scattered;
    const std::vector<NodeIndex> kernels = {rank.Of(kKernel)};
    return Observe(*FindGpuPeaks("h100-sxm5-80gb"), store, store.ranks()[0], *traced, kernels)
        .list[0];
  };
  const int64_t elements = int64_t{2048} * 4096;
  EXPECT_EQ(work(2048, 0).total_bytes(), elements * 3);
  EXPECT_EQ(work(2048, 0).scattered, 0);
  EXPECT_EQ(work(2048, 1).scattered, elements);
  EXPECT_EQ(work(2048, 1).total_bytes(), elements * (3 + 2 * 32));
  // 128 blocks hold 17 MB.
  EXPECT_EQ(work(128, 1).scattered, elements);
  EXPECT_EQ(work(128, 1).total_bytes(), elements * 3);
}

KernelWork Concatenation(std::string_view kernel) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::cat", {0, 90});
  rank.Kernel(kernel, {10, 12}, 7, {20, 24});
  const TraceStore store = job.Build();
  // The types of a list's tensors are not recorded.
  const std::vector<int64_t> images = {1, 1000, 1000}, class_token = {1, 1, 1000};
  const TensorShape large{images, DType::kUnknown}, small{class_token, DType::kUnknown};
  const auto traced = OperatorFromTrace("aten::cat", std::vector{large, small}, {});
  const std::vector<NodeIndex> kernels = {rank.Of(kernel)};
  GpuPeaks device;
  device.sms = 132;
  return Observe(device, store, store.ranks()[0], *traced, kernels).list[0];
}

// 1,001,000 elements of the two bytes that the name states.
TEST(ObservedKernels, AConcatenationsKernelStatesTheSizeOfItsElements) {
  const KernelWork vectors = Concatenation(
      "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::native::"
      "(anonymous namespace)::OpaqueType<2u>, unsigned int, 3, 128, 1, 16, 8>(char*, x)");
  EXPECT_EQ(vectors.read, Bytes(2'002'000));
  EXPECT_EQ(vectors.written, Bytes(2'002'000));
  EXPECT_EQ(vectors.parts, 0);  // blocks as its elements ask for
  EXPECT_EQ(vectors.instructions, 0);
}

// Two blocks of 512 threads for each of 132 multiprocessors, a tensor: threads of the larger one go
// round eight times (1,000,000 / 135,168). Each turn is a load of 600 cycles behind two divisions
// of 150, in trips of 700: 8 x 900 / 700 = 10.3; of tensors that do not lie in one piece, behind
// four: 8 x 1,200 / 700 = 13.7.
TEST(ObservedKernels, TensorsAreConcatenatedElementByElement) {
  const auto name = [](std::string_view kernel, std::string_view numbers) {
    return "void at::native::(anonymous namespace)::" + std::string(kernel) +
           "<at::native::(anonymous namespace)::OpaqueType<4u>, unsigned int, " +
           std::string(numbers) + ">(x)";
  };
  const KernelWork whole = Concatenation(name("CatArrayBatchedCopy", "3, 128, 1"));
  EXPECT_EQ(whole.read, Bytes(4'004'000));
  EXPECT_EQ(whole.parts, 2);
  EXPECT_EQ(whole.trips, 10);
  EXPECT_EQ(whole.instructions, 1'001'000 * (24 + 2 * 4));
  EXPECT_EQ(Concatenation(name("CatArrayBatchedCopy_contig", "3, 128, 1")).trips, 10);
  const KernelWork strided = Concatenation(name("CatArrayBatchedCopy", "3, 64, 64"));
  EXPECT_EQ(strided.trips, 14);
  EXPECT_EQ(strided.instructions, 1'001'000 * (24 + 4 * 4 + 18));
}

// Five dimensions are more than the kernels for lists have: each tensor is copied into its slice
// of the result, of which blocks of 512 elements say how many. Elements are of the two bytes that
// the kernel names.
TEST(ObservedKernels, TensorsOfFiveDimensionsAreConcatenatedByCopies) {
  constexpr std::string_view kCopy =
      "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
      "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}>>";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::cat", {0, 90});
  for (const uint32_t blocks : {32u, 64u}) {
    const std::string name = std::string(kCopy) + std::to_string(blocks);
    rank.Kernel(name, {blocks / 4.0, blocks / 4.0 + 2}, 7, {20.0 + blocks, 24.0 + blocks});
    rank.Launched(name, {{blocks, 1, 1}, {128, 1, 1}});
  }
  const TraceStore store = job.Build();
  std::vector<NodeIndex> kernels;
  for (uint32_t i = 0; i < store.ranks()[0].size(); ++i) {
    if (store.ranks()[0].kind(NodeIndex(i)) == NodeKind::kKernel) kernels.push_back(NodeIndex(i));
  }
  const std::vector<int64_t> old = {1, 4, 1, 64, 64}, frames = {1, 4, 2, 64, 64};
  const TensorShape first{old, DType::kUnknown}, second{frames, DType::kUnknown};
  const auto traced = OperatorFromTrace("aten::cat", std::vector{first, second}, {});
  const KernelList list = Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list;
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].read, Bytes(2 * 16384));
  EXPECT_EQ(list[1].written, Bytes(2 * 32768));
  EXPECT_EQ(list[1].kind, KernelKind::kConcat);
  EXPECT_EQ(list[1].trips, 4);
}

// cuDNN's kernels that keep a channel in registers read it once: 32 x 256 x 14 x 14 floats are 6.4
// MB, of gradients both of their inputs. Hopper's are as before.
TEST(ObservedKernels, ABatchNormMayReadOnce) {
  const auto work = [](std::string_view call, std::string_view kernel, const char* device) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    rank.Op(call, {0, 90});
    rank.Kernel(kernel, {10, 12}, 7, {20, 24});
    const TraceStore store = job.Build();
    const std::vector<int64_t> image = {32, 256, 14, 14}, channels = {256};
    const TensorShape x{image, DType::kFloat32}, c{channels, DType::kFloat32};
    const auto traced = OperatorFromTrace(call, std::vector{x, x, c, c, c, c, c}, {});
    const std::vector<NodeIndex> kernels = {rank.Of(kernel)};
    return Observe(*FindGpuPeaks(device), store, store.ranks()[0], *traced, kernels).list[0];
  };
  constexpr int64_t kImage = 32 * 256 * 14 * 14 * 4;
  constexpr double kStatistics = 32e3;  // at most
  constexpr std::string_view kBackward = "aten::cudnn_batch_norm_backward";
  constexpr std::string_view kOnce = "void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>";
  const KernelWork once = work(kBackward, kOnce, "v100-sxm2-16gb");
  EXPECT_NEAR(static_cast<double>(once.read.count()), 2.0 * kImage, kStatistics);
  EXPECT_EQ(once.bandwidth_share, 0.66);
  const KernelWork twice =
      work(kBackward, "void cudnn::bn_bw_1C11_kernel_new<x>", "v100-sxm2-16gb");
  EXPECT_NEAR(static_cast<double>(twice.read.count()), 4.0 * kImage, kStatistics);
  EXPECT_EQ(twice.bandwidth_share, 1);
  EXPECT_EQ(work(kBackward, kOnce, "h100-sxm5-80gb").read, twice.read);
}

// A file may state a grid of 2^96 blocks, which no number of blocks is.
TEST(ObservedKernels, GridsOfAnySizeAreManyBlocks) {
  constexpr std::string_view kKernel = "vectorized_elementwise_kernel<4, x>";
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("aten::neg", {0, 90});
  rank.Kernel(kKernel, {10, 12}, 7, {20, 24});
  rank.Launched(kKernel, {{UINT32_MAX, UINT32_MAX, UINT32_MAX}, {128, 1, 1}});
  const TraceStore store = job.Build();
  const std::vector<int64_t> sizes = {1024};
  const auto traced =
      OperatorFromTrace("aten::neg", std::vector{TensorShape{sizes, DType::kFloat32}}, {});
  const std::vector<NodeIndex> kernels = {rank.Of(kKernel)};
  EXPECT_EQ(Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list[0].blocks, 1e15);
}

// Kernels that take eight elements at once compute as much with three quarters of the instructions.
TEST(ObservedKernels, VectorsOfEightComputeLess) {
  const auto flop = [](std::string_view kernel) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    rank.Op("aten::gelu", {0, 90});
    rank.Kernel(kernel, {10, 12}, 7, {20, 24});
    const TraceStore store = job.Build();
    const std::vector<int64_t> sizes = {1000, 1000};
    const TensorShape shape{sizes, DType::kBFloat16};
    const auto traced = OperatorFromTrace("aten::gelu", std::vector{shape}, {});
    const std::vector<NodeIndex> kernels = {rank.Of(kernel)};
    return Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list[0].flop.count();
  };
  const double by_four = flop("void at::native::vectorized_elementwise_kernel<4, gelu, x>");
  EXPECT_EQ(by_four, 16e6);  // elementwise_table.cpp
  EXPECT_EQ(flop("void at::native::vectorized_elementwise_kernel<8, gelu, x>"), 0.75 * by_four);
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
KernelWork WeightsOf(int64_t rows, std::string_view kWeights, double cache_mbytes = 0) {
  constexpr std::string_view kInput =
      "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float, float>";
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
  GpuPeaks device;
  device.l2_mbytes = cache_mbytes;
  return Observe(device, store, store.ranks()[0], *traced, kernels).list[1];
}
int64_t TripsOfWeights(int64_t rows, std::string_view kernel, double cache_mbytes = 0) {
  return WeightsOf(rows, kernel, cache_mbytes).trips;
}

TEST(ObservedKernels, WeightsOfANormAreSummedInStepsOf256Rows) {
  constexpr std::string_view kOlder =
      "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>";
  constexpr std::string_view kTemplate =
      "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, "
      "32u, 32u, 256u, false, true, false>";
  constexpr std::string_view kSmall =
      "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, "
      "32u, 1u, 8u, true, true, false>";
  EXPECT_EQ(TripsOfWeights(256, kOlder), 1 + 3);
  EXPECT_EQ(TripsOfWeights(1024, kOlder, 100), 1 + 4 * 3);
  EXPECT_EQ(TripsOfWeights(1024, kTemplate), 1 + 4 * 3);
  EXPECT_EQ(TripsOfWeights(1024, kTemplate, 100), 1 + 4 * 2);
  EXPECT_EQ(TripsOfWeights(32, kSmall), 0);
}

TEST(ObservedKernels, StepsOfWeightsAddToWhatMemoryTakes) {
  constexpr std::string_view kTemplate =
      "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, "
      "32u, 32u, 256u, false, true, false>";
  EXPECT_TRUE(WeightsOf(1024, kTemplate).trips_are_steps);
  EXPECT_FALSE(WeightsOf(1024, kTemplate, 100).trips_are_steps);
}

// The only kernel of a call, as it is timed.
KernelWork WorkOf(std::string_view op, std::string_view kernel,
                  const std::vector<std::vector<int64_t>>& inputs, DType index = DType::kFloat32) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op(op, {0, 90});
  rank.Kernel(kernel, {10, 12}, 7, {20, 24});
  const TraceStore store = job.Build();
  std::vector<TensorShape> shapes;
  for (const auto& dims : inputs) shapes.push_back({dims, DType::kFloat32});
  if (shapes.size() > 1) shapes[1].dtype = index;
  const auto traced = OperatorFromTrace(op, shapes, {});
  EXPECT_TRUE(traced.has_value());
  GpuPeaks device;
  device.sms = 100;
  device.accelerator.chip = "GH100";
  const std::vector<NodeIndex> kernels = {rank.Of(kernel)};
  return Observe(device, store, store.ranks()[0], *traced, kernels).list[0];
}

TEST(ObservedKernels, NormsKernelsNameWhatTheySum) {
  const auto squares = [](std::string_view kernel) {
    return WorkOf("aten::_fused_rms_norm", kernel, {{8, 512}, {512}}).mean_square;
  };
  EXPECT_TRUE(squares("void vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int, float)"));
  EXPECT_FALSE(
      squares("void vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float)"));
}

TEST(ObservedKernels, ABlockGathersARowByOneIndex) {
  // 40,960 rows of 64 floats: each read and written, and an index of 8 bytes.
  const KernelWork work =
      WorkOf("aten::gather", "void at::native::vectorized_gather_kernel<16, long>(char*)",
             {{1024, 64}, {40960, 64}, {40960, 64}}, DType::kInt64);
  EXPECT_EQ(work.blocks, 40960);
  EXPECT_EQ(work.read, Bytes(40960 * (64 * 4 + 8)));
  EXPECT_EQ(work.written, Bytes(40960 * 64 * 4));
}

TEST(ObservedKernels, AddingAlongAnIndexGoesRound) {
  // 100 x 8 blocks of 128 threads: 102,400 threads, each with three trips an element.
  const auto trips = [](int64_t rows) {
    return WorkOf("aten::index_add_",
                  "void at::native::indexFuncLargeIndex<float, long, unsigned int, 2>(x)",
                  {{1000000, 64}, {rows}, {rows, 64}}, DType::kInt64)
        .trips;
  };
  EXPECT_EQ(trips(1600), 3);
  EXPECT_EQ(trips(1601), 2 * 3);
  EXPECT_EQ(trips(16000), 10 * 3);
}

TEST(ObservedKernels, ALossOfChosenScoresIsOneBlocks) {
  const auto trips = [](int64_t samples, std::string_view pass) {
    const std::string kernel =
        "void nll_loss_" + std::string(pass) + "_reduce_cuda_kernel_2d<float, float, long>(float*)";
    return WorkOf("aten::nll_loss_forward", kernel, {{samples, 1000}, {samples}}, DType::kInt64)
        .trips;
  };
  // 2,048 samples by 128 threads, 16 each; 32 threads at least, 1,024 at most.
  EXPECT_EQ(trips(2048, "forward"), 2 * 16);
  EXPECT_EQ(trips(2048, "backward"), 16);
  EXPECT_EQ(trips(16, "forward"), 2);
  EXPECT_EQ(trips(32768, "forward"), 2 * 32);
}

TEST(ObservedKernels, ChannelsThatLieTogetherTakeTwoKernels) {
  constexpr std::string_view kSums =
      "void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var>(x)";
  constexpr std::string_view kWrites =
      "void at::native::batch_norm_transform_input_channels_last_kernel<float>(x)";
  const auto list = [&](uint32_t waves_milli) {
    JobScript job(1);
    RankScript& rank = job.rank(0);
    rank.Op("aten::native_batch_norm", {0, 90});
    rank.Kernel(kSums, {10, 12}, 7, {20, 24});
    rank.Waves(kSums, waves_milli);
    rank.Kernel(kWrites, {26, 28}, 7, {30, 34});
    const TraceStore store = job.Build();
    const std::vector<int64_t> image = {4, 64, 8, 8}, channels = {64};
    const std::vector<TensorShape> shapes = {{image, DType::kBFloat16},
                                             {channels, DType::kFloat32}};
    const auto traced = OperatorFromTrace("aten::native_batch_norm", shapes, {});
    const std::vector<NodeIndex> kernels = {rank.Of(kSums), rank.Of(kWrites)};
    return Observe(GpuPeaks(), store, store.ranks()[0], *traced, kernels).list;
  };
  const KernelList full = list(1000);
  ASSERT_EQ(full.size(), 2u);
  constexpr double kElements = 4 * 64 * 8 * 8;
  EXPECT_EQ(full[0].written, Bytes());
  EXPECT_EQ(full[0].instructions, 40 * kElements);
  EXPECT_EQ(full[1].read, full[1].written);
  EXPECT_EQ(full[1].instructions, 18 * kElements);
  // Half a wave of blocks: what three quarters would hide.
  EXPECT_EQ(list(500)[0].instructions, 1.5 * 40 * kElements);
}

}  // namespace
}  // namespace foretrace
