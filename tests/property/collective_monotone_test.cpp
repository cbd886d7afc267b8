// More data never takes less time: every shipped platform, operation and tier that runs here.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>

#include "simulator/network/collective_table.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

std::vector<std::string> Platforms() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(FORETRACE_SOURCE_DIR) + "/topologies")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

constexpr CollectiveOp kOps[] = {
    CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
    CollectiveOp::kAllToAll,  CollectiveOp::kBroadcast, CollectiveOp::kReduce,
    CollectiveOp::kGather,    CollectiveOp::kScatter,   CollectiveOp::kSendRecv};

// Sizes at random and doublings, both on the first `ranks` ranks.
void Check(const Topology& topology, NetworkTier tier, CollectiveOp op, int32_t ranks,
           std::mt19937& random) {
  TransferSpec spec;
  spec.op = op;
  spec.members.resize(static_cast<size_t>(ranks));
  std::iota(spec.members.begin(), spec.members.end(), 0);
  std::vector<int64_t> sizes;
  const int first = static_cast<int>(random() % 21);
  for (int i = 0; i < 10; ++i) sizes.push_back(int64_t{1} << (first + i));
  for (int i = 0; i < 4; ++i) sizes.push_back(1 + static_cast<int64_t>(random() % (1u << 31)));
  std::sort(sizes.begin(), sizes.end());
  auto network = *MakeNetwork(tier, topology, {});
  double last = 0;
  for (int64_t size : sizes) {
    spec.bytes = Bytes(size);
    const auto estimate = network->IsolatedDuration(spec);
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    const double time = estimate->time.seconds();
    EXPECT_GE(time, last * (1 - 1e-9))
        << topology.spec().name << " " << Name(tier) << " " << Name(op) << " " << ranks
        << " ranks, " << size << " bytes";
    last = time;
  }
}

TEST(Collectives, TimeDoesNotFallWithSize) {
  for (const std::string& file : Platforms()) {
    const auto spec = LoadPlatform(file);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const Topology topology = *Topology::Create(*spec);
    std::mt19937 random(7);
    const auto limit = static_cast<uint32_t>(std::min(topology.rank_count(), 40));
    for (const CollectiveOp op : kOps) {
      const auto ranks = static_cast<int32_t>(2 + random() % (limit - 1));
      Check(topology, NetworkTier::kFitted, op, ranks, random);
      Check(topology, NetworkTier::kFluid, op, ranks, random);
    }
    // What people ask for first: an all-reduce of all ranks.
    const int32_t all = std::min(topology.rank_count(), 128);
    Check(topology, NetworkTier::kFitted, CollectiveOp::kAllReduce, all, random);
    Check(topology, NetworkTier::kFluid, CollectiveOp::kAllReduce, all, random);
    // Chains over several NICs meet on links where data first exceed one piece.
    for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce}) {
      Check(topology, NetworkTier::kFluid, op, all, random);
      Check(topology, NetworkTier::kFluid, op, std::min(all, 48), random);
    }
    if (topology.device_count() > 16) continue;
    Check(topology, NetworkTier::kSimgrid, CollectiveOp::kAllReduce, all, random);
  }
}

}  // namespace
}  // namespace foretrace
