// Whatever a store holds, import(export(store)) holds the same, column for column.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/exporters/chakra/chakra_writer.h"
#include "simulator/importers/importer.h"
#include "tests/support/store_equality.h"

namespace foretrace {
namespace {

using rc::gen::arbitrary;
using rc::gen::inRange;

int64_t Draw(int64_t begin, int64_t end) { return *inRange<int64_t>(begin, end); }

// Importers let only UTF-8 into a store; some of it here.
std::string DrawText() {
  const char* pieces[] = {"a", "aten::mm", "\xc3\xa9", "\xe2\x82\xac", " ", "\"", "\n", "\x01"};
  std::string text;
  for (int64_t i = Draw(0, 4); i > 0; --i) text += pieces[Draw(0, std::size(pieces))];
  return text;
}

void AddAttributes(RankTraceBuilder& builder, NodeIndex n, NodeKind kind) {
  if (IsCommunicationKind(kind) && Draw(0, 4) > 0) {
    CommAttr comm;
    const char* groups[] = {"0", "3", "default_pg", "undeclared", ""};
    if (Draw(0, 4) > 0) comm.group = builder.Intern(groups[Draw(0, 5)]);
    comm.bytes_in = Bytes(Draw(0, 1 << 30));
    comm.bytes_out = Bytes(Draw(0, int64_t{1} << 40));
    comm.peer = static_cast<int32_t>(Draw(-1, 8));
    comm.tag = *arbitrary<int32_t>();
    comm.dtype = static_cast<DType>(Draw(0, static_cast<int64_t>(DType::kCount)));
    comm.group_size = static_cast<int32_t>(Draw(0, 8));
    comm.sequence = Draw(-1, 100);
    const auto splits = *rc::gen::container<std::vector<int64_t>>(inRange<int64_t>(0, 1 << 20));
    builder.SetComm(n, comm, splits, Draw(0, 2) ? splits : std::vector<int64_t>());
  }
  if (kind == NodeKind::kRuntimeCall && Draw(0, 2)) {
    SyncAttr sync;
    sync.event = Draw(-1, 50);
    const auto lanes = static_cast<int64_t>(builder.lanes().size());
    if (Draw(0, 2)) sync.stream = LaneIndex(static_cast<uint32_t>(Draw(0, lanes)));
    if (Draw(0, 2)) sync.waits_for_stream = LaneIndex(static_cast<uint32_t>(Draw(0, lanes)));
    sync.waits_for_correlation = Draw(-1, 1000);
    builder.SetSync(n, sync);
  }
  if (Draw(0, 3) == 0) {
    const auto whole = static_cast<double>(Draw(0, 1 << 30));
    const double flop = whole * (Draw(0, 2) ? 0.1 : 1) * (Draw(0, 2) ? 1e12 : 1);
    builder.SetWork(n, {Flop(flop), Bytes(Draw(0, 1 << 30))});
  }
  if (Draw(0, 3) == 0) builder.SetWaves(n, static_cast<uint32_t>(Draw(1, 3000)));
  if (Draw(0, 3) == 0) {
    const auto size = [] { return static_cast<uint32_t>(Draw(1, 3000)); };
    builder.SetLaunch(n, {{size(), size(), size()}, {size(), size(), size()}});
  }
  for (int64_t i = Draw(0, 3); i > 0; --i) {
    Tensor tensor;
    tensor.id = *arbitrary<int64_t>();
    tensor.storage = *arbitrary<int64_t>();
    tensor.dtype = static_cast<DType>(Draw(0, static_cast<int64_t>(DType::kCount)));
    tensor.is_output = Draw(0, 2) != 0;
    builder.AddTensor(n, tensor, *arbitrary<std::vector<int64_t>>());
  }
}

uint8_t DrawDetail(NodeKind kind) {
  switch (kind) {
    case NodeKind::kRuntimeCall:
      return static_cast<uint8_t>(Draw(0, static_cast<int64_t>(RuntimeCall::kCount)));
    case NodeKind::kMemcpy:
      return static_cast<uint8_t>(Draw(0, static_cast<int64_t>(MemcpyKind::kCount)));
    case NodeKind::kCollective:
      return static_cast<uint8_t>(Draw(0, static_cast<int64_t>(CollectiveOp::kCount)));
    default:
      return 0;
  }
}

RankTraceBuilder::Result DrawRank(int32_t rank, int32_t ranks) {
  RankInfo info;
  info.rank = rank;
  info.world_size = ranks;
  info.source = "drawn";
  info.producer = DrawText();
  info.device_name = Draw(0, 2) ? "Tesla V100" : "";
  info.has_times = Draw(0, 4) > 0;
  info.synthetic = Draw(0, 2) != 0;
  info.origin_ns = info.has_times ? Draw(0, 1'000'000) : 0;
  RankTraceBuilder builder(info);
  std::vector<LaneIndex> threads;
  std::vector<LaneIndex> streams;
  for (int64_t i = Draw(1, 4); i > 0; --i) {
    threads.push_back(builder.AddLane(Lane::Kind::kCpuThread, *arbitrary<int64_t>()));
  }
  for (int64_t i = Draw(1, 4); i > 0; --i) {
    const auto device = static_cast<int32_t>(Draw(0, 3));
    streams.push_back(builder.AddLane(Lane::Kind::kStream, Draw(0, 30), device));
  }
  builder.AddProcessGroup({"0", "all", {}});
  std::vector<int32_t> all;
  for (int32_t r = 0; r < ranks; ++r) all.push_back(r);
  builder.AddProcessGroup({"default_pg", "", all});
  std::vector<NodeIndex> cpu_nodes;
  const auto nodes = static_cast<uint32_t>(Draw(1, 20));
  for (uint32_t i = 0; i < nodes; ++i) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = static_cast<NodeKind>(Draw(0, static_cast<int64_t>(NodeKind::kCount)));
    spec.detail = DrawDetail(spec.kind);
    const auto& lanes = IsDeviceKind(spec.kind) ? streams : threads;
    const std::string name = DrawText();
    spec.name = name;
    spec.lane = lanes[static_cast<size_t>(Draw(0, static_cast<int64_t>(lanes.size())))];
    if (info.has_times) spec.start = SimTime::FromPs(Draw(-1'000'000, 1'000'000'000));
    if (Draw(0, 4)) spec.duration = SimTime::FromPs(Draw(0, 100'000'000));
    spec.source_id = *arbitrary<uint64_t>();
    const NodeIndex n = builder.AddNode(spec);
    const auto draw_issuer = [&cpu_nodes] {
      return cpu_nodes[static_cast<size_t>(Draw(0, static_cast<int64_t>(cpu_nodes.size())))];
    };
    if (!cpu_nodes.empty() && Draw(0, 2)) builder.SetParent(n, draw_issuer());
    if (!cpu_nodes.empty() && Draw(0, 2)) builder.SetLauncher(n, draw_issuer());
    if (!IsDeviceKind(spec.kind)) cpu_nodes.push_back(n);
    for (int64_t d = i > 0 ? Draw(0, 4) : 0; d > 0; --d) {
      builder.AddDependency(n, NodeIndex(static_cast<uint32_t>(Draw(0, i))),
                            static_cast<DependencyKind>(Draw(0, 3)));
    }
    if (spec.kind == NodeKind::kAnnotation && Draw(0, 2)) builder.AddIteration(Draw(0, 9), n);
    AddAttributes(builder, n, spec.kind);
  }
  auto result = builder.Build({.sort_by_start = info.has_times, .infer_nesting = false});
  RC_ASSERT(result.ok());
  return *std::move(result);
}

TraceStore Assemble(std::vector<RankTraceBuilder::Result> results) {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (auto& r : results) ranks.emplace_back(std::move(r.trace), std::move(r.strings));
  auto store = TraceStore::Assemble(std::move(ranks), Diagnostics());
  RC_ASSERT(store.ok());
  return *std::move(store);
}

// Groups that are inferred from the streams of the ranks are in the files, but are no node's own:
// as random stores hardly ever have them, one that has.
TEST(ChakraRoundTrip, InferredGroupsAreNoNodesOwn) {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (const int32_t rank : {0, 1}) {
    RankInfo info;
    info.rank = rank;
    info.world_size = 3;
    info.source = "test";
    RankTraceBuilder builder(info);
    const LaneIndex stream = builder.AddLane(Lane::Kind::kStream, 7);
    const NodeIndex node = builder.AddNode(
        {NodeKind::kCollective, static_cast<uint8_t>(CollectiveOp::kAllReduce), "nccl", stream});
    CommAttr comm;
    comm.bytes_in = comm.bytes_out = Bytes(1024);
    builder.SetComm(node, comm);
    auto result = builder.Build({});
    ASSERT_TRUE(result.ok()) << result.status();
    ranks.emplace_back(std::move(result->trace), std::move(result->strings));
  }
  const auto store = TraceStore::Assemble(std::move(ranks), Diagnostics());
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& first = store->ranks()[0];
  const std::string bytes = EncodeChakra(*store, ViewCommunication(*store), first);
  ASSERT_NE(bytes.find("foretrace.inferred"), std::string::npos);
  auto input = MakeMemorySource("t.et", bytes);
  auto file = MakeChakraImporter()->Import(*input, "t.et", ImportOptions());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto copy = file->builder->Build(file->build_options);
  ASSERT_TRUE(copy.ok()) << copy.status();
  const CommAttr* comm = copy->trace.comm(NodeIndex(0));
  ASSERT_NE(comm, nullptr);
  EXPECT_FALSE(comm->group.valid());
  EXPECT_TRUE(copy->diagnostics.empty());
}

TEST(ChakraRoundTrip, RandomStores) {
  const bool ok = rc::check([] {
    const auto ranks = static_cast<int32_t>(Draw(1, 4));
    std::vector<RankTraceBuilder::Result> drawn;
    for (int32_t r = 0; r < ranks; ++r) drawn.push_back(DrawRank(r, ranks));
    const TraceStore store = Assemble(std::move(drawn));
    std::vector<RankTraceBuilder::Result> again;
    const CommView view = ViewCommunication(store);
    for (const RankTrace& rank : store.ranks()) {
      const std::string bytes = EncodeChakra(store, view, rank);
      auto input = MakeMemorySource("t.et", bytes);
      auto file = MakeChakraImporter()->Import(*input, "t.et", ImportOptions());
      if (!file.ok()) RC_FAIL(std::string(file.status().message()));
      auto result = file->builder->Build(file->build_options);
      if (!result.ok()) RC_FAIL(std::string(result.status().message()));
      RC_ASSERT(result->diagnostics.empty());
      again.push_back(*std::move(result));
    }
    const TraceStore copy = Assemble(std::move(again));
    RC_ASSERT(FirstDifference(store, copy) == "");
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace foretrace
