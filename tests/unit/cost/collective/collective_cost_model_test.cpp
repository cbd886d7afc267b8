#include "simulator/cost/collective/collective_cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/collective/message_size.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

TEST(MessageSize, IsTheLargestOverDevicesOfSentAndReceived) {
  // Rank 0 sends 1+2+3, rank 1 4+5+6, rank 2 7+8+9 = 24; rank 2 receives 3+6+9 = 18.
  const std::vector<int64_t> splits = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(AllToAllMessageSize(splits, 3).count(), 24);
  // Everyone sends 10 to rank 0: it receives 30.
  const std::vector<int64_t> incast = {10, 0, 0, 10, 0, 0, 10, 0, 0};
  EXPECT_EQ(AllToAllMessageSize(incast, 3).count(), 30);
}

// Bus bandwidth of 100 GB/s = 1e5 bytes per us for every operation and number of ranks.
std::shared_ptr<const CollectiveCalibration> Calibration() {
  std::vector<CollectiveModel> models;
  for (const auto& [op, ranks, nodes] :
       {std::tuple(CollectiveOp::kAllReduce, 2, 1), std::tuple(CollectiveOp::kAllToAll, 2, 1),
        std::tuple(CollectiveOp::kSendRecv, 2, 2)}) {
    CurveSpec spec;
    spec.bus_factor = BusFactor(op, ranks);
    spec.sigmoid = {0, 20, 0, 2};
    CollectiveModel model;
    model.op = op;
    model.ranks = ranks;
    model.nodes = nodes;
    model.min_bytes = 1;
    model.max_bytes = 1 << 30;
    model.curve = *CollectiveCurve::Create(spec);
    models.push_back(model);
  }
  return std::make_shared<CollectiveCalibration>(CalibrationHeader(), std::move(models));
}

class Job {
 public:
  // Adds a node per rank; `add` gets the builder, the stream and the rank.
  template <typename F>
  TraceStore Build(F add) {
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
    for (int32_t rank = 0; rank < 2; ++rank) {
      RankInfo info;
      info.rank = rank;
      info.world_size = 2;
      RankTraceBuilder builder(info);
      builder.AddProcessGroup({"pair", "", {0, 1}});
      const LaneIndex stream = builder.AddLane(Lane::Kind::kStream, 7);
      add(builder, stream, rank);
      auto result = builder.Build({});
      EXPECT_TRUE(result.ok()) << result.status();
      ranks.emplace_back(std::move(result->trace), std::move(result->strings));
    }
    auto store = TraceStore::Assemble(std::move(ranks), {});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
};

NodeIndex Add(RankTraceBuilder& builder, LaneIndex stream, NodeKind kind, CollectiveOp op) {
  return builder.AddNode({.kind = kind,
                          .detail = static_cast<uint8_t>(op),
                          .name = "nccl",
                          .lane = stream,
                          .start = SimTime::FromNs(builder.size() * 1000),
                          .duration = SimTime::FromNs(500),
                          .source_id = builder.size() + 1});
}

TEST(CollectiveCostModel, PredictsAnAllReduceOfItsGroup) {
  const TraceStore store = Job().Build([](RankTraceBuilder& b, LaneIndex stream, int32_t) {
    CommAttr comm;
    comm.group = b.Intern("pair");
    comm.bytes_in = comm.bytes_out = Bytes(1000000);
    b.SetComm(Add(b, stream, NodeKind::kCollective, CollectiveOp::kAllReduce), comm);
    Add(b, stream, NodeKind::kKernel, CollectiveOp::kUnknown);
  });
  const CollectiveCostModel model(Calibration(), store, 8);
  const auto estimate = model.Predict(store, store.ranks()[0], NodeIndex(0));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_NEAR(estimate->time.us(), 10, 1e-6);  // factor 2 x 1/2 = 1
  EXPECT_FALSE(model.Predict(store, store.ranks()[0], NodeIndex(1)).has_value());
}

TEST(CollectiveCostModel, SizesAnUnequalAllToAllByItsLargestRank) {
  const TraceStore store = Job().Build([](RankTraceBuilder& b, LaneIndex stream, int32_t rank) {
    CommAttr comm;
    comm.group = b.Intern("pair");
    // Rank 0 keeps 1e6 and sends 3e6; rank 1 sends and keeps 1e6: rank 1 receives 4e6.
    const std::vector<int64_t> in = rank == 0 ? std::vector<int64_t>{1000000, 3000000}
                                              : std::vector<int64_t>{1000000, 1000000};
    const std::vector<int64_t> out = rank == 0 ? std::vector<int64_t>{1000000, 1000000}
                                               : std::vector<int64_t>{3000000, 2000000};
    b.SetComm(Add(b, stream, NodeKind::kCollective, CollectiveOp::kAllToAll), comm, in, out);
  });
  const CollectiveCostModel model(Calibration(), store, 8);
  for (const RankTrace& rank : store.ranks()) {
    const auto estimate = model.Predict(store, rank, NodeIndex(0));
    ASSERT_TRUE(estimate.has_value());
    // 5e6 bytes x 1/2 / 1e5 bytes per us.
    EXPECT_NEAR(estimate->time.us(), 25, 1e-6);
  }
}

TEST(CollectiveCostModel, LeavesWhatItDoesNotKnowToTheNext) {
  const TraceStore store = Job().Build([](RankTraceBuilder& b, LaneIndex stream, int32_t rank) {
    CommAttr comm;
    comm.group = b.Intern("pair");
    b.SetComm(Add(b, stream, NodeKind::kCollective, CollectiveOp::kAllReduce), comm);  // no size
    comm.bytes_in = Bytes(8);
    b.SetComm(Add(b, stream, NodeKind::kCollective, CollectiveOp::kBroadcast), comm);
    comm.peer = 1 - rank;
    b.SetComm(Add(b, stream, rank == 0 ? NodeKind::kSend : NodeKind::kRecv,
                  CollectiveOp::kUnknown), comm);
  });
  const CollectiveCostModel one_node(Calibration(), store, 8);
  const CollectiveCostModel two_nodes(Calibration(), store, 1);
  const RankTrace& rank = store.ranks()[0];
  EXPECT_FALSE(one_node.Predict(store, rank, NodeIndex(0)).has_value());
  EXPECT_FALSE(one_node.Predict(store, rank, NodeIndex(1)).has_value());
  // Sends are calibrated across nodes only.
  EXPECT_FALSE(one_node.Predict(store, rank, NodeIndex(2)).has_value());
  EXPECT_TRUE(two_nodes.Predict(store, rank, NodeIndex(2)).has_value());
}

}  // namespace
}  // namespace foretrace
