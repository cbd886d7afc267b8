// The fluid solver against SimGrid, an independent implementation of the same model: per flow and
// per collective, on random flow sets and on every kind of topology.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "simulator/network/fluid/fluid_backend.h"
#include "simulator/network/fluid/fluid_network.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/network/simgrid/simgrid_network.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

constexpr char kLinks[] =
    "name: p\nlinks:\n"
    "  fast: {class: nvlink, bandwidth_GBps: 25, latency_us: 1, efficiency: 0.9, source: test}\n"
    "  slow: {class: pcie, bandwidth_GBps: 12, latency_us: 2, source: test}\n"
    "  net: {class: network, bandwidth_GBps: 10, latency_us: 3, source: test}\n";

const char* const kPlatforms[] = {
    "node: {devices: 8, interconnect: {kind: switch, link: fast, links_per_device: 3}}\n",
    "node: {devices: 4, interconnect: {kind: mesh, link: fast, edges: [[0,1,2],[1,2,1],[2,3,2]]}, "
    "pcie: {link: slow, devices_per_switch: 2}}\n",
    "node: {devices: 6, interconnect: {kind: pcie_tree}, pcie: {link: slow, devices_per_switch: "
    "2}}\n",
    "node: {devices: 4, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
    "{count: "
    "2}}\nnodes: 6\nfabric: {kind: fat_tree, link: net, levels: [{radix: 4, oversubscription: 2}, "
    "{radix: 4}]}\n",
    "node: {devices: 4, interconnect: {kind: switch, link: fast}, pcie: {link: slow}, nics: "
    "{count: "
    "4}}\nnodes: 4\nfabric: {kind: rail, link: net, levels: [{radix: 2}, {radix: 8}]}\n",
    "node: {devices: 1}\nnodes: 24\nfabric: {kind: dimensions, dimensions: [{kind: ring, size: 4, "
    "link: net}, {kind: fully_connected, size: 3, link: fast}, {kind: switch, size: 2, link: "
    "slow}]}\n",
    "node: {devices: 1}\nnodes: 18\nfabric: {kind: dragonfly, link: net, terminals_per_router: 2, "
    "routers_per_group: 3, local_link: fast, global_link: slow}\n",
};

Topology Make(size_t index) {
  const auto spec = ParsePlatform(std::string(kLinks) + kPlatforms[index], "p");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *Topology::Create(*spec);
}

class FlowTimes : public FlowSink {
 public:
  explicit FlowTimes(const std::vector<TimedFlow>& flows) : flows_(flows), times(flows.size()) {}
  void OnDrained(uint32_t token) override { times[token] = backend->now(); }
  void OnDelivered(uint32_t) override {}
  void OnTimer(uint32_t token) override {
    backend->Launch(flows_[token].from, flows_[token].to, flows_[token].bytes, {0, 0}, token);
  }
  FluidBackend* backend = nullptr;

 private:
  const std::vector<TimedFlow>& flows_;

 public:
  std::vector<RealSeconds> times;
};

TEST(FluidAgainstSimgrid, EveryFlowOfRandomSetsEndsAtTheSameTime) {
  EXPECT_TRUE(rc::check("fluid == simgrid per flow", [] {
    const Topology topology = Make(*rc::gen::inRange<size_t>(0, std::size(kPlatforms)));
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const int count = *rc::gen::inRange(1, 120);
    std::vector<TimedFlow> flows;
    const auto n = static_cast<uint32_t>(topology.device_count());
    for (int i = 0; i < count; ++i) {
      TimedFlow flow;
      flow.from = static_cast<DeviceId>(random() % n);
      flow.to =
          static_cast<DeviceId>((static_cast<uint32_t>(flow.from) + 1 + random() % (n - 1)) % n);
      flow.bytes = RealBytes(1000 + random() % 50000000);
      // Some at once, some later.
      if (random() % 3 != 0) flow.start = RealSeconds(static_cast<double>(random() % 5000) * 1e-6);
      flows.push_back(flow);
    }
    FlowTimes fluid(flows);
    FluidBackend backend(topology, fluid);
    fluid.backend = &backend;
    for (size_t i = 0; i < flows.size(); ++i) {
      backend.CallAt(flows[i].start, static_cast<uint32_t>(i));
    }
    while (backend.RunBatch()) {
    }
    const auto simgrid = SimgridFlowTimes(topology, flows);
    RC_ASSERT(simgrid.ok());
    for (size_t i = 0; i < flows.size(); ++i) {
      RC_ASSERT(std::abs((fluid.times[i] - (*simgrid)[i]).seconds()) <=
                1e-9 * (*simgrid)[i].seconds());
    }
  }));
}

NetworkOptions RandomOptions(std::mt19937& random) {
  NetworkOptions options;
  options.algorithm =
      static_cast<Algorithm>(random() % static_cast<uint32_t>(Algorithm::kInSwitch));
  options.chunks = static_cast<int32_t>(random() % 5);
  return options;
}

// Every operation, unequal splits, and sends between pairs; members are neighbours or scattered.
TransferSpec RandomTransfer(const Topology& topology, std::mt19937& random) {
  constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                                   CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
                                   CollectiveOp::kBroadcast,     CollectiveOp::kReduce,
                                   CollectiveOp::kGather,        CollectiveOp::kScatter,
                                   CollectiveOp::kBarrier,       CollectiveOp::kSendRecv};
  TransferSpec spec;
  spec.op = kOps[random() % std::size(kOps)];
  spec.point_to_point = random() % 4 == 0;
  std::vector<int32_t> ranks(static_cast<size_t>(topology.rank_count()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (random() % 2 == 0) {
    std::shuffle(ranks.begin(), ranks.end(), random);
  } else {
    std::rotate(ranks.begin(), ranks.begin() + static_cast<int>(random() % ranks.size()),
                ranks.end());
  }
  const size_t members = spec.point_to_point ? 2 : 2 + random() % 7;
  ranks.resize(std::min(members, ranks.size()));
  spec.members = ranks;
  spec.bytes = Bytes(1000 + static_cast<int64_t>(random() % 20000000));
  if (!spec.point_to_point && spec.op == CollectiveOp::kAllToAll && random() % 2 == 0) {
    for (size_t i = 0; i < ranks.size() * ranks.size(); ++i) {
      spec.split_bytes.push_back(random() % 4 == 0 ? 0 : static_cast<int64_t>(random() % 3000000));
    }
  }
  return spec;
}

// The shortcuts for symmetric collectives give the bits of the full simulation, or decline.
TEST(Collapse, HasTheBitsOfTheFullSimulation) {
  int collapsed = 0;
  EXPECT_TRUE(rc::check("collapsed == expanded", [&] {
    const Topology topology = Make(*rc::gen::inRange<size_t>(0, std::size(kPlatforms)));
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    for (int i = 0; i < 20; ++i) {
      TransferPlanner planner(topology, RandomOptions(random));
      const auto plan = planner.Plan(RandomTransfer(topology, random));
      if (!plan.ok()) continue;
      const auto fast = RunAlone(topology, *plan, true);
      const auto full = RunAlone(topology, *plan, false);
      RC_ASSERT(fast.ok() && full.ok());
      RC_ASSERT(fast->time == full->time);
      collapsed += fast->collapsed ? 1 : 0;
    }
  }));
  EXPECT_GT(collapsed, 50);  // not all declined
}

// Several collectives and sends at once, contending; each completes at the same time in both tiers,
// to the picosecond that SimTime resolves plus 1e-9.
TEST(FluidAgainstSimgrid, ContendingCollectivesEndAtTheSameTime) {
  EXPECT_TRUE(rc::check("fluid == simgrid per collective", [] {
    const Topology topology = Make(*rc::gen::inRange<size_t>(0, std::size(kPlatforms)));
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const NetworkOptions options = RandomOptions(random);
    FluidNetwork fluid(topology, options);
    auto simgrid = SimgridNetwork::Create(topology, options);
    RC_ASSERT(simgrid.ok());
    const int wanted = 1 + static_cast<int>(random() % 5);
    int transfers = 0;
    for (int i = 0; i < wanted; ++i) {
      const TransferSpec spec = RandomTransfer(topology, random);
      const SimTime start = SimTime::FromUs(static_cast<double>(random() % 300));
      // Not every algorithm exists for every operation; both tiers refuse alike.
      const bool started = fluid.Start(spec, start).ok();
      RC_ASSERT((*simgrid)->Start(spec, start).ok() == started);
      transfers += started ? 1 : 0;
    }
    std::vector<SimTime> a(static_cast<size_t>(transfers));
    std::vector<SimTime> b(static_cast<size_t>(transfers));
    for (int i = 0; i < transfers; ++i) {
      const auto x = fluid.Next(SimTime::Max());
      const auto y = (*simgrid)->Next(SimTime::Max());
      RC_ASSERT(x.ok() && y.ok() && x->has_value() && y->has_value());
      a[(*x)->transfer] = (*x)->time;
      b[(*y)->transfer] = (*y)->time;
    }
    for (size_t i = 0; i < a.size(); ++i) {
      const double tolerance = 1 + 1e-9 * static_cast<double>(b[i].ps());
      RC_ASSERT(std::abs(static_cast<double>(a[i].ps() - b[i].ps())) <= tolerance);
    }
    RC_ASSERT(!(*fluid.Next(SimTime::Max())).has_value());
    RC_ASSERT(!(*(*simgrid)->Next(SimTime::Max())).has_value());
  }));
}

}  // namespace
}  // namespace foretrace
