// What other tools see in an exported file, and how files appear on disk.
#include "simulator/exporters/chakra/chakra_writer.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chakra.pb.h"
#include "simulator/trace/builder.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// One op with a launch, a kernel of 1.5 us, an all-reduce after it.
TraceStore MakeStore() {
  RankInfo info;
  info.rank = 3;
  info.world_size = 4;
  info.source = "test";
  RankTraceBuilder builder(info);
  const LaneIndex thread = builder.AddLane(Lane::Kind::kCpuThread, 11);
  const LaneIndex compute = builder.AddLane(Lane::Kind::kStream, 7);
  const LaneIndex comm = builder.AddLane(Lane::Kind::kStream, 20);
  const auto us = [](double t) { return SimTime::FromUs(t); };
  using Spec = RankTraceBuilder::NodeSpec;
  const NodeIndex op =
      builder.AddNode(Spec{NodeKind::kCpuOp, 0, "aten::mm", thread, us(1), us(10), 1});
  const NodeIndex launch =
      builder.AddNode(Spec{NodeKind::kRuntimeCall, static_cast<uint8_t>(RuntimeCall::kLaunchKernel),
                           "cudaLaunchKernel", thread, us(3), us(4), 2});
  const NodeIndex kernel =
      builder.AddNode(Spec{NodeKind::kKernel, 0, "gemm", compute, us(8), us(1.5), 3});
  const NodeIndex reduce =
      builder.AddNode(Spec{NodeKind::kCollective, static_cast<uint8_t>(CollectiveOp::kAllReduce),
                           "nccl", comm, us(12), us(30), 4});
  builder.SetParent(launch, op);
  builder.SetLauncher(kernel, launch);
  builder.SetWork(kernel, {Flop(2e9), Bytes(4096)});
  CommAttr attr;
  attr.group = builder.Intern("data_parallel");
  attr.bytes_in = Bytes(1024);
  attr.bytes_out = Bytes(1024);
  builder.SetComm(reduce, attr);
  builder.AddDependency(reduce, kernel, DependencyKind::kData);
  builder.AddProcessGroup({"data_parallel", "", {1, 3}});
  auto result = builder.Build({});
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(result->trace), std::move(result->strings));
  return *TraceStore::Assemble(std::move(ranks), Diagnostics());
}

using google::protobuf::util::ParseDelimitedFromZeroCopyStream;

std::vector<chakra_wire::Node> Parse(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  bool clean_end = false;
  chakra_wire::GlobalMetadata metadata;
  EXPECT_TRUE(ParseDelimitedFromZeroCopyStream(&metadata, &input, &clean_end));
  EXPECT_EQ(metadata.version(), "0.0.4");
  std::vector<chakra_wire::Node> nodes;
  chakra_wire::Node node;
  while (ParseDelimitedFromZeroCopyStream(&node, &input, &clean_end)) {
    nodes.push_back(node);
    node.Clear();
  }
  EXPECT_TRUE(clean_end);
  return nodes;
}

const chakra_wire::AttributeProto* Find(const chakra_wire::Node& node, const std::string& name) {
  for (const auto& attribute : node.attr()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

TEST(ChakraWriter, OtherToolsSeeV004) {
  const TraceStore store = MakeStore();
  const auto nodes = Parse(EncodeChakra(store, ViewCommunication(store), store.ranks()[0]));
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].type(), chakra_wire::COMP_NODE);
  EXPECT_TRUE(Find(nodes[0], "is_cpu_op")->bool_val());
  EXPECT_EQ(Find(nodes[0], "tid")->int64_val(), 11);
  // 10 us less the 4 us of the call nested in it.
  EXPECT_EQ(nodes[0].duration_micros(), 6u);
  EXPECT_EQ(nodes[1].ctrl_deps(0), 0u);
  // 1.5 us, rounded up; issued by the call.
  EXPECT_EQ(nodes[2].duration_micros(), 2u);
  ASSERT_EQ(nodes[2].ctrl_deps_size(), 1);
  EXPECT_EQ(nodes[2].ctrl_deps(0), 1u);
  EXPECT_EQ(Find(nodes[2], "num_ops")->int64_val(), 2'000'000'000);
  EXPECT_EQ(Find(nodes[2], "tensor_size")->uint64_val(), 4096u);
  EXPECT_EQ(nodes[3].type(), chakra_wire::COMM_COLL_NODE);
  EXPECT_EQ(Find(nodes[3], "comm_type")->int64_val(), chakra_wire::ALL_REDUCE);
  EXPECT_EQ(Find(nodes[3], "comm_size")->int64_val(), 1024);
  EXPECT_EQ(Find(nodes[3], "pg_name")->string_val(), "1");
  EXPECT_FALSE(Find(nodes[3], "is_cpu_op")->bool_val());
  ASSERT_EQ(nodes[3].data_deps_size(), 1);
  EXPECT_EQ(nodes[3].data_deps(0), 2u);
}

// Groups that a user gave to the job are in no rank's trace: the first rank's file declares them.
TEST(ChakraWriter, KeepsGroupsOfTheJob) {
  TraceStore store = MakeStore();
  ASSERT_TRUE(store.SetProcessGroups({{"tensor", "", {2, 3}}, {"data_parallel", "", {0, 3}}}).ok());
  const std::string bytes = EncodeChakra(store, ViewCommunication(store), store.ranks()[0]);
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  chakra_wire::GlobalMetadata metadata;
  ASSERT_TRUE(ParseDelimitedFromZeroCopyStream(&metadata, &input, nullptr));
  std::vector<std::string> groups;
  for (const auto& attribute : metadata.attr()) {
    if (attribute.name() == "foretrace.process_group") {
      groups.push_back(attribute.string_list().values(0));
    } else if (attribute.name() == "foretrace.group_ranks") {
      for (const int64_t rank : attribute.int64_list().values()) {
        groups.back() += " " + std::to_string(rank);
      }
    }
  }
  EXPECT_THAT(groups, ::testing::ElementsAre("data_parallel 0 3", "tensor 2 3"));
}

class ChakraWriterFiles : public ::testing::Test {
 protected:
  size_t Count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  const TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(ChakraWriterFiles, WritesOneFilePerRankAndTheGroups) {
  ASSERT_TRUE(WriteChakra(MakeStore(), folder_.string(), {.prefix = "p"}).ok());
  EXPECT_TRUE(fs::exists(folder_ / "p.3.et"));
  EXPECT_TRUE(fs::exists(folder_ / "p.groups.json"));
  EXPECT_EQ(Count(), 2u);
}

// A limit on the size of files stands in for a full disk: write fails in the same place.
TEST_F(ChakraWriterFiles, FullDiskLeavesNothing) {
  fs::create_directories(folder_);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = WriteChakra(MakeStore(), folder_.string(), {.prefix = "p"});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("p.3.et: cannot write the file"));
  EXPECT_EQ(Count(), 0u);
}

TEST_F(ChakraWriterFiles, FolderThatCannotBeMade) {
  const absl::Status status = WriteChakra(MakeStore(), "/proc/nowhere/x", {});
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("cannot make the folder"));
}

}  // namespace
}  // namespace foretrace
