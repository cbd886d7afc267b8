// ROCm's profiles: what a kernel's launch and a copy's bytes are, its call says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "simulator/hardware/occupancy_table.h"
#include "simulator/importers/framework/device_names.h"
#include "simulator/importers/kineto/classify.h"
#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

constexpr char kDevice[] =
    R"("deviceProperties":[{"id":0,"name":"A","maxThreadsPerMultiprocessor":2048,
        "regsPerMultiprocessor":65536,"warpSize":64,"numSms":100,
        "maxSharedMemoryPerMultiProcessor":65536}],)";

std::string Launched(std::string_view call, std::string_view grid) {
  return fmt::format(
      R"({{"ph":"X","cat":"cuda_runtime","name":"{}","pid":9,"tid":9,"ts":1,"dur":1,
           "args":{{"correlation":3,"grid":{},"block":[256,1,1],"shared memory":0}}}},
         {{"ph":"X","cat":"kernel","name":"k","pid":2,"tid":0,"ts":3,"dur":3,
           "args":{{"device":2,"stream":0,"correlation":3,"kind":"Dispatch Kernel"}}}})",
      call, grid);
}

uint32_t WavesOf(const std::string& events) {
  const auto store = ImportEvents(events, kDevice);
  if (!store.ok()) return 0;
  const RankTrace& rank = store->ranks()[0];
  return rank.waves_milli(FindNode(*store, rank, "k"));
}

TEST(KinetoRocm, ACallSaysItsKernelsGrid) {
  // 8 blocks of 256 threads are resident on each of 100 multiprocessors. HIP's module launches
  // count threads.
  EXPECT_EQ(WavesOf(Launched("hipLaunchKernel", "[100,4,1]")), 500u);
  EXPECT_EQ(WavesOf(Launched("hipModuleLaunchKernel", "[400,1,1]")), 500u);
  EXPECT_EQ(WavesOf(Launched("hipExtModuleLaunchKernel", "[102400,1,1]")), 500u);
  EXPECT_EQ(WavesOf(Launched("hipLaunchKernel", "[]")), 0u);
  EXPECT_EQ(WavesOf(Launched("hipLaunchKernel", "[-1,1,1]")), 0u);
  EXPECT_EQ(WavesOf(Launched("hipLaunchKernel", "[1e99,\"a\"]")), 0u);
}

TEST(KinetoRocm, ACallSaysItsCopysBytes) {
  const auto store = ImportEvents(
      R"json({"ph":"X","cat":"cuda_runtime","name":"hipMemcpyWithStream","pid":9,"tid":9,"ts":1,
              "dur":9,"args":{"correlation":3,"size":"2560","kind":"1"}},
             {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":2,"tid":0,
              "ts":2,"dur":3,"args":{"device":2,"stream":0,"correlation":3,"kind":"HtoD"}})json");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  const WorkAttr* work = rank.work(FindNode(*store, rank, "Memcpy HtoD (Host -> Device)"));
  ASSERT_NE(work, nullptr);
  EXPECT_EQ(work->bytes, Bytes(2560));
}

TEST(KinetoRocm, DevicesOfVagueNamesAreKnownByWhatIsStated) {
  const OccupancyTable table;
  ImportOptions options;
  options.occupancy = &table;
  const std::string text =
      R"({"deviceProperties":[{"id":0,"name":"AMD Radeon Graphics","totalGlobalMem":68702699520,
          "warpSize":64,"numSms":104}],"traceEvents":[)" +
      Launched("hipLaunchKernel", "[400,1,1]") + "]}";
  const auto source = MakeMemorySource("memory.json", text);
  auto file = MakeKinetoImporter()->Import(*source, "memory.json", options);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->builder->info().device_name, "mi250");
}

TEST(KinetoRocm, NamesOfOtherDevicesLibraries) {
  for (const char* category :
       {"xpu_runtime", "mtia_runtime", "privateuse1_driver", "cuda_driver"}) {
    EXPECT_EQ(kineto::ParseCategory(category), kineto::Category::kRuntime) << category;
  }
  EXPECT_EQ(kineto::ParseCategory("cuda_event"), kineto::Category::kIgnored);
  EXPECT_EQ(kineto::ParseCategory("runtime"), kineto::Category::kUnknown);
  bool known = false;
  EXPECT_EQ(ParseMemcpyKind("CopyHostToDevice", known), MemcpyKind::kHostToDevicePinned);
  EXPECT_EQ(ParseMemcpyKind("Memcpy HtoA (Pinned -> Array)", known),
            MemcpyKind::kHostToDevicePinned);
  EXPECT_EQ(ParseMemcpyKind("Memcpy DtoA (Device -> Array)", known), MemcpyKind::kDeviceToDevice);
  EXPECT_EQ(ParseMemcpyKind("CopyDeviceToDevice", known), MemcpyKind::kDeviceToDevice);
}

}  // namespace
}  // namespace foretrace
