// The public Chakra files; skipped where they are absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "simulator/importers/import.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

fs::path RealData() {
  if (const char* folder = std::getenv("FORETRACE_REALDATA")) return folder;
  return fs::path(FORETRACE_SOURCE_DIR).parent_path() / "shared" / "realdata";
}

#define REQUIRE_DATA(path)                                                              \
  if (!fs::exists(path)) GTEST_SKIP() << (path) << " is absent; scripts/fetch_public_data " \
                                                   "fetches it, FORETRACE_REALDATA names its folder"

TEST(ChakraRealData, Llama8Ranks) {
  const fs::path path = RealData() / "stg-llama" / "llama_8ranks.tar.xz";
  REQUIRE_DATA(path);
  const auto store = ImportTraces({path.string()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks().size(), 8u);
  EXPECT_EQ(store->node_count(), 1440u);
  EXPECT_TRUE(store->diagnostics().empty());
  // From the table beside the traces; groups 1 to 8 are used.
  EXPECT_EQ(store->process_groups().at("5").ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_FALSE(store->ranks()[0].info().has_times);
}

TEST(ChakraRealData, Llama64Ranks) {
  const fs::path path = RealData() / "stg-llama" / "llama_dp4_tp4_pp4_64ranks.tar.xz";
  REQUIRE_DATA(path);
  const auto store = ImportTraces({path.string()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->ranks().size(), 64u);
  EXPECT_EQ(store->node_count(), 333'952u);
  EXPECT_TRUE(store->diagnostics().empty());
  EXPECT_LE(store->memory_bytes() / store->node_count(), 96u);
}

TEST(ChakraRealData, FeederTrace) {
  const fs::path path = RealData() / "chakra-et" / "mlcommons-chakra" / "feeder_tests_trace.tar.gz";
  REQUIRE_DATA(path);
  const auto store = ImportTraces({path.string()}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.size(), 3664u);
  EXPECT_EQ(store->diagnostics().Count("self_dependency"), 383);
  EXPECT_EQ(store->diagnostics().Count("dangling_dependency"), 1277);
  // 21 collective nodes: 7 on the device, 14 on the CPU without comm_type.
  EXPECT_EQ(store->diagnostics().Count("missing_comm_type"), 14);
  std::map<NodeKind, int> kinds;
  for (uint32_t n = 0; n < rank.size(); ++n) ++kinds[rank.kind(NodeIndex(n))];
  EXPECT_EQ(kinds[NodeKind::kCollective], 7);
  EXPECT_EQ(kinds[NodeKind::kCpuOp], 2448);
  // --strict names the first of each kind.
  const auto strict = ImportTraces({path.string()}, {.strict = true});
  EXPECT_FALSE(strict.ok());
  EXPECT_NE(strict.status().message().find("self_dependency (383, first: "),
            absl::string_view::npos);
}

TEST(ChakraRealData, AstraSimExamples) {
  const fs::path path = RealData() / "chakra-et" / "astra-sim-examples-et.tar.xz";
  REQUIRE_DATA(path);
  // The archive holds 13 jobs; ranks of one are not ranks of another.
  const auto together = ImportTraces({path.string()}, {});
  EXPECT_FALSE(together.ok());
  EXPECT_NE(together.status().message().find("two traces for rank 0"), absl::string_view::npos)
      << together.status();
}

}  // namespace
}  // namespace foretrace
