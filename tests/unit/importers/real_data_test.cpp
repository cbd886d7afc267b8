// Public traces (traces/README.md): what is known of them, counted independently of the importers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>

#include "simulator/importers/import.h"
#include "tests/support/real_data.h"
#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;

struct Counts {
  int64_t nodes = 0, cpu_ops = 0, annotations = 0, calls = 0, kernels = 0, collectives = 0,
          memcpys = 0, memsets = 0;
  int64_t iterations = 0;
  bool operator==(const Counts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << "{" << c.nodes << ", " << c.cpu_ops << ", " << c.annotations << ", " << c.calls
             << ", " << c.kernels << ", " << c.collectives << ", " << c.memcpys << ", " << c.memsets
             << ", " << c.iterations << "}";
}

Counts Count(const RankTrace& rank) {
  std::array<int64_t, static_cast<size_t>(NodeKind::kCount)> kinds{};
  for (uint32_t n = 0; n < rank.size(); ++n) {
    ++kinds[static_cast<size_t>(rank.kind(NodeIndex(n)))];
  }
  const auto of = [&kinds](NodeKind kind) { return kinds[static_cast<size_t>(kind)]; };
  return {rank.size(),
          of(NodeKind::kCpuOp),
          of(NodeKind::kAnnotation),
          of(NodeKind::kRuntimeCall),
          of(NodeKind::kKernel),
          of(NodeKind::kCollective),
          of(NodeKind::kMemcpy),
          of(NodeKind::kMemset),
          static_cast<int64_t>(rank.iterations().size())};
}

struct Profile {
  const char* file;
  int rank;
  Counts counts;
  int64_t missing_launches;
};

class RealProfile : public ::testing::TestWithParam<Profile> {};

TEST_P(RealProfile, HasTheKnownCounts) {
  const std::string path = RealData(GetParam().file);
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_EQ(store->ranks().size(), 1u);
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.info().rank, GetParam().rank);
  EXPECT_EQ(Count(rank), GetParam().counts);
  EXPECT_EQ(store->diagnostics().Count(Repair::kMissingLaunch), GetParam().missing_launches);
  // A launch belongs to a launching call, and device work never precedes it.
  for (uint32_t n = 0; n < rank.size(); ++n) {
    const NodeIndex node(n);
    if (!IsDeviceKind(rank.kind(node)) || !rank.launcher(node).valid()) continue;
    EXPECT_NE(rank.runtime_call(rank.launcher(node)), RuntimeCall::kOther);
  }
}

// Counted with `python3 -c` over the JSON: events of phase X by category, step marks by name.
constexpr Profile kProfiles[] = {
    {"hta-traces/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
     0,
     {110, 70, 3, 21, 14, 0, 2, 0, 2},
     0},
    {"hta-traces/df_index_resolver/df_index_resolver.json.gz",
     1,
     {123378, 56680, 2035, 42373, 17350, 2020, 2040, 880, 5},
     0},
    {"hta-traces/execution_trace/benchmark_simple_add_trace.json.gz",
     0,
     {55, 28, 8, 15, 4, 0, 0, 0, 0},
     0},
    {"hta-traces/nccl_parser_config/nccl_data.json.gz",
     0,
     {26902, 14346, 42, 8740, 2679, 21, 960, 114, 3},
     0},
    {"hta-traces/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
     0,
     {45404, 23910, 70, 15329, 4350, 0, 1600, 145, 5},
     0},
    {"hta-traces/trace_diff/control/control.json.gz",
     3,
     {74936, 40506, 288, 24692, 8508, 60, 228, 654, 6},
     0},
    {"hta-traces/trace_filter/sampled_rank-0.json.gz",
     0,
     {4810, 2329, 73, 1204, 1144, 10, 40, 10, 2},
     0},
    {"hta-traces/trace_filter/sampled_rank-1.json.gz",
     1,
     {4675, 2302, 65, 1154, 1094, 10, 40, 10, 2},
     0},
    {"hta-traces/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
     0,
     {826, 359, 8, 361, 79, 0, 16, 3, 0},
     0},
    {"hta-traces/critical_path/cuda_event_sync/event_sync_trace.json.gz",
     0,
     {28, 10, 1, 12, 4, 0, 1, 0, 1},
     0},
    {"hta-traces/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
     0,
     {51, 6, 0, 39, 3, 0, 0, 3, 0},
     0},
    // The step marks of PyTorch 1.8 are operators: 23,646 operators, 6 of them marks.
    {"kineto-tb_plugin/resnet50_num_workers_0.worker0.1623143089861.pt.trace.json.gz",
     0,
     {44665, 23640, 6, 11923, 8772, 0, 12, 312, 6},
     0},
    {"param-et_replay/linear_kineto.json.gz", 0, {61949, 36998, 80, 14515, 8716, 0, 0, 1640, 0}, 0},
    {"param-et_replay/resnet_kineto.json.gz",
     0,
     {75547, 39416, 90, 25928, 9628, 0, 123, 362, 0},
     0},
};
INSTANTIATE_TEST_SUITE_P(All, RealProfile, ::testing::ValuesIn(kProfiles));

struct GraphFile {
  const char* file;
  const char* schema;
  int64_t nodes;
};

class RealGraph : public ::testing::TestWithParam<GraphFile> {};

TEST_P(RealGraph, HasTheKnownCounts) {
  const std::string path = RealData(GetParam().file);
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.size(), GetParam().nodes);
  EXPECT_EQ(rank.info().producer, std::string("pytorch_et ") + GetParam().schema);
  EXPECT_TRUE(store->diagnostics().empty());
}

constexpr GraphFile kGraphs[] = {
    {"param-et_replay/resnet_et.json.gz", "1.1.0-chakra.0.0.4", 14392},
    {"param-et_replay/1.0.3-chakra.0.0.4/resnet_1gpu_et.json.gz", "1.0.3-chakra.0.0.4", 14391},
    {"param-et_replay/1.1.0-chakra.0.0.4/resnet_2gpu_et.json.gz", "1.1.0-chakra.0.0.4", 14392},
    {"param-et_replay/linear_et.json.gz", "1.0.1", 931},
    {"param-et_replay/hf_GPT2_et.json.tar.gz", "1.1.0-chakra.0.0.4", 27156},
    {"chakra-et/astra-sim-tutorials/micro2024_demo4/host_0.json.gz", "1.0.2-chakra.0.0.4", 4801},
    {"chakra-et/astra-sim-tutorials/micro2024_demo4/host_1.json.gz", "1.0.2-chakra.0.0.4", 4797},
    {"hta-traces/execution_trace/benchmark_simple_add_et.json.gz", "1.0.1", 38},
    {"chakra-et/mlcommons-chakra/1.0.2-chakra.0.0.4.tgz", "1.0.2-chakra.0.0.4", 263},
};
INSTANTIATE_TEST_SUITE_P(All, RealGraph, ::testing::ValuesIn(kGraphs));

TEST(RealCommunication, ControlTraceHasOperationsSizesAndTypes) {
  const std::string path = RealData("hta-traces/trace_diff/control/control.json.gz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  const RankTrace& rank = store->ranks()[0];
  std::map<CollectiveOp, int> operations;
  for (uint32_t n = 0; n < rank.size(); ++n) {
    const NodeIndex node(n);
    if (rank.kind(node) != NodeKind::kCollective) continue;
    ++operations[rank.collective_op(node)];
    const CommAttr* comm = rank.comm(node);
    ASSERT_NE(comm, nullptr);
    EXPECT_GT(comm->bytes_in.count(), 0);
    EXPECT_GT(comm->bytes_out.count(), 0);
    EXPECT_NE(comm->dtype, DType::kUnknown);
  }
  // 42 nccl:all_to_all and 18 nccl:all_reduce ranges.
  EXPECT_EQ(operations, (std::map<CollectiveOp, int>{{CollectiveOp::kAllReduce, 18},
                                                     {CollectiveOp::kAllToAll, 42}}));
}

TEST(RealCommunication, NcclArgumentsGiveTheGroup) {
  const std::string path = RealData("hta-traces/nccl_parser_config/nccl_data.json.gz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto store = ImportTraces({path}, {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_THAT(store->process_groups().named("0").front().ranks, ElementsAre(0, 1));
  const RankTrace& rank = store->ranks()[0];
  int64_t reduced = 0;
  for (uint32_t n = 0; n < rank.size(); ++n) {
    const NodeIndex node(n);
    if (rank.kind(node) != NodeKind::kCollective) continue;
    const CommAttr& comm = *rank.comm(node);
    EXPECT_EQ(store->strings().Get(comm.group), "0");
    EXPECT_EQ(comm.group_size, 2);
    if (rank.collective_op(node) == CollectiveOp::kAllReduce) reduced += comm.bytes_in.count();
  }
  // ResNet-50's 25,557,032 parameters of 4 bytes, once in each of 3 steps.
  EXPECT_EQ(reduced, 3 * 4 * int64_t{25'557'032});
}

// The 8-rank DLRM set: execution traces and profiles of one run.
class Dlrm : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string profiles = RealData("param-et_replay/dlrm_kineto.tar.gz");
    const std::string graphs = RealData("param-et_replay/dlrm_pytorch_et.tar.gz");
    FORETRACE_SKIP_WITHOUT(profiles);
    FORETRACE_SKIP_WITHOUT(graphs);
    auto store = ImportTraces({graphs, profiles}, {});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::make_unique<TraceStore>(*std::move(store));
  }
  std::unique_ptr<TraceStore> store_;
};

TEST_F(Dlrm, LinksEveryOperatorOfEveryRank) {
  ASSERT_EQ(store_->ranks().size(), 8u);
  EXPECT_EQ(store_->world_size(), 8);
  EXPECT_EQ(store_->diagnostics().Count(Repair::kUnlinkedOperator), 0);
  for (const RankTrace& rank : store_->ranks()) {
    const Counts counts = Count(rank);
    EXPECT_EQ(counts.collectives, 8);
    EXPECT_EQ(counts.iterations, 1);
    // 1,675 nodes less a process, two thread roots and no step mark; all in the profile.
    EXPECT_EQ(rank.info().producer, "pytorch_et 1.0.1 + kineto (1672 of 1672 operators linked)");
  }
  EXPECT_EQ(Count(store_->ranks()[0]).kernels + 8, 245);
}

// What reads the output of a collective: names of the consumers, over data dependencies.
std::set<std::string> Consumers(const TraceStore& store, const RankTrace& rank, NodeIndex op,
                                DependencyKind kind) {
  std::set<std::string> names;
  for (uint32_t n = 0; n < rank.size(); ++n) {
    for (const Dependency& d : rank.dependencies(NodeIndex(n))) {
      if (d.producer == op && d.kind == kind) names.emplace(store.name(rank, NodeIndex(n)));
    }
  }
  return names;
}

TEST_F(Dlrm, CollectivesHaveConsumersSizesAndWaits) {
  const RankTrace& rank = store_->ranks()[0];
  // The declared sequence numbers of rank 0, in order of issue.
  std::map<int64_t, Bytes> sent;
  for (uint32_t n = 0; n < rank.size(); ++n) {
    const NodeIndex node(n);
    if (rank.kind(node) != NodeKind::kCollective) continue;
    sent[rank.comm(node)->sequence] = rank.comm(node)->bytes_in;
  }
  EXPECT_EQ(sent, (std::map<int64_t, Bytes>{{147, Bytes(24576)},
                                            {148, Bytes(192)},
                                            {149, Bytes(1536)},
                                            {150, Bytes(13568)},
                                            {151, Bytes(1576964)},
                                            {152, Bytes(24576)},
                                            {153, Bytes(448)},
                                            {154, Bytes(907840)}}));
  int waits = 0;
  int collectives = 0;
  int consumed = 0;
  for (uint32_t n = 0; n < rank.size(); ++n) {
    const NodeIndex node(n);
    if (!store_->name(rank, node).starts_with("c10d::")) continue;
    ++collectives;
    consumed += !Consumers(*store_, rank, node, DependencyKind::kData).empty();
    waits += static_cast<int>(Consumers(*store_, rank, node, DependencyKind::kSync).size());
  }
  EXPECT_EQ(collectives, 8);
  // All but 149 and 150, which fetch the indices of the next step.
  EXPECT_EQ(consumed, 6);
  // Waits on 147, 148 and 152; those of the all-reduces are inside the reducer.
  EXPECT_EQ(waits, 3);
}

TEST_F(Dlrm, TheBackwardAllToAllFeedsTheDivisionAfterItsWait) {
  const RankTrace& rank = store_->ranks()[0];
  // The last c10d::alltoall_base_ is the backward one.
  NodeIndex exchange;
  for (int i = 0; i < 5; ++i) exchange = FindNode(*store_, rank, "c10d::alltoall_base_", i);
  ASSERT_TRUE(exchange.valid());
  EXPECT_THAT(Consumers(*store_, rank, exchange, DependencyKind::kData),
              ElementsAre("aten::div_", "aten::view"));
  EXPECT_THAT(Consumers(*store_, rank, exchange, DependencyKind::kSync),
              ElementsAre("record_param_comms"));
}

}  // namespace
}  // namespace foretrace
