// The contract of the network tiers, and what they refuse.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "simulator/network/collective_table.h"
#include "simulator/network/fitted_network.h"
#include "simulator/network/fluid/fluid_network.h"
#include "simulator/network/fluid/run_alone.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

// Two nodes of two devices; one 10 GB/s NIC per node, 1 us per hop, two hops between nodes.
Topology TwoNodes() {
  const auto spec = ParsePlatform(
      "name: two\nlinks:\n  n: {class: network, bandwidth_GBps: 10, latency_us: 1, source: t}\n"
      "  l: {class: nvlink, bandwidth_GBps: 100, latency_us: 0, source: t}\n"
      "node: {devices: 2, interconnect: {kind: switch, link: l}, nics: {count: 1}}\nnodes: 2\n"
      "fabric: {kind: switch, link: n}\n",
      "two.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *Topology::Create(*spec);
}

TransferSpec Send(int32_t from, int32_t to, int64_t bytes) {
  TransferSpec spec;
  spec.point_to_point = true;
  spec.members = {from, to};
  spec.bytes = Bytes(bytes);
  return spec;
}

// 10 MB alone take 1,000 us + 2 us. Two such sends over one NIC from time 0 and 500 us: the first
// has 5 MB left when the second comes; at half rate that takes until 1,500 us, then the second has
// 5 MB left: 2,000 us.
TEST(FluidNetwork, SendsThroughOneNicContend) {
  const Topology topology = TwoNodes();
  FluidNetwork network(topology, {});
  EXPECT_EQ(network.IsolatedDuration(Send(0, 2, 10000000))->time, SimTime::FromUs(1002));
  const auto a = network.Start(Send(0, 2, 10000000), SimTime());
  const auto b = network.Start(Send(1, 3, 10000000), SimTime::FromUs(500));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(network.Next(SimTime::FromUs(1501))->has_value());
  const auto first = network.Next(SimTime::FromUs(1502));
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->transfer, *a);
  EXPECT_EQ((*first)->time, SimTime::FromUs(1502));
  const auto second = network.Next(SimTime::Max());
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->time, SimTime::FromUs(2002));
  EXPECT_FALSE(network.Next(SimTime::Max())->has_value());
}

TEST(FluidNetwork, OppositeDirectionsDoNotContend) {
  const Topology topology = TwoNodes();
  FluidNetwork network(topology, {});
  ASSERT_TRUE(network.Start(Send(0, 2, 10000000), SimTime()).ok());
  ASSERT_TRUE(network.Start(Send(2, 0, 10000000), SimTime()).ok());
  for (TransferHandle i : {0u, 1u}) {
    const auto done = network.Next(SimTime::Max());
    ASSERT_TRUE(done.ok() && done->has_value());
    EXPECT_EQ((*done)->time, SimTime::FromUs(1002));
    EXPECT_EQ((*done)->transfer, i);  // equal times: in order of handles
  }
}

// Two communicators and a send over the same NIC from time 0. Towards node 1 flow half of either
// all-gather, 5 MB each, and the send's 10 MB: a third of 10 GB/s each until 1,500 us, then the
// send alone has 5 MB left: 2,000 us. Two hops of 1 us come on top. Alone an all-gather takes 502
// us.
TEST(ContendingNetworks, CommunicatorsAndSendsShareANic) {
  const Topology topology = TwoNodes();
  for (const NetworkTier tier : {NetworkTier::kFluid, NetworkTier::kSimgrid}) {
    SCOPED_TRACE(Name(tier));
    auto network = *MakeNetwork(tier, topology, {});
    TransferSpec gather;
    gather.op = CollectiveOp::kAllGather;
    gather.bytes = Bytes(10000000);
    gather.members = {0, 2};
    EXPECT_EQ(network->IsolatedDuration(gather)->time, SimTime::FromUs(502));
    ASSERT_TRUE(network->Start(gather, SimTime()).ok());
    gather.members = {1, 3};
    ASSERT_TRUE(network->Start(gather, SimTime()).ok());
    ASSERT_TRUE(network->Start(Send(0, 2, 10000000), SimTime()).ok());
    for (const int64_t us : {1502, 1502, 2002}) {
      const auto done = network->Next(SimTime::Max());
      ASSERT_TRUE(done.ok() && done->has_value());
      EXPECT_NEAR(static_cast<double>((*done)->time.ps()), static_cast<double>(us) * 1e6, 2);
    }
  }
}

// A schedule whose rank 1 waits for a message that nobody sends.
class Stuck : public CollectiveSchedule {
 public:
  int32_t ranks() const override { return 2; }
  int32_t steps() const override { return 1; }
  void Sends(int32_t, int32_t, int32_t, std::vector<foretrace::Send>&) const override {}
  int32_t Receives(int32_t rank, int32_t, int32_t) const override { return rank; }
  RealSeconds ClosedForm(const AlphaBeta&) const override { return {}; }
  int32_t blocks() const override { return 1; }
  void SentBlocks(int32_t, int32_t, int32_t, int32_t, int32_t,
                  std::vector<int32_t>&) const override {}
};

TEST(FluidNetwork, NamesWhatAStalledSimulationWaitsFor) {
  const Topology topology = TwoNodes();
  TransferPlan plan;
  plan.schedule = std::make_shared<Stuck>();
  plan.devices = {0, 1};
  const auto run = RunAlone(topology, plan, false);
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(std::string(run.status().message()),
              HasSubstr("stalled: transfer 0: rank 1 waits in step 1 of 1 for 1 messages"));
}

TEST(FittedNetwork, DoesNotContendAndPrefersMeasurements) {
  const Topology topology = TwoNodes();
  FittedNetwork closed(topology, {}, nullptr);
  ASSERT_TRUE(closed.Start(Send(0, 2, 10000000), SimTime()).ok());
  ASSERT_TRUE(closed.Start(Send(1, 3, 10000000), SimTime()).ok());
  EXPECT_EQ((*closed.Next(SimTime::Max()))->time, SimTime::FromUs(1002));
  EXPECT_EQ((*closed.Next(SimTime::Max()))->time, SimTime::FromUs(1002));
  FittedNetwork measured(topology, {}, [](const TransferSpec&) {
    return Estimate{SimTime::FromUs(7), EstimateSource::kCalibrated};
  });
  EXPECT_EQ(measured.IsolatedDuration(Send(0, 2, 1))->time, SimTime::FromUs(7));
}

// One rank alone has nothing to move; zero bytes take the route's latency.
TEST(NetworkModels, DegenerateTransfers) {
  const Topology topology = TwoNodes();
  for (const bool fluid : {false, true}) {
    auto network = *MakeNetwork(fluid ? NetworkTier::kFluid : NetworkTier::kFitted, topology, {});
    TransferSpec alone;
    alone.op = CollectiveOp::kAllReduce;
    alone.members = {3};
    alone.bytes = Bytes(1 << 20);
    EXPECT_EQ(network->IsolatedDuration(alone)->time, SimTime());
    EXPECT_EQ(network->IsolatedDuration(Send(0, 2, 0))->time, SimTime::FromUs(2));
  }
}

TEST(NetworkModels, RefuseBadTransfers) {
  const Topology topology = TwoNodes();
  TransferSpec spec;
  spec.op = CollectiveOp::kAllReduce;
  spec.members = {0, 1};
  spec.bytes = Bytes(8);
  const auto message = [&](const TransferSpec& bad) {
    FluidNetwork network(topology, {});
    FittedNetwork fitted(topology, {}, nullptr);
    const auto a = network.Start(bad, SimTime());
    const auto b = fitted.IsolatedDuration(bad);
    EXPECT_FALSE(a.ok());
    EXPECT_FALSE(b.ok());
    return std::string(a.status().message());
  };
  TransferSpec bad = spec;
  bad.members = {0, 4};
  EXPECT_THAT(message(bad), HasSubstr("rank 4 has no device: platform 'two' (two.yaml) places 4"));
  bad.members = {1, 1};
  EXPECT_THAT(message(bad), HasSubstr("rank 1 is twice"));
  bad.members = {};
  EXPECT_THAT(message(bad), HasSubstr("without members"));
  bad = spec;
  bad.bytes = Bytes(-1);
  EXPECT_THAT(message(bad), HasSubstr("negative size"));
  bad = spec;
  bad.op = CollectiveOp::kUnknown;
  EXPECT_THAT(message(bad), HasSubstr("not known"));
  bad = Send(0, 1, 8);
  bad.members = {0};
  EXPECT_THAT(message(bad), HasSubstr("exactly a sender and a receiver"));
}

TEST(CollectiveTable, BusBandwidthAndSizes) {
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kAllToAll, 4), 0.75);
  EXPECT_EQ(*ParseSize("4096"), Bytes(4096));
  EXPECT_EQ(*ParseSize("32M"), Bytes(32 << 20));
  EXPECT_EQ(*ParseSize("2GiB"), Bytes(int64_t{2} << 30));
  EXPECT_EQ(*ParseSize("1.5G"), Bytes(int64_t{3} << 29));
  for (const char* bad : {"", "M", "-1", "1.3", "nan", "4X", "99999999999G"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
  const Topology topology = TwoNodes();
  CollectiveQuery query;
  query.members = {0, 1};
  query.first_bytes = Bytes(1 << 20);
  query.last_bytes = Bytes(4 << 20);
  const auto rows = CollectiveTable(topology, query);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 3u);
  // Two ranks at 100 GB/s without latency: the whole buffer once each way.
  EXPECT_EQ((*rows)[2].time, SimTime::FromUs((4 << 20) / 100e3));
  EXPECT_NEAR((*rows)[2].bus_bandwidth.gbps(), 100, 1e-9);
  EXPECT_EQ((*rows)[2].flows, 4);
  EXPECT_EQ((*rows)[2].algorithm, Algorithm::kRing);
}

// Interrupted in its third size: the two before are the answer.
TEST(CollectiveTable, InterruptedKeepsWhatThereIs) {
  const Topology topology = TwoNodes();
  CollectiveQuery query;
  query.members = {0, 1};
  query.first_bytes = Bytes(1 << 20);
  query.last_bytes = Bytes(4 << 20);
  query.progress = [](int64_t done, int64_t total) {
    EXPECT_EQ(total, 3);
    return done < 2;
  };
  const auto rows = CollectiveTable(topology, query);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 2u);
}

// Hopper's switch carries (n+1)/n of the data a port at 5/6 of its rate, 18 links of 25 GB/s each,
// after 23 us and two pieces of 16 channels x 8 ranks x 128 KiB = 16 MiB.
TEST(TransferPlanner, ReducesInTheSwitch) {
  const auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-h100.yaml");
  ASSERT_TRUE(spec.ok());
  const auto topology = Topology::Create(*spec);
  ASSERT_TRUE(topology.ok());
  TransferPlanner planner(*topology, {});
  TransferSpec transfer;
  transfer.op = CollectiveOp::kAllReduce;
  transfer.members = {0, 1, 2, 3, 4, 5, 6, 7};
  transfer.bytes = Bytes(int64_t{1} << 34);
  const auto choice = planner.Choose(transfer);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->algorithm, Algorithm::kInSwitch);
  const double port =
      spec->node.links_per_device * spec->links[0].payload_rate().bytes_per_second() * 5 / 6;
  EXPECT_NEAR(choice->time.seconds(), 23e-6 + (2 * (1 << 24) + 0x1p34) * 9 / 8 / port, 1e-9);
  // Two ranks: a ring moves the data once, the switch 1.8 times.
  transfer.members = {0, 1};
  EXPECT_EQ(planner.Choose(transfer)->algorithm, Algorithm::kRing);
}

// What NCCL does on one NVSwitch node: low-latency protocols for small messages, Simple for large.
TEST(TransferPlanner, ChoosesProtocolBySize) {
  const auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/dgx-a100.yaml");
  ASSERT_TRUE(spec.ok());
  const auto topology = Topology::Create(*spec);
  ASSERT_TRUE(topology.ok());
  TransferPlanner planner(*topology, {});
  TransferSpec transfer;
  transfer.op = CollectiveOp::kAllReduce;
  transfer.members = {0, 1, 2, 3, 4, 5, 6, 7};
  transfer.bytes = Bytes(8 << 10);
  EXPECT_EQ(planner.Choose(transfer)->protocol, Protocol::kLL);
  transfer.bytes = Bytes(1 << 30);
  const auto large = planner.Choose(transfer);
  EXPECT_EQ(large->protocol, Protocol::kSimple);
  EXPECT_EQ(large->algorithm, Algorithm::kRing);
  // Times never fall as sizes grow.
  RealSeconds last;
  for (int64_t bytes = 8; bytes < (int64_t{1} << 33); bytes *= 2) {
    transfer.bytes = Bytes(bytes);
    const RealSeconds time = planner.Choose(transfer)->time;
    EXPECT_GT(time, last);
    last = time;
  }
}

// Four ranks on a switch whose ports carry 40 GB/s and whose routes take 3 us, no library: a chain
// of three hops. 10 MB in pieces of 1 MB (--chunks 10): two hops pass a piece (25 us and 3 us each)
// before the last streams 10 MB (250 us) and its latency. In one piece: three hops of 253 us.
TEST(TransferPlanner, ChainsFillAtTheRateOfTheirStreams) {
  const auto spec = ParsePlatform(
      "name: s\nlinks:\n  l: {class: nvlink, bandwidth_GBps: 40, latency_us: 1.5, source: t}\n"
      "node: {devices: 4, interconnect: {kind: switch, link: l}}\n",
      "s");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Topology topology = *Topology::Create(*spec);
  TransferSpec transfer;
  transfer.op = CollectiveOp::kBroadcast;
  transfer.members = {0, 1, 2, 3};
  transfer.bytes = Bytes(10'000'000);
  for (const auto& [chunks, us] : {std::pair(10, 2 * 28.0 + 253.0), std::pair(1, 3 * 253.0)}) {
    NetworkOptions options;
    options.chunks = chunks;
    options.algorithm = Algorithm::kRing;
    TransferPlanner planner(topology, options);
    EXPECT_NEAR(planner.PlanAndRun(transfer)->run.time.us(), us, 1e-6);
    EXPECT_NEAR(planner.Choose(transfer)->time.us(), us, 1e-6);
  }
}

// Without a library auto takes what is fastest of all that could be: of 64 KiB a tree of three hops
// on eight ranks (the first and the last round of a binomial broadcast), not a chain of seven.
TEST(TransferPlanner, TakesTheFastestWithoutALibrary) {
  const auto spec = LoadPlatform(std::string(FORETRACE_SOURCE_DIR) + "/topologies/switch-64.yaml");
  ASSERT_TRUE(spec.ok());
  const Topology topology = *Topology::Create(*spec);
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                                CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
    TransferSpec transfer;
    transfer.op = op;
    transfer.members = {0, 1, 2, 3, 4, 5, 6, 7};
    for (const int64_t bytes : {int64_t{1} << 16, int64_t{1} << 28}) {
      transfer.bytes = Bytes(bytes);
      const RealSeconds best = TransferPlanner(topology, {}).PlanAndRun(transfer)->run.time;
      for (const Algorithm algorithm :
           {Algorithm::kRing, Algorithm::kBinomial, Algorithm::kHalvingDoubling,
            Algorithm::kDoubleBinaryTree}) {
        NetworkOptions options;
        options.algorithm = algorithm;
        const auto other = TransferPlanner(topology, options).PlanAndRun(transfer);
        if (!other.ok()) continue;
        EXPECT_LE(best, other->run.time) << Name(op) << " " << Name(algorithm);
      }
    }
  }
}

}  // namespace
}  // namespace foretrace
