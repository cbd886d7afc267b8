#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

absl::StatusOr<TraceStore> ImportNodes(const std::string& nodes,
                                       const std::string& schema = "1.0.1") {
  return ImportText(*MakePytorchEtImporter(),
                    R"({"schema": ")" + schema + R"(", "pid": 1, "nodes": [)" + nodes + "]}");
}

// A node of schema 1.0.1. Tensors are "[id, storage, offset, elements, 4, \"cuda:0\"]".
std::string Op(int id, int parent, const std::string& name, const std::string& inputs,
               const std::string& outputs, const std::string& schema = "", int scope = 0,
               int tid = 1) {
  return R"({"name":")" + name + R"(","id":)" + std::to_string(id) + R"(,"rf_id":)" +
         std::to_string(id) + R"(,"parent":)" + std::to_string(parent) +
         R"(,"fw_parent":0,"seq_id":-1,"scope":)" + std::to_string(scope) + R"(,"tid":)" +
         std::to_string(tid) + R"(,"fw_tid":0,"op_schema":")" + schema + R"(","inputs":[)" +
         inputs + R"(],"input_shapes":[],"input_types":[],"outputs":[)" + outputs +
         R"(],"output_shapes":[],"output_types":[]})";
}
std::string T(int id, int storage, int offset = 0, int elements = 8) {
  return "[" + std::to_string(id) + "," + std::to_string(storage) + "," + std::to_string(offset) +
         "," + std::to_string(elements) + R"(,4,"cuda:0"])";
}

// Edges as "consumer<producer", by source id.
std::set<std::string> Edges(const TraceStore& store) {
  std::set<std::string> edges;
  const RankTrace& rank = store.ranks()[0];
  for (uint32_t n = 0; n < rank.size(); ++n) {
    for (const Dependency& d : rank.dependencies(NodeIndex(n))) {
      edges.insert(std::to_string(rank.source_id(NodeIndex(n))) + "<" +
                   std::to_string(rank.source_id(d.producer)) +
                   (d.kind == DependencyKind::kSync ? " sync" : ""));
    }
  }
  return edges;
}

TEST(PytorchEt, ReadsFlatNodesOfSchema101) {
  const auto store = ImportNodes(
      R"json({"name":"aten::view","id":10,"rf_id":5,"parent":4,"fw_parent":0,"seq_id":440,"scope":0,
          "tid":1,"fw_tid":0,"op_schema":"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
          "inputs":[[9,6,0,48,4,"cuda:0"],[-1,16]],"input_shapes":[[48],[[],[]]],
          "input_types":["Tensor(float)","GenericList[Int,Int]"],
          "outputs":[[11,6,0,48,4,"cuda:0"]],"output_shapes":[[3,16]],
          "output_types":["Tensor(float)"]},
         {"name":"## user ##","id":4,"rf_id":1,"parent":1,"scope":7,"tid":1,"inputs":[],
          "outputs":[]})json");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  EXPECT_FALSE(rank.info().has_times);
  EXPECT_EQ(rank.info().producer, "pytorch_et 1.0.1");
  ASSERT_EQ(rank.size(), 2u);
  // In order of id, whatever the order in the file.
  EXPECT_EQ(rank.source_id(NodeIndex(0)), 4u);
  EXPECT_EQ(rank.kind(NodeIndex(0)), NodeKind::kAnnotation);
  EXPECT_EQ(rank.parent(NodeIndex(1)), NodeIndex(0));
  ASSERT_EQ(rank.tensors(NodeIndex(1)).size(), 2u);
  const Tensor& out = rank.tensors(NodeIndex(1))[1];
  EXPECT_TRUE(out.is_output);
  EXPECT_EQ(out.id, 11);
  EXPECT_EQ(out.storage, 6);
  EXPECT_EQ(out.dtype, DType::kFloat32);
  EXPECT_THAT(rank.dims(out), ::testing::ElementsAre(3, 16));
}

TEST(PytorchEt, ReadsCommunicationOfSchema110) {
  const auto store = ImportNodes(
      R"({"id":3,"name":"## process_group:init ##","ctrl_deps":2,"inputs":{"values":)"
      R"(["[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"ranks\": [], \"group_size\": 4},)"
      R"( {\"pg_name\": \"5\", \"ranks\": [1, 3], \"group_size\": 2}]"],)"
      R"("shapes":[[]],"types":["String"]},"outputs":{"values":[]},)"
      R"("attrs":[{"name":"scope","type":"uint64","value":7},)"
      R"({"name":"tid","type":"uint64","value":2}]},)"
      R"({"id":4,"name":"c10d::allreduce_","ctrl_deps":3,"inputs":{"values":)"
      R"([[[43,44,0,100,2,"cuda:1"]],"<Object>"],"shapes":[[[10,10]],[]],)"
      R"("types":["GenericList[Tensor(c10::Half)]","Object"]},"outputs":{"values":[]},"attrs":[]},)"
      R"({"id":5,"name":"record_param_comms","ctrl_deps":4,"inputs":{"values":)"
      R"([[[43,44,0,100,2,"cuda:1"]],33,["5","dp"],0,"allreduce",[],[],0,1,2],)"
      R"("shapes":[[[10,10]]],"types":["GenericList[Tensor(c10::Half)]"]},)"
      R"("outputs":{"values":[]},"attrs":[{"name":"pg_size","type":"uint64","value":2}]})",
      "1.1.0-chakra.0.0.4");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->world_size(), 4);
  EXPECT_THAT(store->process_groups().named("5").front().ranks, ::testing::ElementsAre(1, 3));
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.lane_at(rank.lane(NodeIndex(0))).id, 2);
  const NodeIndex op = FindNode(*store, rank, "c10d::allreduce_");
  const CommAttr* comm = rank.comm(op);
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(static_cast<CollectiveOp>(rank.raw_detail(op)), CollectiveOp::kAllReduce);
  EXPECT_EQ(comm->bytes_in, Bytes(200));  // 100 elements of 2 bytes
  EXPECT_EQ(comm->sequence, 33);
  EXPECT_EQ(comm->group_size, 2);
  EXPECT_EQ(comm->dtype, DType::kFloat16);
  EXPECT_EQ(store->strings().Get(comm->group), "5");
  EXPECT_EQ(rank.comm(FindNode(*store, rank, "record_param_comms")), nullptr);
}

TEST(DataFlow, GoesThroughViewsAndInPlaceOperators) {
  const auto store = ImportNodes(
      Op(10, 1, "aten::randn", "", T(100, 50)) + "," +
      Op(11, 1, "aten::view", T(100, 50), T(101, 50),
         "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)") +
      "," +
      Op(12, 1, "aten::add_", T(101, 50) + "," + T(102, 51), T(101, 50),
         "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)") +
      "," + Op(13, 1, "aten::relu", T(100, 50), T(103, 52)));
  ASSERT_TRUE(store.ok()) << store.status();
  // The view reads but does not write; add_ writes through it; relu reads what add_ wrote.
  EXPECT_THAT(Edges(*store), ::testing::UnorderedElementsAre("11<10", "12<10", "13<12"));
}

TEST(DataFlow, KeepsPartsOfAStorageApart) {
  // Two halves of one buffer written apart; a reader of each half, and one of both.
  const std::string copy = "aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)";
  const auto store =
      ImportNodes(Op(10, 1, "aten::empty", "", T(1, 9, 0, 16)) + "," +
                  Op(11, 1, "aten::copy_", T(2, 9, 0) + "," + T(3, 30), "", copy) + "," +
                  Op(12, 1, "aten::copy_", T(4, 9, 8) + "," + T(5, 31), "", copy) + "," +
                  Op(13, 1, "aten::relu", T(4, 9, 8), T(6, 32)) + "," +
                  Op(14, 1, "aten::sum", T(1, 9, 0, 16), T(7, 33)));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Edges(*store),
              ::testing::UnorderedElementsAre("11<10", "12<10", "13<12", "14<11", "14<12"));
}

TEST(DataFlow, InnermostOperatorsCountAndAllocationsDoNot) {
  // linear(addmm(empty)): addmm computes; its allocation is no producer; linear repeats nothing.
  // embedding launches itself, its only callee being the allocation.
  const auto store = ImportNodes(Op(10, 1, "aten::linear", T(1, 1), T(5, 5)) + "," +
                                 Op(11, 10, "aten::addmm", T(1, 1), T(5, 5)) + "," +
                                 Op(12, 11, "aten::empty", "", T(5, 5)) + "," +
                                 Op(13, 1, "aten::relu", T(5, 5), T(6, 6)));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Edges(*store), ::testing::UnorderedElementsAre("13<11"));
}

TEST(DataFlow, AReusedStorageIsNew) {
  const auto store = ImportNodes(Op(10, 1, "aten::randn", "", T(1, 9)) + "," +
                                 Op(11, 1, "aten::empty", "", T(2, 9)) + "," +
                                 Op(12, 1, "aten::relu", T(2, 9), T(3, 10)));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Edges(*store), ::testing::UnorderedElementsAre("12<11"));
}

TEST(DataFlow, CollectivesWriteTheirOutputAndWaitsNameThem) {
  const std::string wait = R"(152,0,0,"wait",[],[])";
  const auto store = ImportNodes(
      Op(10, 1, "aten::randn", "", T(1, 1)) + "," + Op(11, 1, "aten::empty", "", T(2, 2)) + "," +
      Op(12, 1, "c10d::alltoall_base_", T(2, 2) + "," + T(1, 1) + R"(,"<Object>",[],[],-1)",
         R"("<Object>")") +
      "," + Op(13, 12, "record_param_comms", T(1, 1) + R"(,152,9,0,"all_to_all",[],[])", T(2, 2)) +
      "," + Op(14, 13, "nccl:all_to_all", T(1, 1), "", "", 7) + "," +
      Op(15, 1, "record_param_comms", wait, "") + "," + Op(16, 1, "aten::view", T(2, 2), T(3, 2)) +
      "," + Op(17, 1, "aten::relu", T(3, 2), T(4, 4)));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Edges(*store),
              ::testing::UnorderedElementsAre("12<10", "12<11", "15<12 sync", "16<12", "17<12"));
}

TEST(DataFlow, CrossesThreads) {
  const auto store = ImportNodes(Op(10, 1, "aten::relu", "", T(1, 1)) + "," +
                                 Op(11, 1, "ReluBackward0", T(1, 1), T(2, 2), "", 1, 2) + "," +
                                 Op(12, 1, "aten::add_", T(3, 3) + "," + T(2, 2), ""));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(Edges(*store), ::testing::UnorderedElementsAre("11<10", "12<11"));
}

TEST(PytorchEt, OneClearLineForBadInput) {
  const auto expect = [](const absl::StatusOr<TraceStore>& store, std::string_view message) {
    ASSERT_FALSE(store.ok()) << message;
    EXPECT_EQ(std::string(store.status().message()), message);
  };
  expect(ImportNodes(Op(5, 1, "a", "", ""), "2.0.0"),
         "memory.json: execution trace schema \"2.0.0\" is not supported (1.0.x and 1.1.x are)");
  expect(ImportNodes(""), "memory.json: the execution trace has no nodes");
  expect(ImportNodes(R"({"name":"a","inputs":[],"outputs":[]})"),
         "memory.json: node 0 at byte 40 has no valid id");
  expect(ImportNodes(R"({"id":7})"), "memory.json: node 0 at byte 40 has no name");
  expect(ImportNodes("12"), "memory.json: an unexpected value at byte 42");
  expect(ImportNodes(Op(5, 1, "a", "", "") + "," + Op(5, 1, "b", "", "")),
         "memory.json: two nodes with id 5 (a and b)");
  expect(ImportNodes(Op(5, 1, "a", R"([1,2,0,-4,4,"cuda:0"])", "")),
         "memory.json: node id 5 (a): a tensor has a negative or impossible size");
  expect(ImportText(*MakePytorchEtImporter(), R"({"nodes":[)" + Op(5, 1, "a", "", "") + "]}"),
         "memory.json: the execution trace names no schema version");
}

TEST(PytorchEt, SurvivesAnyTruncationAndAnyFlippedByte) {
  const std::string text = R"({"schema":"1.0.1","nodes":[)" +
                           Op(10, 1, "aten::randn", "", T(1, 1)) + "," +
                           Op(12, 10, "c10d::allreduce_", "[" + T(1, 1) + "]", "") + "]}";
  const auto importer = MakePytorchEtImporter();
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
