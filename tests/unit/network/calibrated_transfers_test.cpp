#include "simulator/network/calibrated_transfers.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

Topology Nodes(int32_t nodes, int32_t devices) {
  const auto spec = ParsePlatform(
      "name: t\nlinks:\n  n: {class: network, bandwidth_GBps: 10, latency_us: 1, source: t}\n"
      "  l: {class: nvlink, bandwidth_GBps: 100, latency_us: 0, source: t}\n"
      "node: {devices: " +
          std::to_string(devices) +
          ", interconnect: {kind: switch, link: l}, nics: {count: 1}}\nnodes: " +
          std::to_string(nodes) + "\nfabric: {kind: switch, link: n}\n",
      "t.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *Topology::Create(*spec);
}

// Bus bandwidth of 100 GB/s = 1e5 bytes per us for every operation and number of ranks, from 1 byte
// to 1 GiB.
std::shared_ptr<const CollectiveCalibration> Calibration() {
  std::vector<CollectiveModel> models;
  for (const auto& [op, ranks, nodes] :
       {std::tuple(CollectiveOp::kAllReduce, 2, 1), std::tuple(CollectiveOp::kAllToAll, 2, 1),
        std::tuple(CollectiveOp::kSendRecv, 2, 2), std::tuple(CollectiveOp::kAllReduce, 4, 2)}) {
    CurveSpec spec;
    spec.bus_factor = BusFactor(op, ranks);
    spec.sigmoid = {0, 20, 0, 2};
    CollectiveModel model;
    model.op = op;
    model.ranks = ranks;
    model.nodes = nodes;
    model.min_bytes = Bytes(1);
    model.max_bytes = Bytes(1 << 30);
    model.curve = *CollectiveCurve::Create(spec);
    models.push_back(model);
  }
  return std::make_shared<CollectiveCalibration>(CalibrationHeader(), std::move(models));
}

TransferSpec Spec(CollectiveOp op, std::vector<int32_t> members, int64_t bytes) {
  TransferSpec spec;
  spec.op = op;
  spec.members = std::move(members);
  spec.bytes = Bytes(bytes);
  return spec;
}

TEST(CalibratedTransfers, AnAllReduceOfItsGroup) {
  const Topology topology = Nodes(2, 2);
  const auto measured = CalibratedTransfers(Calibration(), topology);
  const auto estimate = measured(Spec(CollectiveOp::kAllReduce, {0, 1}, 1000000));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_NEAR(estimate->time.us(), 10, 1e-6);  // factor 2 (2-1)/2 = 1
  EXPECT_EQ(estimate->source, EstimateSource::kCalibrated);
  EXPECT_FALSE(estimate->extrapolated);
}

TEST(CalibratedTransfers, UnequalAllToAllCountsItsLargestRowOrColumn) {
  const Topology topology = Nodes(2, 2);
  const auto measured = CalibratedTransfers(Calibration(), topology);
  TransferSpec spec = Spec(CollectiveOp::kAllToAll, {0, 1}, 4000000);
  // Rank 0 keeps 1e6 and sends 3e6; rank 1 sends 1e6 and keeps 2e6: rank 1 receives 5e6.
  spec.split_bytes = {1000000, 3000000, 1000000, 2000000};
  const auto estimate = measured(spec);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_NEAR(estimate->time.us(), 25, 1e-6);  // 5e6 x 1/2 / 1e5 bytes per us
}

TEST(CalibratedTransfers, PlacementComesFromTheTopology) {
  const Topology topology = Nodes(2, 2);
  const auto measured = CalibratedTransfers(Calibration(), topology);
  TransferSpec send = Spec(CollectiveOp::kUnknown, {0, 1}, 8);
  send.point_to_point = true;
  EXPECT_FALSE(measured(send).has_value());  // sends are calibrated across nodes only
  send.members = {1, 2};
  EXPECT_TRUE(measured(send).has_value());
  // Four ranks of two nodes of three and of one are not spread as the measured ones were.
  const Topology wide = Nodes(2, 3);
  const auto uneven = CalibratedTransfers(Calibration(), wide);
  const auto estimate = uneven(Spec(CollectiveOp::kAllReduce, {0, 1, 2, 3}, 1000));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_TRUE(estimate->extrapolated);
}

TEST(CalibratedTransfers, BeyondTheSizesIsFlaggedAndTheUnknownIsAnalytic) {
  const Topology topology = Nodes(2, 2);
  const auto measured = CalibratedTransfers(Calibration(), topology);
  EXPECT_TRUE(measured(Spec(CollectiveOp::kAllReduce, {0, 1}, int64_t{1} << 32))->extrapolated);
  EXPECT_FALSE(measured(Spec(CollectiveOp::kAllReduce, {0, 1}, (int64_t{1} << 32) + 1)));
  FittedNetwork network(topology, {}, measured);
  const auto broadcast = network.IsolatedDuration(Spec(CollectiveOp::kBroadcast, {0, 1}, 1000));
  ASSERT_TRUE(broadcast.ok()) << broadcast.status();
  EXPECT_EQ(broadcast->source, EstimateSource::kAnalytic);
  EXPECT_TRUE(broadcast->extrapolated);
}

}  // namespace
}  // namespace foretrace
