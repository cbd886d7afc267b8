// Mapping of foreign v0.0.4 files to the trace store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "simulator/importers/process_group_table.h"
#include "tests/unit/importers/chakra/chakra_builder.h"

namespace foretrace::chakra_wire {
namespace {

using ::testing::HasSubstr;

std::string Label(const RankTraceBuilder::Result& r, uint32_t n) {
  return r.trace.lane_at(r.trace.lane(NodeIndex(n))).label;
}

TEST(ChakraImporter, SymbolicNodesGoToOneStreamPerPurpose) {
  std::string file = FileStart();
  Node comp = MakeNode(5, COMP_NODE, "gemm");
  AddAttr(comp, "num_ops")->set_int64_val(1000);
  AddAttr(comp, "tensor_size")->set_uint64_val(64);
  AppendMessage(comp, file);
  Node coll = MakeNode(6, COMM_COLL_NODE, "x");
  coll.add_data_deps(5);
  AddAttr(coll, "is_cpu_op")->set_int32_val(0);
  AddAttr(coll, "comm_type")->set_int64_val(7);
  AddAttr(coll, "comm_size")->set_int64_val(4096);
  AddAttr(coll, "pg_name")->set_string_val("5");
  AppendMessage(coll, file);
  Node send = MakeNode(7, COMM_SEND_NODE, "s");
  send.add_ctrl_deps(6);
  AddAttr(send, "comm_dst")->set_int32_val(3);
  AddAttr(send, "comm_tag")->set_int32_val(9);
  AddAttr(send, "comm_size")->set_uint64_val(10);
  AppendMessage(send, file);

  const auto result = ImportBytes(file);
  ASSERT_TRUE(result.ok()) << result.status();
  const RankTrace& t = result->trace;
  ASSERT_EQ(t.size(), 3u);
  EXPECT_FALSE(t.info().has_times);
  EXPECT_TRUE(result->diagnostics.empty());
  EXPECT_EQ(t.kind(NodeIndex(0)), NodeKind::kKernel);
  EXPECT_FALSE(t.has_duration(NodeIndex(0)));
  ASSERT_NE(t.work(NodeIndex(0)), nullptr);
  EXPECT_EQ(t.work(NodeIndex(0))->flop.count(), 1000);
  EXPECT_EQ(t.work(NodeIndex(0))->bytes.count(), 64);
  EXPECT_EQ(Label(*result, 0), "compute");
  EXPECT_EQ(t.kind(NodeIndex(1)), NodeKind::kCollective);
  EXPECT_EQ(t.collective_op(NodeIndex(1)), CollectiveOp::kReduceScatter);
  EXPECT_EQ(Label(*result, 1), "communication, group 5");
  ASSERT_NE(t.comm(NodeIndex(1)), nullptr);
  EXPECT_EQ(t.comm(NodeIndex(1))->bytes_in.count(), 4096);
  // What comes out depends on the size of the group, which the file does not say.
  EXPECT_EQ(t.comm(NodeIndex(1))->bytes_out.count(), 0);
  EXPECT_EQ(result->strings->Get(t.comm(NodeIndex(1))->group), "5");
  EXPECT_EQ(t.kind(NodeIndex(2)), NodeKind::kSend);
  EXPECT_EQ(t.comm(NodeIndex(2))->peer, 3);
  EXPECT_EQ(t.comm(NodeIndex(2))->tag, 9);
  EXPECT_EQ(t.comm(NodeIndex(2))->bytes_in.count(), 10);
  ASSERT_EQ(t.dependencies(NodeIndex(1)).size(), 1u);
  EXPECT_EQ(t.dependencies(NodeIndex(1))[0].producer, NodeIndex(0));
  EXPECT_EQ(t.dependencies(NodeIndex(1))[0].kind, DependencyKind::kData);
}

TEST(ChakraImporter, ReadsValuesWhateverTheArm) {
  const auto set = [](AttributeProto* a, int arm) {
    switch (arm) {
      case 0:
        a->set_int32_val(77);
        break;
      case 1:
        a->set_int64_val(77);
        break;
      case 2:
        a->set_uint32_val(77);
        break;
      case 3:
        a->set_uint64_val(77);
        break;
      case 4:
        a->set_sint32_val(77);
        break;
      case 5:
        a->set_sint64_val(77);
        break;
      case 6:
        a->set_fixed32_val(77);
        break;
      case 7:
        a->set_fixed64_val(77);
        break;
      case 8:
        a->set_sfixed32_val(77);
        break;
      case 9:
        a->set_sfixed64_val(77);
        break;
      case 10:
        a->set_double_val(77);
        break;
      default:
        a->set_float_val(77);
        break;
    }
  };
  for (int arm = 0; arm < 12; ++arm) {
    std::string file = FileStart();
    Node node = MakeNode(0, COMM_COLL_NODE, "c");
    set(AddAttr(node, "comm_size"), arm);
    AddAttr(node, "comm_type")->set_uint32_val(0);
    AppendMessage(node, file);
    const auto result = ImportBytes(file);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->trace.comm(NodeIndex(0))->bytes_in.count(), 77) << "arm " << arm;
  }
}

TEST(ChakraImporter, RecordedNodesKeepThreadsStreamsAndIssuers) {
  std::string file = FileStart();
  const auto add = [&file](uint64_t id, bool cpu, int64_t lane, uint64_t start, uint64_t duration,
                           const std::string& name, std::vector<uint64_t> ctrl) {
    Node node = MakeNode(id, COMP_NODE, name);
    AddAttr(node, "is_cpu_op")->set_bool_val(cpu);
    AddAttr(node, cpu ? "tid" : "stream")->set_int64_val(lane);
    node.set_start_time_micros(start);
    node.set_duration_micros(duration);
    for (const uint64_t c : ctrl) node.add_ctrl_deps(c);
    AppendMessage(node, file);
  };
  constexpr uint64_t kEpoch = 1'700'000'000'000'000;
  add(12, false, 7, kEpoch + 8, 0, "Memcpy DtoH (Device -> Pinned)", {11});
  add(10, true, 1, kEpoch + 2, 9, "aten::to", {});
  add(11, true, 1, kEpoch + 4, 3, "cudaMemcpyAsync", {10});
  add(13, false, 7, kEpoch + 9, 5, "gemm", {10});
  const auto result = ImportBytes(file);
  ASSERT_TRUE(result.ok()) << result.status();
  const RankTrace& t = result->trace;
  EXPECT_TRUE(t.info().has_times);
  // Rows are in order of start; times are relative to the first node of the file.
  EXPECT_EQ(t.source_id(NodeIndex(0)), 10u);
  EXPECT_EQ(t.start(NodeIndex(0)), SimTime::FromNs(-6000));
  EXPECT_EQ(t.info().origin_ns, static_cast<int64_t>(kEpoch + 8) * 1000);
  EXPECT_EQ(t.kind(NodeIndex(1)), NodeKind::kRuntimeCall);
  EXPECT_EQ(t.runtime_call(NodeIndex(1)), RuntimeCall::kMemcpyAsync);
  EXPECT_EQ(t.parent(NodeIndex(1)), NodeIndex(0));
  EXPECT_EQ(t.kind(NodeIndex(2)), NodeKind::kMemcpy);
  EXPECT_EQ(t.launcher(NodeIndex(2)), NodeIndex(1));
  // Converters cut durations to whole microseconds: 0 is a duration here.
  EXPECT_EQ(t.duration(NodeIndex(2)), SimTime());
  EXPECT_EQ(t.parent(NodeIndex(3)), NodeIndex(0));
  EXPECT_TRUE(t.dependencies(NodeIndex(3)).empty());
}

TEST(ChakraImporter, CountsRepairs) {
  std::string file = FileStart();
  Node node = MakeNode(1, COMM_COLL_NODE, "allreduce");
  node.add_data_deps(1);
  node.add_data_deps(99);
  AddAttr(node, "made_up")->set_int64_val(1);
  AppendMessage(node, file);
  Node cpu = MakeNode(2, COMM_COLL_NODE, "c10d::allreduce_");
  AddAttr(cpu, "is_cpu_op")->set_bool_val(true);
  AppendMessage(cpu, file);
  Node dims = MakeNode(3, COMM_COLL_NODE, "a");
  AddAttr(dims, "comm_type")->set_int64_val(0);
  AddAttr(dims, "comm_size")->set_int64_val(1);
  BoolList* list = AddAttr(dims, "involved_dim")->mutable_bool_list();
  list->add_values(true);
  list->add_values(false);
  AppendMessage(dims, file);
  const auto result = ImportBytes(file);
  ASSERT_TRUE(result.ok()) << result.status();
  const Diagnostics& d = result->diagnostics;
  EXPECT_EQ(d.Count(Repair::kSelfDependency), 1);
  EXPECT_EQ(d.Count(Repair::kDanglingDependency), 1);
  EXPECT_EQ(d.Count(Repair::kMissingCommType), 2);
  EXPECT_EQ(d.Count(Repair::kMissingCommSize), 1);
  EXPECT_EQ(d.Count(Repair::kUnknownAttribute), 1);
  EXPECT_EQ(d.Count(Repair::kIgnoredInvolvedDim), 1);
  // The name says which collective it is.
  EXPECT_EQ(result->trace.collective_op(NodeIndex(0)), CollectiveOp::kAllReduce);
  EXPECT_EQ(result->trace.kind(NodeIndex(1)), NodeKind::kCpuOp);
}

TEST(ChakraImporter, ProcessGroupsFromMetadataNodes) {
  std::string file = FileStart();
  Node node = MakeNode(1, METADATA_NODE, "## process_group:init ##");
  node.mutable_inputs()->set_values(
      R"(['[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"ranks\": [0, 1]}, )"
      R"({\"pg_name\": 7, \"ranks\": [1]}]'])");
  AppendMessage(node, file);
  const auto result = ImportBytes(file);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->trace.process_groups().size(), 2u);
  EXPECT_EQ(result->trace.process_groups()[0].name, "0");
  EXPECT_EQ(result->trace.process_groups()[0].description, "default_pg");
  EXPECT_EQ(result->trace.process_groups()[0].ranks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(result->trace.process_groups()[1].name, "7");
}

void ExpectError(const std::string& file, const std::string& what) {
  const auto result = ImportBytes(file);
  ASSERT_FALSE(result.ok()) << "expected: " << what;
  const std::string message(result.status().message());
  EXPECT_THAT(message, HasSubstr(what));
  EXPECT_THAT(message, HasSubstr("t.0.et"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(ChakraImporter, RefusesBadNodes) {
  const auto with = [](auto change) {
    std::string file = FileStart();
    Node node = MakeNode(4, COMP_NODE, "n");
    change(node);
    AppendMessage(node, file);
    return file;
  };
  ExpectError(FileStart(), "holds no nodes");
  ExpectError("", "empty");
  ExpectError(with([](Node& n) { n.set_duration_micros(static_cast<uint64_t>(-5)); }),
              "node 4 (n): duration of -5 us");
  ExpectError(with([](Node& n) { n.set_start_time_micros(static_cast<uint64_t>(-5)); }),
              "node 4 (n): start of -5 us");
  ExpectError(with([](Node& n) { n.set_type(static_cast<NodeType>(12)); }), "unknown node type 12");
  ExpectError(with([](Node& n) { AddAttr(n, "num_ops")->set_double_val(std::nan("")); }),
              "node 4 (n): num_ops nan");
  ExpectError(with([](Node& n) {
                n.set_type(COMM_COLL_NODE);
                AddAttr(n, "comm_size")->set_double_val(1.5);
              }),
              "comm_size is not a whole number");
  ExpectError(with([](Node& n) {
                n.set_type(COMM_COLL_NODE);
                AddAttr(n, "comm_size")->set_int64_val(-1);
              }),
              "comm_size is -1");
  std::string twice = with([](Node&) {});
  AppendMessage(MakeNode(4, COMP_NODE, "again"), twice);
  ExpectError(twice, "node 4 (again): another node has the same id");
  std::string cycle = FileStart();
  for (const uint64_t id : {1u, 2u}) {
    Node node = MakeNode(id, COMP_NODE, "c" + std::to_string(id));
    node.add_data_deps(3 - id);
    AppendMessage(node, cycle);
  }
  ExpectError(cycle, "cyclic dependencies");
}

TEST(ChakraImporter, RefusesTextThatIsNotUtf8) {
  std::string file = FileStart();
  AppendMessage(MakeNode(1, COMP_NODE, "name"), file);
  file[file.find("name")] = '\xff';
  ExpectError(file, "a name in node 1 is not UTF-8");
}

TEST(ChakraImporter, LongNamesAndHostileSizes) {
  std::string file = FileStart();
  AppendMessage(MakeNode(1, COMP_NODE, std::string(10 << 20, 'n')), file);
  const auto result = ImportBytes(file);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->strings->Get(result->trace.name(NodeIndex(0))).size(), size_t{10} << 20);
  // A message that claims 2^63 bytes, and one that claims 512 MiB and has three bytes.
  ExpectError(FileStart() + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "more than the limit");
  ExpectError(FileStart() + std::string("\x80\x80\x80\x80\x02", 5) + "abc", "truncated");
  ExpectError(FileStart() + std::string(11, '\xff'), "length of a message is malformed");
}

// Every cut gives one line or, at a message's end, the nodes before it.
TEST(ChakraImporter, TruncatedAtEveryByte) {
  std::string file = FileStart();
  std::vector<size_t> ends = {0, file.size()};
  for (uint64_t id = 0; id < 3; ++id) {
    Node node = MakeNode(id, COMM_COLL_NODE, "node");
    AddAttr(node, "comm_type")->set_int64_val(0);
    AddAttr(node, "comm_size")->set_int64_val(300);
    AppendMessage(node, file);
    ends.push_back(file.size());
  }
  for (size_t size = 0; size < file.size(); ++size) {
    const auto result = ImportBytes(std::string_view(file).substr(0, size));
    const bool whole = std::find(ends.begin() + 2, ends.end(), size) != ends.end();
    EXPECT_EQ(result.ok(), whole) << size;
    if (!whole && size > 0 && size != ends[1]) {
      EXPECT_THAT(std::string(result.status().message()), HasSubstr("truncated")) << size;
      EXPECT_THAT(std::string(result.status().message()), HasSubstr("at byte")) << size;
    }
  }
}

TEST(ChakraImporter, BitFlipsNeverCrash) {
  std::string file = FileStart();
  for (uint64_t id = 0; id < 4; ++id) {
    Node node = MakeNode(id, id % 2 ? COMM_COLL_NODE : COMP_NODE, "node");
    node.add_data_deps(id + 1);
    AddAttr(node, "comm_type")->set_int64_val(0);
    AddAttr(node, "comm_size")->set_int64_val(300);
    AddAttr(node, "tid")->set_int64_val(1);
    node.set_duration_micros(5);
    node.set_start_time_micros(1000 + id);
    AppendMessage(node, file);
  }
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto result = ImportBytes(flipped);
    if (!result.ok()) {
      EXPECT_EQ(result.status().message().find('\n'), absl::string_view::npos);
      EXPECT_THAT(std::string(result.status().message()), HasSubstr("t.0.et"));
    }
  }
}

TEST(ChakraImporter, SniffsContent) {
  const auto importer = MakeChakraImporter();
  std::string file = FileStart();
  AppendMessage(MakeNode(1, COMP_NODE, "n"), file);
  EXPECT_TRUE(importer->Sniff(file, "whatever"));
  std::string empty_metadata(1, '\0');
  AppendMessage(MakeNode(1, COMP_NODE, "n"), empty_metadata);
  EXPECT_TRUE(importer->Sniff(empty_metadata, "whatever"));
  EXPECT_FALSE(importer->Sniff("{\"schemaVersion\": 1, \"traceEvents\": []}", "x"));
  EXPECT_FALSE(importer->Sniff("{\n  \"schema\": \"1.0.1\", \"nodes\": []}", "x"));
  EXPECT_FALSE(importer->Sniff("[[0, 1]]", "x"));
  EXPECT_FALSE(importer->Sniff("hello world, this is text", "x"));
  EXPECT_FALSE(importer->Sniff("", "x"));
}

TEST(ProcessGroupTable, ReadsAndRefuses) {
  const auto groups = ParseProcessGroupTable(R"({"1": [0, 1], "2": [2]})", "g.json");
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ((*groups)[0].name, "1");
  EXPECT_EQ((*groups)[0].ranks, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(LooksLikeProcessGroupTable("{\"1\": [0, 1]"));
  EXPECT_FALSE(LooksLikeProcessGroupTable("{\"traceEvents\": [{\"ph\""));
  EXPECT_FALSE(LooksLikeProcessGroupTable("{\"schema\": \"1\""));
  for (const char* bad :
       {R"({"1": [0, -1]})", R"({"1": 3})", "[1]", R"({"1": [0)", R"({"1": [4294967296]})"}) {
    const auto refused = ParseProcessGroupTable(bad, "g.json");
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("g.json"));
  }
}

}  // namespace
}  // namespace foretrace::chakra_wire
