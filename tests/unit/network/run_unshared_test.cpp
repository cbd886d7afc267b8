// Rings over the dimensions of a platform whose hops differ, added up rank by rank: the bits of the
// simulation of every flow.

#include "simulator/network/fluid/run_unshared.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "simulator/network/transfer_planner.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

constexpr char kLinks[] =
    "name: p\nlinks:\n"
    "  fast: {class: nvlink, bandwidth_GBps: 25, latency_us: 1, efficiency: 0.9, source: test}\n"
    "  slow: {class: pcie, bandwidth_GBps: 12, latency_us: 2, source: test}\n"
    "  net: {class: network, bandwidth_GBps: 10, latency_us: 3, efficiency: 0.7, source: test}\n";

Topology Make(const std::string& platform) {
  const auto spec = ParsePlatform(std::string(kLinks) + platform, "p");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *Topology::Create(*spec);
}

absl::StatusOr<TransferPlan> Plan(const Topology& topology, CollectiveOp op, int64_t bytes,
                                  NetworkOptions options) {
  TransferSpec spec;
  spec.op = op;
  spec.bytes = Bytes(bytes);
  spec.members.resize(static_cast<size_t>(topology.device_count()));
  std::iota(spec.members.begin(), spec.members.end(), 0);
  return TransferPlanner(topology, options).Plan(spec);
}

// Leaves of three and of four nodes of a tree, with room for all NICs or with a multiple of it;
// rails, whose leaves a ring leaves once each; rings over unlike dimensions.
const char* const kDrifting[] = {
    "node: {devices: 4, interconnect: {kind: switch, link: fast}, nics: {count: 4}}\nnodes: 10\n"
    "fabric: {kind: rail, link: net, levels: [{radix: 3}, {radix: 2}, {radix: 8}], cross_rail: "
    "relay}\n",
    "node: {devices: 2, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
    "{count: "
    "2}}\nnodes: 7\nfabric: {kind: fat_tree, link: net, levels: [{radix: 8}, {radix: 8}]}\n",
    "node: {devices: 2, interconnect: {kind: switch, link: fast}, nics: {count: 2}}\nnodes: 9\n"
    "fabric: {kind: rail, link: net, levels: [{radix: 4, oversubscription: 2}, {radix: 8}]}\n",
};

TEST(RunUnshared, HasTheBitsOfEveryFlow) {
  NetworkOptions options;
  options.algorithm = Algorithm::kHierarchical;
  for (const char* platform : kDrifting) {
    SCOPED_TRACE(platform);
    const Topology topology = Make(platform);
    for (const CollectiveOp op :
         {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
      for (const int64_t bytes : {1000, 1234567, 100000000}) {
        const auto plan = Plan(topology, op, bytes, options);
        ASSERT_TRUE(plan.ok()) << plan.status();
        const auto added = UnsharedDuration(topology, *plan, {});
        ASSERT_TRUE(added.ok() && added->has_value());
        EXPECT_EQ(**added, RunAlone(topology, *plan, false)->time) << bytes;
        EXPECT_EQ(**added, RunAlone(topology, *plan, true)->time) << bytes;
      }
    }
  }
}

// Where four NICs share the half of their rate, where a rank sends to several at a time, and where
// chunks of one rank are on its links together, messages slow one another.
TEST(RunUnshared, DeclinesWhatSharesLinks) {
  NetworkOptions options;
  options.algorithm = Algorithm::kHierarchical;
  const Topology narrow = Make(
      "node: {devices: 4, interconnect: {kind: switch, link: fast}, nics: {count: 4}}\nnodes: 6\n"
      "fabric: {kind: fat_tree, link: net, levels: [{radix: 4, oversubscription: 2}, {radix: "
      "8}]}\n");
  const auto shared = Plan(narrow, CollectiveOp::kAllReduce, 1 << 20, options);
  ASSERT_TRUE(shared.ok());
  EXPECT_FALSE((*UnsharedDuration(narrow, *shared, {})).has_value());
  const Topology rails = Make(kDrifting[0]);
  options.chunks = 3;
  const auto chunks = Plan(rails, CollectiveOp::kAllReduce, 1 << 20, options);
  ASSERT_TRUE(chunks.ok());
  EXPECT_FALSE((*UnsharedDuration(rails, *chunks, {})).has_value());
  options = {};
  options.algorithm = Algorithm::kDirect;
  const auto direct = Plan(rails, CollectiveOp::kAllReduce, 1 << 20, options);
  ASSERT_TRUE(direct.ok());
  EXPECT_FALSE((*UnsharedDuration(rails, *direct, {})).has_value());
}

TEST(RunUnshared, EndsWhenAsked) {
  NetworkOptions options;
  options.algorithm = Algorithm::kHierarchical;
  // 6,000 ranks in 6,000 steps: 36 million messages, which is progress twice.
  const Topology rails = Make(
      "node: {devices: 2, interconnect: {kind: switch, link: fast}, nics: {count: 2}}\nnodes: "
      "3000\n"
      "fabric: {kind: rail, link: net, levels: [{radix: 20}, {radix: 16}, {radix: 128}]}\n");
  const auto plan = Plan(rails, CollectiveOp::kAllReduce, 1 << 20, options);
  ASSERT_TRUE(plan.ok());
  int asked = 0;
  const auto run = UnsharedDuration(rails, *plan, [&](int64_t done, int64_t total) {
    EXPECT_LT(done, total);
    return ++asked < 2;
  });
  EXPECT_TRUE(absl::IsCancelled(run.status()));
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace foretrace
