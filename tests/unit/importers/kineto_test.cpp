#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

// One operator that launches one kernel.
constexpr char kLaunch[] =
    R"({"ph":"X","cat":"cpu_op","name":"aten::add","pid":100,"tid":100,"ts":1000.5,"dur":10,
        "args":{"External id":1,"Input Dims":[[2,3],[],[[4],[5,6]]],
                "Input type":["float","Scalar","TensorList"]}},
       {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":100,"tid":100,"ts":1002,
        "dur":3.25,"args":{"External id":1,"correlation":7}},
       {"ph":"X","cat":"kernel","name":"add_kernel","pid":0,"tid":20,"ts":1009,"dur":4,
        "args":{"device":0,"stream":20,"correlation":7}})";

TEST(Kineto, KeepsTimesNestingAndLaunches) {
  const auto store = ImportEvents(kLaunch);
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  ASSERT_EQ(rank.size(), 3u);
  const NodeIndex op = FindNode(*store, rank, "aten::add");
  const NodeIndex call = FindNode(*store, rank, "cudaLaunchKernel");
  const NodeIndex kernel = FindNode(*store, rank, "add_kernel");
  EXPECT_EQ(rank.kind(op), NodeKind::kCpuOp);
  EXPECT_EQ(rank.kind(call), NodeKind::kRuntimeCall);
  EXPECT_EQ(rank.runtime_call(call), RuntimeCall::kLaunchKernel);
  EXPECT_EQ(rank.kind(kernel), NodeKind::kKernel);
  EXPECT_EQ(rank.parent(call), op);
  EXPECT_EQ(rank.launcher(kernel), call);
  EXPECT_EQ(rank.duration(call), SimTime::FromNs(3250));
  EXPECT_EQ(rank.start(call) - rank.start(op), SimTime::FromNs(1500));
  EXPECT_EQ(rank.lane_at(rank.lane(kernel)).id, 20);
  EXPECT_EQ(rank.lane_at(rank.lane(kernel)).kind, Lane::Kind::kStream);
  // [2,3] of floats, and the list's [4] and [5,6]; the scalar is no tensor.
  ASSERT_EQ(rank.tensors(op).size(), 3u);
  EXPECT_EQ(rank.tensors(op)[0].dtype, DType::kFloat32);
  EXPECT_THAT(rank.dims(rank.tensors(op)[0]), ::testing::ElementsAre(2, 3));
  EXPECT_THAT(rank.dims(rank.tensors(op)[1]), ::testing::ElementsAre(4));
  EXPECT_THAT(rank.dims(rank.tensors(op)[2]), ::testing::ElementsAre(5, 6));
  EXPECT_TRUE(store->diagnostics().empty());
}

// A convolution of two images of 3 x 224 x 224 by 768 filters of 3 x 16 x 16.
std::string ConvolutionEvent(const std::string& name, const std::string& dims,
                             const std::string& concrete) {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name +
         R"(","pid":100,"tid":100,"ts":1000,"dur":10,"args":{"Input Dims":[)" + dims +
         R"(],"Input type":["c10::BFloat16","c10::BFloat16","c10::BFloat16"],)" +
         R"("Concrete Inputs":[)" + concrete + R"(]}},)" + kLaunch;
}

std::vector<std::vector<int64_t>> OutputsOf(const std::string& events, const std::string& name) {
  const auto store = ImportEvents(events);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return {};
  const RankTrace& rank = store->ranks()[0];
  std::vector<std::vector<int64_t>> outputs;
  for (const Tensor& tensor : rank.tensors(FindNode(*store, rank, name))) {
    if (!tensor.is_output) continue;
    EXPECT_EQ(tensor.dtype, DType::kBFloat16);
    outputs.emplace_back(rank.dims(tensor).begin(), rank.dims(tensor).end());
  }
  return outputs;
}

TEST(Kineto, DerivesResultsOfConvolutionsFromTheirArguments) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  const std::string dims = "[2,3,224,224],[768,3,16,16],[768],[],[],[],[]";
  // Patches: 224 / 16 = 14. ATen's cudnn_convolution has the padding before the stride.
  EXPECT_THAT(OutputsOf(ConvolutionEvent("aten::conv2d", dims,
                                         R"("","","","[16, 16]","[0, 0]","[1, 1]","1")"),
                        "aten::conv2d"),
              ElementsAre(ElementsAre(2, 768, 14, 14)));
  const std::string unbiased = "[2,3,224,224],[768,3,16,16],[],[],[],[],[]";
  // (224 + 2 * 8 - 2 * 15 - 1) / 3 + 1 = 70 rows; (224 + 2 * 1 - 15 - 1) / 16 + 1 = 14 columns.
  EXPECT_THAT(OutputsOf(ConvolutionEvent("aten::cudnn_convolution", unbiased,
                                         R"("","","[8, 1]","[3, 16]","[2, 1]","1","True")"),
                        "aten::cudnn_convolution"),
              ElementsAre(ElementsAre(2, 768, 70, 14)));
  EXPECT_THAT(
      OutputsOf(ConvolutionEvent("aten::convolution", dims,
                                 R"("","","","[2, 2]","[0, 0]","[1, 1]","True","[0, 0]","1")"),
                "aten::convolution"),
      IsEmpty());  // transposed
  EXPECT_THAT(OutputsOf(ConvolutionEvent("aten::convolution", dims,
                                         R"("","","","[0, 0]","[0, 0]","[1, 1]","False")"),
                        "aten::convolution"),
              IsEmpty());  // no stride
  const std::string backward = "[2,768,14,14],[2,3,224,224],[768,3,16,16],[],[],[],[],[],[],[],[]";
  EXPECT_THAT(
      OutputsOf(
          ConvolutionEvent(
              "aten::convolution_backward", backward,
              R"("","","","[768]","[16, 16]","[0, 0]","[1, 1]","False","[0, 0]","1","[False, True, True]")"),
          "aten::convolution_backward"),
      ElementsAre(ElementsAre(768, 3, 16, 16)));  // not of the images
}

TEST(Kineto, DerivesResultsOfVolumesPoolsReductionsAndResizedImages) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  const auto outputs = [](const std::string& name, const std::string& dims,
                          const std::string& concrete) {
    return OutputsOf(ConvolutionEvent(name, dims, concrete), name);
  };
  // 6 - 3 + 1 = 4 frames, 66 - 3 + 1 = 64 rows and columns.
  EXPECT_THAT(outputs("aten::cudnn_convolution", "[1,384,6,66,66],[96,384,3,3,3],[],[],[],[]",
                      R"("","","[0, 0, 0]","[1, 1, 1]","[1, 1, 1]","1")"),
              ElementsAre(ElementsAre(1, 96, 4, 64, 64)));
  // (3000 + 2 - 3) / 2 + 1 = 1500.
  EXPECT_THAT(outputs("aten::conv1d", "[1,80,3000],[512,80,3],[512],[],[],[],[]",
                      R"("","","","[2]","[1]","[1]","1")"),
              ElementsAre(ElementsAre(1, 512, 1500)));
  // (112 + 2 - 3) / 2 = 55.5, down or up, and one more.
  EXPECT_THAT(outputs("aten::max_pool2d_with_indices", "[4,64,112,112],[],[],[],[],[]",
                      R"("","[3, 3]","[2, 2]","[1, 1]","[1, 1]","False")"),
              ElementsAre(ElementsAre(4, 64, 56, 56)));
  EXPECT_THAT(outputs("aten::avg_pool2d", "[4,64,113,113],[],[],[],[],[],[]",
                      R"("","[2, 2]","[]","[0, 0]","True","True","")"),
              ElementsAre(ElementsAre(4, 64, 57, 57)));
  EXPECT_THAT(outputs("aten::adaptive_avg_pool2d", "[4,64,14,14],[]", R"("","[1, 1]")"),
              ElementsAre(ElementsAre(4, 64, 1, 1)));
  EXPECT_THAT(
      outputs("aten::upsample_nearest2d", "[1,64,16,16],[],[],[]", R"("","[32, 32]","2.","2.")"),
      ElementsAre(ElementsAre(1, 64, 32, 32)));
  EXPECT_THAT(outputs("aten::mean", "[16,559,1024],[],[],[]", R"("","[-1]","True","")"),
              ElementsAre(ElementsAre(16, 559, 1)));
  EXPECT_THAT(outputs("aten::sum", "[16,559,1024],[],[],[]", R"("","[0, 1]","False","")"),
              ElementsAre(ElementsAre(1024)));
  EXPECT_THAT(outputs("aten::linalg_vector_norm", "[1,384,32,32],[],[],[],[]",
                      R"("","2.","[1]","True","")"),
              ElementsAre(ElementsAre(1, 1, 32, 32)));
  EXPECT_THAT(outputs("aten::sum", "[16,8],[],[],[]", R"("","[2]","False","")"),
              IsEmpty());  // no such dimension
  EXPECT_THAT(outputs("aten::sum", "[16,8],[]", R"("","")"), IsEmpty());
  EXPECT_THAT(outputs("aten::max", "[16,8],[16,8]", R"("","")"), IsEmpty());  // of two tensors
  EXPECT_THAT(outputs("aten::index_select", "[512,64],[],[141]", R"("","0","")"),
              ElementsAre(ElementsAre(141, 64)));
}

TEST(Kineto, ReadsTheFirstProfilersNames) {
  // PyTorch 1.8: other categories, threads as text, "external id", step marks as operators.
  const auto store = ImportEvents(
      R"json({"ph":"X","cat":"Operator","name":"ProfilerStep#5","pid":9,"tid":"25738","ts":1,"dur":90},
         {"ph":"X","cat":"Runtime","name":"cudaMemcpyAsync","pid":9,"tid":"25738","ts":2,"dur":3,
          "args":{"correlation":4,"external id":2}},
         {"ph":"X","cat":"Memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,
          "tid":"stream 7","ts":4,"dur":1,"args":{"correlation":4,"bytes":1024}},
         {"ph":"i","s":"t","name":"[memory]","pid":9,"tid":25738,"ts":5},
         {"ph":"f","id":4,"pid":0,"tid":"stream 7","ts":4,"cat":"async","name":"launch"})json");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  ASSERT_EQ(rank.size(), 3u);
  ASSERT_EQ(rank.iterations().size(), 1u);
  EXPECT_EQ(rank.iterations()[0].number, 5);
  const NodeIndex copy = FindNode(*store, rank, "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(rank.memcpy_kind(copy), MemcpyKind::kHostToDevicePageable);
  EXPECT_EQ(rank.lane_at(rank.lane(copy)).id, 7);
  EXPECT_EQ(rank.work(copy)->bytes, Bytes(1024));
  EXPECT_EQ(rank.launcher(copy), FindNode(*store, rank, "cudaMemcpyAsync"));
}

TEST(Kineto, ReadsRocmNames) {
  const auto store = ImportEvents(
      R"json({"ph":"X","cat":"cuda_runtime","name":"hipMemcpyWithStream","pid":9,"tid":9,"ts":1,"dur":9,
          "args":{"correlation":117,"stream":"0x0","size":"2560"}},
         {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":2,"tid":0,"ts":2,
          "dur":3,"args":{"device":2,"stream":0,"correlation":117,"kind":"HtoD"}},
         {"ph":"X","cat":"cuda_runtime","name":"hipExtModuleLaunchKernel","pid":9,"tid":9,"ts":11,
          "dur":1,"args":{"correlation":118}},
         {"ph":"X","cat":"kernel","name":"Cijk_gemm","pid":2,"tid":0,"ts":13,"dur":3,
          "args":{"device":2,"stream":0,"correlation":118}})json",
      R"("baseTimeNanoseconds": 1735632360000000000,)"
      R"("deviceProperties": [{"id": 0, "name": "A"}, {"id": 2, "name": "AMD Instinct"}],)");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  const NodeIndex copy = FindNode(*store, rank, "Memcpy HtoD (Host -> Device)");
  EXPECT_EQ(rank.runtime_call(rank.launcher(copy)), RuntimeCall::kMemcpySync);
  // "Host" tells nothing; a blocking copy call means pageable.
  EXPECT_EQ(rank.memcpy_kind(copy), MemcpyKind::kHostToDevicePageable);
  EXPECT_EQ(rank.runtime_call(FindNode(*store, rank, "hipExtModuleLaunchKernel")),
            RuntimeCall::kLaunchKernel);
  EXPECT_EQ(rank.info().device_name, "AMD Instinct");
  EXPECT_EQ(rank.info().origin_ns, 1735632360000001000);
}

// Producers write the devices before the events or behind them.
TEST(Kineto, WavesFollowTheRecordedDeviceWhereverItStands) {
  const std::string kernel =
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":2,"dur":3,
          "args":{"device":0,"stream":7,"correlation":3,"blocks per SM":0.5,"warps per SM":2,
                  "registers per thread":100,"shared memory":98304}})";
  const std::string device =
      R"("deviceProperties":[{"id":0,"name":"A","maxThreadsPerMultiprocessor":2048,
          "regsPerMultiprocessor":65536,"warpSize":32,"sharedMemPerMultiprocessor":233472,
          "sharedMemPerBlockOptin":232448}])";
  for (const std::string& text : {"{" + device + R"(,"traceEvents":[)" + kernel + "]}",
                                  R"({"traceEvents":[)" + kernel + "]," + device + "}"}) {
    const auto store = ImportText(*MakeKinetoImporter(), text);
    ASSERT_TRUE(store.ok()) << store.status();
    const RankTrace& rank = store->ranks()[0];
    EXPECT_EQ(rank.waves_milli(FindNode(*store, rank, "gemm")), 250u);  // two blocks are resident
  }
}

TEST(Kineto, CopiesWithinTheDeviceHaveWavesByTheirBytes) {
  // 4 multiprocessors of 2,048 threads that copy 16 bytes each take 131,072 bytes at once.
  const std::string device =
      R"("deviceProperties":[{"id":0,"name":"A","maxThreadsPerMultiprocessor":2048,"warpSize":32,
          "numSms":4}])";
  const auto copy = [](std::string_view name) {
    return fmt::format(
        R"({{"ph":"X","cat":"gpu_memcpy","name":"{}","pid":0,"tid":7,"ts":2,"dur":1,
             "args":{{"device":0,"stream":7,"bytes":327680}}}})",
        name);
  };
  const auto store =
      ImportText(*MakeKinetoImporter(), "{" + device + R"(,"traceEvents":[)" +
                                            copy("Memcpy DtoD (Device -> Device)") + "," +
                                            copy("Memcpy HtoD (Pinned -> Device)") + "]}");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  const auto waves = [&](std::string_view name) {
    return rank.waves_milli(FindNode(*store, rank, name));
  };
  EXPECT_EQ(waves("Memcpy DtoD (Device -> Device)"), 2500u);  // 327,680 / 131,072
  EXPECT_EQ(waves("Memcpy HtoD (Pinned -> Device)"), 0u);     // by a copy engine
}

TEST(Kineto, KernelsKeepTheirGrid) {
  const auto kernel = [](std::string_view name, std::string_view arguments) {
    return fmt::format(
        R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":7,"ts":2,"dur":1,
             "args":{{"device":0,"stream":7,"blocks per SM":0.5,"warps per SM":2,{}}}}})",
        name, arguments);
  };
  const auto store = ImportEvents(kernel("whole", R"("grid":[66,2,1],"block":[128,3,1])") + "," +
                                  kernel("zero", R"("grid":[66,0,1],"block":[128,1,1])") + "," +
                                  kernel("text", R"("grid":"many","block":[128,1,1])") + "," +
                                  kernel("huge", R"("grid":[1,1,1],"block":[5000000000,1,1])") +
                                  "," + kernel("none", R"("block":[128,1,1])"));
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  const LaunchAttr* launch = rank.launch(FindNode(*store, rank, "whole"));
  ASSERT_NE(launch, nullptr);
  EXPECT_EQ(*launch, (LaunchAttr{{66, 2, 1}, {128, 3, 1}}));
  for (const char* name : {"zero", "text", "huge", "none"}) {
    EXPECT_EQ(rank.launch(FindNode(*store, rank, name)), nullptr) << name;
  }
}

TEST(Kineto, CountsKernelsWithoutLaunchAndNamesUnknownCallsByWhatTheyIssue) {
  const auto store = ImportEvents(
      R"({"ph":"X","cat":"cuda_runtime","name":"INVALID","pid":9,"tid":9,"ts":1,"dur":9,
          "args":{"correlation":3}},
         {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":2,"dur":3,
          "args":{"stream":7,"correlation":3}},
         {"ph":"X","cat":"kernel","name":"orphan","pid":0,"tid":7,"ts":6,"dur":3,
          "args":{"stream":7,"correlation":99}})");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.runtime_call(FindNode(*store, rank, "INVALID")), RuntimeCall::kLaunchKernel);
  EXPECT_EQ(store->diagnostics().Count(Repair::kMissingLaunch), 1);
  EXPECT_EQ(store->diagnostics().entries().begin()->second.first,
            "memory.json: correlation 99 (orphan)");
}

// A profile appended to itself: one operator, one call, one kernel.
TEST(Kineto, EventsThatStandTwiceAreOne) {
  const auto once = ImportEvents(kLaunch);
  const auto twice = ImportEvents(fmt::format("{},{}", kLaunch, kLaunch));
  ASSERT_TRUE(once.ok() && twice.ok()) << twice.status();
  EXPECT_EQ(twice->ranks()[0].size(), once->ranks()[0].size());
  EXPECT_EQ(twice->diagnostics().Count(Repair::kDuplicateEvent), 3);
  const RankTrace& rank = twice->ranks()[0];
  EXPECT_EQ(rank.launcher(FindNode(*twice, rank, "add_kernel")),
            FindNode(*twice, rank, "cudaLaunchKernel"));
}

// Kernels of one graph have one correlation, and fills that take no time one start.
TEST(Kineto, EventsThatAreAlikeAreTwo) {
  const std::string kernel =
      R"({{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":{},"ts":{},"dur":4,
          "args":{{"device":0,"stream":{},"correlation":7}}}})";
  const auto store = ImportEvents(fmt::format("{},{},{},{}", kLaunch,
                                              fmt::format(fmt::runtime(kernel), 20, 1020, 20),
                                              fmt::format(fmt::runtime(kernel), 20, 1030, 20),
                                              fmt::format(fmt::runtime(kernel), 21, 1030, 21)));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks()[0].size(), 6u);
  EXPECT_TRUE(store->diagnostics().empty());
}

// Ranks of one node put into one file: each process numbers its calls from one.
TEST(Kineto, RefusesFilesOfSeveralProcesses) {
  const std::string call =
      R"({{"ph":"X","cat":"cuda_runtime","name":"{}","pid":{},"tid":5,"ts":{},"dur":3,
          "args":{{"correlation":7}}}})";
  const auto with = [&](const char* name, int process) {
    return ImportEvents(
               fmt::format("{},{}", kLaunch, fmt::format(fmt::runtime(call), name, process, 1500)))
        .status();
  };
  EXPECT_THAT(std::string(with("cudaLaunchKernel", 200).message()),
              ::testing::HasSubstr("process 100 made a launch of its correlation, 7, too"));
  EXPECT_TRUE(with("cuLaunchKernel", 100).ok());         // the driver's side of the call
  EXPECT_TRUE(with("cudaStreamSynchronize", 200).ok());  // no work is anybody's
}

TEST(Kineto, AGraphLaunchIssuesManyKernels) {
  std::string events =
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":9,"tid":9,"ts":1,"dur":9,
          "args":{"correlation":3}})";
  for (int i = 0; i < 3; ++i) {
    events += R"(,{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" +
              std::to_string(20 + 5 * i) + R"(,"dur":3,"args":{"stream":7,"correlation":3}})";
  }
  const auto store = ImportEvents(events);
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  const NodeIndex call = FindNode(*store, rank, "cudaGraphLaunch");
  EXPECT_EQ(rank.runtime_call(call), RuntimeCall::kGraphLaunch);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rank.launcher(FindNode(*store, rank, "k", i)), call);
}

TEST(Kineto, PutsEventWaitsOntoTheirCalls) {
  const auto store = ImportEvents(
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaStreamWaitEvent","pid":9,"tid":9,"ts":1,"dur":1,
          "args":{"correlation":1389}},
         {"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":24,"ts":1,"dur":1,
          "args":{"wait_on_stream":20,"wait_on_cuda_event_record_corr_id":1385,
                  "wait_on_cuda_event_id":19,"stream":24,"correlation":1389,"device":0}},
         {"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":9,"tid":9,"ts":3,
          "dur":1,"args":{"correlation":1400}},
         {"ph":"X","cat":"cuda_sync","name":"Context Sync","pid":0,"tid":-1,"ts":3,"dur":1,
          "args":{"stream":-1,"correlation":1400,"device":0}})");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  const SyncAttr* wait = rank.sync(FindNode(*store, rank, "cudaStreamWaitEvent"));
  ASSERT_NE(wait, nullptr);
  EXPECT_EQ(wait->event, 19);
  EXPECT_EQ(wait->waits_for_correlation, 1385);
  EXPECT_EQ(rank.lane_at(wait->stream).id, 24);
  EXPECT_EQ(rank.lane_at(wait->waits_for_stream).id, 20);
  const SyncAttr* sync = rank.sync(FindNode(*store, rank, "cudaDeviceSynchronize"));
  ASSERT_NE(sync, nullptr);
  EXPECT_FALSE(sync->stream.valid());
}

TEST(Kineto, ErrorsAreOneLineWhateverTheNames) {
  const auto store = ImportEvents(
      R"({"ph":"X","cat":"cpu_op","name":"a\nb","pid":1,"tid":1,"ts":"1at","dur":2,"args":{}})");
  EXPECT_THAT(std::string(store.status().message()),
              ::testing::HasSubstr("(a?b): its start \"ts\" is not a usable number"));
}

TEST(Kineto, ReadsRankAndGroupsOfTheJob) {
  const auto store = ImportEvents(
      kLaunch, R"("distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 4, "pg_config": [
                    {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]},
                    {"pg_name": "7", "pg_size": 2, "ranks": "[1, 3]"}]},)");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks()[0].info().rank, 3);
  EXPECT_EQ(store->world_size(), 4);
  ASSERT_EQ(store->process_groups().size(), 2u);
  EXPECT_THAT(store->process_groups().named("7").front().ranks, ::testing::ElementsAre(1, 3));
}

TEST(Kineto, IsTheSameWhateverTheOrderOfKeysAndEvents) {
  const auto store = ImportEvents(
      R"({"args":{"stream":20,"correlation":7},"dur":4,"ts":1009,"tid":20,"pid":0,
          "name":"add_kernel","cat":"kernel","ph":"X"},
         {"args":{"correlation":7,"grid":[1,[2]],"x":{"y":1}},"dur":3.25,"ts":1002,"tid":100,
          "pid":100,"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X"})");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.launcher(FindNode(*store, rank, "add_kernel")),
            FindNode(*store, rank, "cudaLaunchKernel"));
}

TEST(Kineto, OneClearLineForBadInput) {
  const auto event = [](const std::string& fields) {
    return R"({"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,)" + fields + "}";
  };
  const auto expect = [](const absl::StatusOr<TraceStore>& store, std::string_view message) {
    ASSERT_FALSE(store.ok()) << message;
    EXPECT_EQ(std::string(store.status().message()), message);
  };
  const std::string at = "memory.json: event 0 at byte 17 (op): ";
  expect(ImportEvents(event(R"("dur":1)")), at + "its start \"ts\" is missing");
  expect(ImportEvents(event(R"("ts":"x","dur":1)")),
         at + "its start \"ts\" is not a usable number");
  expect(ImportEvents(event(R"("ts":1e25,"dur":1)")),
         at + "its start \"ts\" is not a usable number");
  expect(ImportEvents(event(R"("ts":5e15,"dur":1)")),
         at + "its start \"ts\" is out of range (5e15): profiles state microseconds; "
              "nanoseconds have to be divided by 1,000");
  expect(ImportEvents(event(R"("ts":1,"dur":-2)")), at + "its duration \"dur\" is negative (-2)");
  expect(ImportEvents(event(R"("ts":1,"dur":"NaN")")),
         at + "its duration \"dur\" is not a usable number");
  expect(ImportEvents(event(R"("ts":1,"dur":NaN)")),
         "memory.json: not valid JSON at byte 83: NaN is no JSON number");
  expect(ImportEvents(event(R"("ts":1,"ts":2,"dur":1)")),
         "memory.json: event 0 at byte 17: a key stands twice (second value \"2\")");
  expect(ImportEvents(event(R"("ts":1,"dur":1)") + "," + event(R"("ts":4e12,"dur":1)")),
         "memory.json: event 1 at byte 86 (op): its start is over 26 days away from that of the "
         "first event");
  expect(ImportEvents(""), "memory.json: no operators, calls or kernels among the events");
  expect(ImportText(*MakeKinetoImporter(), "{}"), "memory.json: no \"traceEvents\" in the file");
  expect(ImportEvents("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"\xFF\",\"ts\":1,\"dur\":1}"),
         "memory.json: event 0 at byte 17: its name is not valid UTF-8");
  expect(ImportEvents(kLaunch, R"("distributedInfo": {"rank": 4, "world_size": 4},)"),
         "memory.json: distributedInfo names world_size 4, rank 4");
  const std::string whole = "{\"traceEvents\": [" + event(R"("ts":1,"dur":1)");
  expect(ImportText(*MakeKinetoImporter(), whole), "memory.json: truncated at byte " +
                                                       std::to_string(whole.size()) +
                                                       ": the JSON document does not end");
}

TEST(Kineto, SurvivesAnyTruncationAndAnyFlippedByte) {
  const std::string text =
      std::string(R"({"distributedInfo":{"rank":0,"world_size":2,"pg_config":[{"pg_name":"0",)") +
      R"("ranks":[0,1]}]},"traceEvents":[)" + kLaunch + "]}";
  const auto importer = MakeKinetoImporter();
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ImportText(*importer, std::string_view(text).substr(0, length)).ok()) << length;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char flip : {'\x01', '\x20', '\x80'}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto store = ImportText(*importer, damaged);  // must return, well or with one line
      if (store.ok()) continue;
      EXPECT_EQ(store.status().message().find('\n'), std::string_view::npos);
    }
  }
}

}  // namespace
}  // namespace foretrace
