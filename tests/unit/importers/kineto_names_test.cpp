// What profiles' names say: steps of serving engines, runtime calls, kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulator/importers/framework/device_names.h"
#include "simulator/importers/kineto/classify.h"
#include "simulator/trace/serving_step.h"
#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

std::string Annotation(std::string_view name, int start, int duration) {
  return fmt::format(
      R"({{"ph":"X","cat":"user_annotation","name":"{}","pid":9,"tid":9,"ts":{},"dur":{}}},)", name,
      start, duration);
}

constexpr char kAnyOp[] = R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":2,
                              "dur":3})";

TEST(Kineto, AnnotationsOfServingEnginesMarkSteps) {
  // Out of order of time; the draft's forward pass lies within a step, a span of no step between.
  const auto store = ImportEvents(Annotation("step[DECODE bs=4]", 40, 10) +
                                  Annotation("step[EXTEND bs=1 toks=512]", 1, 30) +
                                  Annotation("step[EXTEND bs=1 toks=512 c_sk=9]", 20, 5) +
                                  Annotation("scheduler", 32, 5) + kAnyOp);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto marks = store->ranks()[0].iterations();
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0].number, 1);
  EXPECT_EQ(marks[1].number, 2);
  EXPECT_EQ(PhaseOfStep(*store, 1), ServingPhase::kPrefill);
  EXPECT_EQ(PhaseOfStep(*store, 2), ServingPhase::kDecode);
  EXPECT_EQ(PhaseOfStep(*store, 3), std::nullopt);
  EXPECT_TRUE(store->diagnostics().empty());
}

TEST(Kineto, MarksOfTheProfilerComeBeforeThoseOfEngines) {
  const auto store =
      ImportEvents(Annotation("execute_context_0(0)_generation_2(2)", 5, 10) +
                   Annotation("ProfilerStep#7", 1, 90) +
                   Annotation("execute_context_0(0)_generation_2(2)", 95, 10) + kAnyOp);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto marks = store->ranks()[0].iterations();
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].number, 7);
  EXPECT_EQ(PhaseOfStep(*store, 7), std::nullopt);
}

// A mark without a length is of no step: it would be one of 0 us.
TEST(Kineto, MarksWithoutDurationAreLeftOut) {
  const auto store = ImportEvents(Annotation("ProfilerStep#7", 1, 0) +
                                  Annotation("ProfilerStep#8", 5, 90) + kAnyOp);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto marks = store->ranks()[0].iterations();
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0].number, 8);
  EXPECT_EQ(store->diagnostics().Count(Repair::kStepWithoutDuration), 1);
}

TEST(ServingStep, NamesThePhase) {
  EXPECT_EQ(ParseServingStep("execute_context_2(4096)_generation_0(0)"), ServingPhase::kPrefill);
  EXPECT_EQ(ParseServingStep("execute_context_1(888_788544)_generation_0(0)"),
            ServingPhase::kPrefill);
  EXPECT_EQ(ParseServingStep("execute_context_0(0)_generation_8(8)"), ServingPhase::kDecode);
  EXPECT_EQ(ParseServingStep("execute_context_1(512)_generation_8(8)"), ServingPhase::kMixed);
  EXPECT_EQ(ParseServingStep("execute_context_0(0)_generation_0(0)"), ServingPhase::kIdle);
  EXPECT_EQ(ParseServingStep("execute_new_3_cached_0"), ServingPhase::kPrefill);
  EXPECT_EQ(ParseServingStep("execute_new_0_cached_8"), ServingPhase::kUnstated);
  EXPECT_EQ(ParseServingStep("step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]"),
            ServingPhase::kDecode);
  EXPECT_EQ(ParseServingStep("step[TARGET_VERIFY bs=32]"), ServingPhase::kDecode);
  EXPECT_EQ(ParseServingStep("step[MIXED bs=2 c=1 g=1]"), ServingPhase::kMixed);
  EXPECT_EQ(ParseServingStep("step[DRAFT_EXTEND bs=2]"), std::nullopt);
  EXPECT_EQ(ParseServingStep("step[12/40]"), std::nullopt);
  EXPECT_EQ(ParseServingStep("execute_context_2(4096"), std::nullopt);
  EXPECT_EQ(ParseServingStep("execute_contexts"), std::nullopt);
}

TEST(Classify, RuntimeCalls) {
  EXPECT_EQ(ParseRuntimeCall("cudaLaunchKernelExC"), RuntimeCall::kLaunchKernel);
  EXPECT_EQ(ParseRuntimeCall("cuLaunchKernelEx"), RuntimeCall::kLaunchKernel);
  EXPECT_EQ(ParseRuntimeCall("cudaLaunchCooperativeKernel"), RuntimeCall::kLaunchKernel);
  EXPECT_EQ(ParseRuntimeCall("cuMemcpyDtoHAsync_v2"), RuntimeCall::kMemcpyAsync);
  EXPECT_EQ(ParseRuntimeCall("cudaMemcpy"), RuntimeCall::kMemcpySync);
  EXPECT_EQ(ParseRuntimeCall("cudaMemsetAsync"), RuntimeCall::kMemset);
  EXPECT_EQ(ParseRuntimeCall("cudaMallocAsync_v11020"), RuntimeCall::kOther);
  EXPECT_EQ(ParseRuntimeCall("cudaMalloc"), RuntimeCall::kMalloc);
  EXPECT_EQ(ParseRuntimeCall("cudaFreeHost"), RuntimeCall::kFree);
  EXPECT_EQ(ParseRuntimeCall("hipStreamSynchronize"), RuntimeCall::kStreamSynchronize);
  EXPECT_EQ(ParseRuntimeCall("cudaEventRecordWithFlags"), RuntimeCall::kEventRecord);
  EXPECT_EQ(ParseRuntimeCall("cudaEventElapsedTime"), RuntimeCall::kOther);
  EXPECT_EQ(ParseRuntimeCall("cudaStreamIsCapturing"), RuntimeCall::kOther);
  EXPECT_EQ(ParseRuntimeCall("INVALID"), RuntimeCall::kOther);
}

// Names as PTI gives them to Kineto's XPU plug-in.
TEST(Classify, XpuCallsAndCopies) {
  EXPECT_EQ(ParseRuntimeCall("urQueueFinish"), RuntimeCall::kStreamSynchronize);
  EXPECT_EQ(ParseRuntimeCall("zeCommandQueueSynchronize"), RuntimeCall::kStreamSynchronize);
  EXPECT_EQ(ParseRuntimeCall("urEventWait"), RuntimeCall::kEventSynchronize);
  EXPECT_EQ(ParseRuntimeCall("zeEventHostSynchronize"), RuntimeCall::kEventSynchronize);
  EXPECT_EQ(ParseRuntimeCall("urEventRelease"), RuntimeCall::kOther);
  bool known = false;
  EXPECT_EQ(ParseMemcpyKind("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", known),
            MemcpyKind::kHostToDevicePageable);
  EXPECT_TRUE(known);
  EXPECT_EQ(ParseMemcpyKind("Memcpy D2M (DEVICE -> MEMORY(Unknown))", known),
            MemcpyKind::kDeviceToHostPageable);
  EXPECT_EQ(ParseMemcpyKind("Memcpy H2D (HOST -> DEVICE)", known), MemcpyKind::kHostToDevicePinned);
}

TEST(Classify, CollectiveKernels) {
  EXPECT_TRUE(IsCollectiveKernel("mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*)"));
  EXPECT_TRUE(IsCollectiveKernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"));
  EXPECT_TRUE(IsCollectiveKernel("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"));
  EXPECT_TRUE(IsCollectiveKernel("ncclSymDevKernel_AllReduce_AGxLL_R_f32(ncclSymDevArgs)"));
  EXPECT_FALSE(IsCollectiveKernel("void at::native::elementwise_kernel<128>(int)"));
}

}  // namespace
}  // namespace foretrace
