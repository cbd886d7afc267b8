#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "simulator/importers/import.h"
#include "simulator/importers/io/input_file.h"
#include "tests/support/real_data.h"
#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

absl::StatusOr<TraceStore> ImportGraph(const std::string& nodes) {
  return ImportText(*MakeChakraJsonImporter(),
                    R"({"workload_name": "w", "workload_graph": [)" + nodes + "]}");
}

TEST(ChakraJson, ReadsNodesInEitherSpelling) {
  const auto store = ImportGraph(
      R"({"Id": 216, "Name": "op", "NodeType": 4, "ctrlDeps": [], "data_deps": [], "runtime": 318,
          "is_cpu_op": false},
         {"id": 217, "name": "reduce", "type": 7, "ctrl_deps": [], "dataDeps": [216],
          "duration_micros": 28, "is_cpu_op": false, "comm_type": 0, "comm_size": 4096})");
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  ASSERT_EQ(rank.size(), 2u);
  EXPECT_EQ(rank.kind(NodeIndex(0)), NodeKind::kKernel);
  EXPECT_EQ(rank.duration(NodeIndex(0)), SimTime::FromNs(318'000));
  EXPECT_EQ(rank.collective_op(NodeIndex(1)), CollectiveOp::kAllReduce);
  EXPECT_EQ(rank.comm(NodeIndex(1))->bytes_in, Bytes(4096));
  ASSERT_EQ(rank.dependencies(NodeIndex(1)).size(), 1u);
  EXPECT_EQ(rank.dependencies(NodeIndex(1))[0].producer, NodeIndex(0));
}

TEST(ChakraJson, OneClearLineForBadInput) {
  const auto error = [](const std::string& nodes) {
    return std::string(ImportGraph(nodes).status().message());
  };
  EXPECT_EQ(error(R"({"Name": "x", "NodeType": 4})"),
            "memory.json: node at byte 42: its id or type is missing or no number");
  EXPECT_EQ(error(R"({"Id": 1, "NodeType": 4, "data_deps": [-1]})"),
            "memory.json: node at byte 42: a dependency is no node id");
  EXPECT_EQ(error(R"({"Id": 1, "NodeType": 4, "runtime": -5})"),
            "memory.json: node at byte 42: its runtime is negative or no whole number");
}

TEST(ChakraJson, RealFileHasTheKnownCounts) {
  const std::string path = RealData("chakra-et/mlcommons-chakra/json_trace.tar.gz");
  FORETRACE_SKIP_WITHOUT(path);
  // Two documents, a graph and an excerpt of it, both named rank 0: each is imported by itself.
  EXPECT_THAT(std::string(ImportTraces({path}, {}).status().message()),
              ::testing::HasSubstr("two traces for rank 0"));
  const auto excerpt = ImportTraces({path + ":jsonData/small_chakra.0.json"}, {});
  ASSERT_TRUE(excerpt.ok()) << excerpt.status();
  EXPECT_EQ(excerpt->ranks()[0].size(), 7u);
  auto file = InputFile::Open(path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<std::string, uint64_t> nodes;
  while (true) {
    auto document = (*file)->NextDocument();
    ASSERT_TRUE(document.ok()) << document.status();
    if (*document == nullptr) break;
    const std::string name((*document)->name());
    auto imported = MakeChakraJsonImporter()->Import(**document, name, {});
    ASSERT_TRUE(imported.ok()) << imported.status();
    nodes[std::string(BaseName(name))] = imported->builder->size();
  }
  EXPECT_EQ(nodes,
            (std::map<std::string, uint64_t>{{"chakra.0.json", 3664}, {"small_chakra.0.json", 7}}));
}

}  // namespace
}  // namespace foretrace
