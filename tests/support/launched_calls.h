#pragma once
// Recordings of a rank's kernels by their launches, for tests of what these say of operators.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "simulator/cost/traced/shape_inference.h"
#include "tests/support/job_script.h"

namespace foretrace {

constexpr std::string_view kAdd =
    "void vectorized_elementwise_kernel<8, CUDAFunctor_add<float>, std::array<char*, 3ul> >";
constexpr std::string_view kCast =
    "void vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda(), std::array<char*, 2ul> >";
constexpr std::string_view kNorm = "vectorized_layer_norm_kernel<float, float, false>";
// Blocks of such kernels go through several tiles, so that 132 say nothing of the result.
constexpr std::string_view kGemm = "nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_bias_TNN";
constexpr LaunchAttr kPersistent = {{2, 66, 1}, {384, 1, 1}};

// Calls one after the other, each of which launches one kernel, or more by Then.
class LaunchedCalls {
 public:
  LaunchedCalls() : job_(1) {}

  // `around`: autograd's node; empty: forward. The kernel's name is made different by `name`.
  LaunchedCalls& Add(const std::string& name, std::string_view kernel, const LaunchAttr& launch,
                     const std::string& around = "") {
    return Within(around.empty() ? std::vector<std::string>() : std::vector{around}, name, kernel,
                  launch);
  }
  // The same within other calls, outermost first, where there are any in the backward pass's
  // thread.
  LaunchedCalls& Within(const std::vector<std::string>& around, const std::string& name,
                        std::string_view kernel, const LaunchAttr& launch) {
    double margin = 0;
    thread_ = around.empty() ? 1 : 2;
    for (const std::string& outer : around) {
      job_.rank(0).Op(outer, {at_ + margin, at_ + kLength - margin}, thread_);
      margin += 0.1;
    }
    job_.rank(0).Op(name, {at_ + 1, at_ + kLength - 1}, thread_);
    within_ = 2;
    at_ += kLength;
    return Then(kernel, launch);
  }
  // The last call launches one more.
  LaunchedCalls& Then(std::string_view kernel, const LaunchAttr& launch) {
    ++count_;
    return Again(kernel, launch);
  }
  // The same of the name of the last one.
  LaunchedCalls& Again(std::string_view kernel, const LaunchAttr& launch) {
    const std::string unique = std::string(kernel) + " //" + std::to_string(count_);
    const double at = at_ - kLength + within_;
    job_.rank(0).Kernel(unique, {at, at + 1}, 7, {at + 2, at + 3}, thread_);
    job_.rank(0).Launched(unique, launch).Waves(unique, 1000);
    within_ += 4;
    return *this;
  }
  // A kernel that no call was recorded around.
  LaunchedCalls& InGraph(std::string_view kernel, const LaunchAttr& launch) {
    const std::string unique = std::string(kernel) + " //" + std::to_string(count_++);
    job_.rank(0).InFlight(unique, 7, {at_ + 4, at_ + 5});
    job_.rank(0).Launched(unique, launch).Waves(unique, 1000);
    at_ += kLength;
    return *this;
  }
  // So many elements, 1,024 a block.
  LaunchedCalls& Moves(std::string_view kernel, int64_t elements) {
    return Add("aten::copy_", kernel,
               {{static_cast<uint32_t>((elements + 1023) / 1024), 1, 1}, {128, 1, 1}});
  }
  // Weights that a framework gathers, each of which is cast.
  LaunchedCalls& Gathers(const std::vector<int64_t>& weights) {
    for (const int64_t elements : weights) Moves(kCast, elements);
    return *this;
  }
  // A copy from the host.
  LaunchedCalls& FromHost(int64_t bytes) {
    const std::string unique = "copy " + std::to_string(count_++);
    RankScript& rank = job_.rank(0);
    rank.SyncCopy(unique, MemcpyKind::kHostToDevicePinned, {at_ + 1, at_ + 2}, 7,
                  {at_ + 1.2, at_ + 1.8});
    rank.builder().SetWork(rank.Of(unique), {Flop(), Bytes(bytes)});
    at_ += kLength;
    return *this;
  }
  // Of the arguments of the last call of that name.
  LaunchedCalls& Shapes(std::string_view name, const std::vector<std::vector<int64_t>>& arguments) {
    RankScript& rank = job_.rank(0);
    for (const auto& dims : arguments) {
      Tensor tensor;
      tensor.dtype = DType::kBFloat16;
      rank.builder().AddTensor(rank.Of(name), tensor, dims);
    }
    return *this;
  }
  LaunchedCalls& Norm(uint32_t rows) {
    return Add("aten::native_layer_norm", kNorm, {{rows, 1, 1}, {128, 1, 1}});
  }

  // The operators of the calls of that name, in order; "": of kernels without a call.
  std::vector<OperatorCall> Inferred(std::string_view name) {
    if (!store_) store_.emplace(job_.Build());
    const TraceStore& store = *store_;
    const RankTrace& rank = store.ranks()[0];
    KernelCalls calls = FindKernelCalls(store, rank);
    InferShapes(store, rank, *FindGpuPeaks("h100-sxm5-80gb"), calls);
    std::vector<OperatorCall> list;
    for (const auto& [key, op] : calls.launched) {
      const auto& traced = calls.operators.at(key);
      if ((op.call.valid() ? store.name(rank, op.call) : "") != name) continue;
      EXPECT_TRUE(traced->assumed) << name;
      list.push_back(traced->op);
    }
    return list;
  }

 private:
  JobScript job_;
  std::optional<TraceStore> store_;  // once it was asked for
  static constexpr double kLength = 100;
  double at_ = 0, within_ = 0;  // the next call; the last one's next launch, from its start
  int thread_ = 1, count_ = 0;
};

inline void ExpectLinear(const OperatorCall& call, int64_t m, int64_t n, int64_t k) {
  const auto* op = std::get_if<LinearOp>(&call.shape);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->m, m);
  EXPECT_EQ(op->n, n);
  EXPECT_EQ(op->k, k);
}

inline void ExpectAttention(const OperatorCall& call, int64_t samples, int64_t heads,
                            int64_t sequence, int64_t d) {
  const auto* op = std::get_if<AttentionOp>(&call.shape);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->b, samples);
  EXPECT_EQ(op->heads, heads);
  EXPECT_EQ(op->sq, sequence);
  EXPECT_EQ(op->d, d);
}

}  // namespace foretrace
