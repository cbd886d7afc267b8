// The public Chakra files; skipped where they are absent.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "simulator/importers/import.h"
#include "simulator/importers/io/input_file.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

TEST(ChakraRealData, Llama8Ranks) {
  const std::string path = RealData("stg-llama/llama_8ranks.tar.xz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks().size(), 8u);
  EXPECT_EQ(store->node_count(), 1440u);
  EXPECT_TRUE(store->diagnostics().empty());
  // From the table beside the traces; groups 1 to 8 are used.
  EXPECT_EQ(store->process_groups().named("5").front().ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_FALSE(store->ranks()[0].info().has_times);
}

TEST(ChakraRealData, Llama64Ranks) {
  const std::string path = RealData("stg-llama/llama_dp4_tp4_pp4_64ranks.tar.xz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks().size(), 64u);
  EXPECT_EQ(store->node_count(), 333'952u);
  EXPECT_TRUE(store->diagnostics().empty());
  EXPECT_LE(store->memory_bytes() / store->node_count(), 96u);
}

TEST(ChakraRealData, FeederTrace) {
  const std::string path = RealData("chakra-et/mlcommons-chakra/feeder_tests_trace.tar.gz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.size(), 3664u);
  EXPECT_EQ(store->diagnostics().Count(Repair::kSelfDependency), 383);
  EXPECT_EQ(store->diagnostics().Count(Repair::kDanglingDependency), 1277);
  // 21 collective nodes: 7 on the device, 14 on the CPU without comm_type.
  EXPECT_EQ(store->diagnostics().Count(Repair::kMissingCommType), 14);
  std::map<NodeKind, int> kinds;
  for (uint32_t n = 0; n < rank.size(); ++n) ++kinds[rank.kind(NodeIndex(n))];
  EXPECT_EQ(kinds[NodeKind::kCollective], 7);
  EXPECT_EQ(kinds[NodeKind::kCpuOp], 2448);
  // --strict names the first of each kind.
  const auto strict = ImportTraces({path}, {.strict = true});
  EXPECT_FALSE(strict.ok());
  EXPECT_NE(strict.status().message().find("self_dependency (383, first: "),
            absl::string_view::npos);
}

TEST(ChakraRealData, OneJobOfATarOfJobs) {
  const std::string path = RealData("chakra-et/astra-sim-examples-et.tar.xz");
  FORETRACE_SKIP_WITHOUT(path);
  const std::string job = path + ":astra-sim/workload/microbenchmarks/all_to_all/4npus_1MB";
  const std::string error(ImportTraces({path}, {}).status().message());
  EXPECT_NE(error.find("two traces for rank 2: "), std::string::npos) << error;
  EXPECT_NE(error.find("give one job at a time, such as " + path + ":astra-sim/"),
            std::string::npos)
      << error;
  const auto store = ImportTraces({job}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks().size(), 4u);
}

TEST(ChakraRealData, AstraSimExamples) {
  const std::string path = RealData("chakra-et/astra-sim-examples-et.tar.xz");
  FORETRACE_SKIP_WITHOUT(path);
  // The archive holds 13 jobs of 1 to 16 ranks: each file is a rank of its own.
  auto archive = InputFile::Open(path, {});
  ASSERT_TRUE(archive.ok()) << archive.status();
  std::map<NodeKind, int> kinds;
  int files = 0;
  while (true) {
    const auto document = (*archive)->NextDocument();
    ASSERT_TRUE(document.ok()) << document.status();
    if (*document == nullptr) break;
    auto file = MakeChakraImporter()->Import(**document, (*document)->name(), ImportOptions());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto result = file->builder->Build(file->build_options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->diagnostics.empty()) << (*document)->name();
    for (uint32_t n = 0; n < result->trace.size(); ++n) ++kinds[result->trace.kind(NodeIndex(n))];
    ++files;
  }
  // Four collectives on 4, 8 and 16 ranks, and a ring of 8 ranks with 14 sends and receives each.
  EXPECT_EQ(files, 4 * (4 + 8 + 16) + 8);
  EXPECT_EQ(kinds[NodeKind::kCollective], 4 * (4 + 8 + 16));
  EXPECT_EQ(kinds[NodeKind::kSend], 8 * 14);
  EXPECT_EQ(kinds[NodeKind::kRecv], 8 * 14);
}

}  // namespace
}  // namespace foretrace
