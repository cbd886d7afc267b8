#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "simulator/importers/import.h"
#include "simulator/importers/linker/alignment.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AlignNames, MatchesEqualSequences) {
  const std::vector<uint32_t> names = {1, 2, 3, 2, 1};
  EXPECT_THAT(AlignNames(names, names), ElementsAre(0, 1, 2, 3, 4));
}

TEST(AlignNames, SkipsWhatOnlyOneSideHas) {
  EXPECT_THAT(AlignNames(std::vector<uint32_t>{1, 2, 9, 3}, std::vector<uint32_t>{1, 8, 2, 3}),
              ElementsAre(0, 2, -1, 3));
  EXPECT_THAT(AlignNames(std::vector<uint32_t>{1, 2}, std::vector<uint32_t>{}),
              ElementsAre(-1, -1));
}

TEST(AlignNames, FindsTheIterationWithinALongerRecording) {
  // Needle: names 100 .. 199. Haystack: another start, then the needle with one insertion, then
  // repetitions of a part of it.
  std::vector<uint32_t> needle, haystack(500, 7);
  for (uint32_t i = 0; i < 100; ++i) needle.push_back(100 + i);
  for (uint32_t i = 0; i < 100; ++i) {
    if (i == 50) haystack.push_back(8);
    haystack.push_back(100 + i);
  }
  for (uint32_t i = 0; i < 30; ++i) haystack.push_back(100 + i);
  const std::vector<int32_t> match = AlignNames(needle, haystack);
  for (int32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(match[static_cast<size_t>(i)], 500 + i + (i >= 50 ? 1 : 0));
  }
}

TEST(AlignNames, GivesUpAfterTheAllowedEdits) {
  const std::vector<uint32_t> needle = {1, 2, 3, 4, 5};
  const std::vector<uint32_t> haystack = {1, 9, 9, 9, 9, 2, 3, 4, 5};
  EXPECT_THAT(AlignNames(needle, haystack, 2), ElementsAre(0, -1, -1, -1, -1));
}

std::string EtNode(int id, int parent, const std::string& name, int tid, const std::string& inputs,
                   const std::string& outputs) {
  return R"({"name":")" + name + R"(","id":)" + std::to_string(id) + R"(,"rf_id":)" +
         std::to_string(id) + R"(,"parent":)" + std::to_string(parent) + R"(,"scope":0,"tid":)" +
         std::to_string(tid) + R"(,"op_schema":"","inputs":[)" + inputs +
         R"(],"input_shapes":[],"input_types":[],"outputs":[)" + outputs +
         R"(],"output_shapes":[],"output_types":[]})";
}

std::string Event(const std::string& category, const std::string& name, int tid, int ts, int dur,
                  const std::string& args) {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":1,"tid":)" +
         std::to_string(tid) + R"(,"ts":)" + std::to_string(ts) + R"(,"dur":)" +
         std::to_string(dur) + R"(,"args":{)" + args + "}}";
}

// An all-to-all with unequal splits, its wait, and a reader on another thread. The profile's ids
// share nothing with those of the execution trace.
TEST(Linker, JoinsTimesAndDataFlow) {
  const TempFolder folder;
  const std::string in = R"([1,1,0,12,4,"cuda:0"])";
  const std::string out = R"([2,2,0,8,4,"cuda:0"])";
  folder.Write("et_0.json",
               R"({"schema":"1.0.1","nodes":[)" +
                   EtNode(2, 1, "[pytorch|profiler|execution_graph|thread]", 1, "", "") + "," +
                   EtNode(10, 2, "c10d::alltoall_base_", 1,
                          out + "," + in + R"(,"<Object>",[6,2],[4,8],-1)", "") +
                   "," +
                   EtNode(11, 10, "record_param_comms", 1,
                          in + R"(,152,9,0,"all_to_allv",[4,8],[6,2])", out) +
                   "," + EtNode(12, 2, "record_param_comms", 1, R"(152,0,0,"wait",[],[])", "") +
                   "," + EtNode(13, 2, "ReluBackward0", 2, out, R"([3,3,0,8,4,"cuda:0"])") + "]}");
  folder.Write(
      "rank0.json",
      R"({"traceEvents":[)" +
          Event("cpu_op", "ReluBackward0", 900, 50, 10, R"("External id":513)") + "," +
          Event("cpu_op", "c10d::alltoall_base_", 800, 10, 20, R"("External id":1)") + "," +
          Event("cpu_op", "record_param_comms", 800, 10, 20, R"("External id":2)") + "," +
          Event("cuda_runtime", "cudaLaunchKernel", 800, 15, 2, R"("correlation":77)") + "," +
          Event("cpu_op", "record_param_comms", 800, 40, 1, R"("External id":3)") + "," +
          Event("kernel", "ncclKernel_SendRecv_RING(int)", 20, 18, 9,
                R"("stream":20,"device":0,"correlation":77)") +
          "]}");
  const auto store = ImportTraces({folder.path()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_EQ(store->ranks().size(), 1u);
  const RankTrace& rank = store->ranks()[0];
  EXPECT_TRUE(rank.info().has_times);
  EXPECT_EQ(rank.info().producer, "pytorch_et 1.0.1 + kineto (4 of 4 operators linked)");
  const NodeIndex exchange = FindNode(*store, rank, "c10d::alltoall_base_");
  const NodeIndex reader = FindNode(*store, rank, "ReluBackward0");
  const NodeIndex wait = FindNode(*store, rank, "record_param_comms", 1);
  ASSERT_EQ(rank.dependencies(reader).size(), 1u);
  EXPECT_EQ(rank.dependencies(reader)[0].producer, exchange);
  EXPECT_EQ(rank.dependencies(reader)[0].kind, DependencyKind::kData);
  ASSERT_EQ(rank.dependencies(wait).size(), 1u);
  EXPECT_EQ(rank.dependencies(wait)[0].producer, exchange);
  EXPECT_EQ(rank.dependencies(wait)[0].kind, DependencyKind::kSync);
  ASSERT_EQ(rank.tensors(reader).size(), 2u);
  EXPECT_EQ(rank.tensors(reader)[0].id, 2);
  const CommAttr* comm = rank.comm(FindNode(*store, rank, "ncclKernel_SendRecv_RING(int)"));
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(comm->bytes_in, Bytes(48));
  EXPECT_EQ(comm->bytes_out, Bytes(32));
  EXPECT_EQ(comm->sequence, 152);
  EXPECT_THAT(rank.in_splits(*comm), ElementsAre(16, 32));
  EXPECT_THAT(rank.out_splits(*comm), ElementsAre(24, 8));
  EXPECT_TRUE(store->diagnostics().empty());
}

TEST(Linker, CountsWhatHasNoPartnerAndRefusesStrangers) {
  const TempFolder folder;
  const std::string et = R"({"schema":"1.0.1","nodes":[)";
  folder.Write("et_0.json", et + EtNode(10, 2, "aten::relu", 1, "", "") + "," +
                                EtNode(11, 2, "aten::missing", 1, "", "") + "]}");
  folder.Write("rank0.json",
               R"({"traceEvents":[)" + Event("cpu_op", "aten::relu", 8, 1, 2, "") + "]}");
  const auto store = ImportTraces({folder.path()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->diagnostics().Count(Repair::kUnlinkedOperator), 1);
  EXPECT_THAT(store->diagnostics().entries().begin()->second.first,
              HasSubstr("node 11 (aten::missing) is not in"));
  folder.Write("et_0.json", et + EtNode(10, 2, "aten::other", 1, "", "") + "]}");
  EXPECT_THAT(ImportTraces({folder.path()}, {}).status().message(),
              HasSubstr("are not of one run: they have 0 of 1 operators in common"));
}

}  // namespace
}  // namespace foretrace
