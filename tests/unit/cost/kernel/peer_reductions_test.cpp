#include "simulator/cost/kernel/peer_reductions.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

DeviceLinks Links() { return {"nvlink", 10, Bandwidth::GBps(100), FenceWaits()}; }

double Microseconds(std::string_view kernel, int32_t ranks, int64_t bytes) {
  const auto reduction = PeerReductionOf(kernel);
  EXPECT_TRUE(reduction.has_value()) << kernel;
  return TimeOf(*reduction, Links(), ranks, Bytes(bytes))->us();
}

TEST(PeerReductions, KernelsAreToldByTheirNames) {
  EXPECT_FALSE(PeerReductionOf("ncclDevKernel_AllReduce_Sum_f32_RING_LL"));
  EXPECT_FALSE(PeerReductionOf(""));
  EXPECT_TRUE(
      PeerReductionOf("void (anonymous namespace)::multimem_all_reduce_kernel<"
                      "c10::BFloat16, 16>(c10::BFloat16*, unsigned long)"));
  EXPECT_TRUE(PeerReductionOf("void vllm::cross_device_reduce_1stage<__half, 4>()")->threads == 0);
}

// 650 GB/s of links are reached: of four ranks, the others' 65 MB in one pass take 300 us after
// 4.5; a quarter each, read and written three times over, 150 us after 9.
TEST(PeerReductions, EnginesKernelsAreBoundByLinks) {
  EXPECT_NEAR(Microseconds("cross_device_reduce_1stage", 4, 65'000'000), 304.5, 0.01);
  EXPECT_NEAR(Microseconds("cross_device_reduce_2stage", 4, 65'000'000), 159, 0.01);
}

// 8,192 threads of 16 bytes hold 131,072 bytes under way; a share of an eighth of 5,242,880 bytes
// is five trips, of which one is in the pass: 9 + 4 x 1.5 by trips. Links: the whole buffer and the
// share at 650 GB/s, 9.07 us.
TEST(PeerReductions, ThreadsThatWaitForTheirLoads) {
  EXPECT_NEAR(Microseconds("multimem_all_reduce_kernel", 8, 5'242'880), 9 + 9.07, 0.01);
  // 4,096 threads: 20 trips of 1,310,720 bytes, more than the 4.03 us of a peer's buffer.
  EXPECT_NEAR(Microseconds("one_shot_all_reduce_kernel", 2, 1'310'720), 9 + 19 * 1.5, 0.01);
}

TEST(PeerReductions, NothingIsSaidWithoutLinks) {
  EXPECT_FALSE(
      TimeOf(*PeerReductionOf("two_shot_all_reduce_kernel"), DeviceLinks(), 8, Bytes(1 << 20)));
}

}  // namespace
}  // namespace foretrace
