#include "simulator/report/classify.h"

#include <gtest/gtest.h>

#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

// A chain of ops on the CPU, innermost last, and one device node below it.
WorkGroup GroupBelow(const std::vector<const char*>& ops, const char* name,
                     NodeKind kind = NodeKind::kKernel,
                     CollectiveOp collective = CollectiveOp::kUnknown) {
  RankTraceBuilder b(RankInfo{});
  const LaneIndex thread = b.AddLane(Lane::Kind::kCpuThread, 1);
  const LaneIndex stream = b.AddLane(Lane::Kind::kStream, 7);
  NodeIndex parent;
  int64_t depth = 0;
  const auto add = [&](NodeKind k, uint8_t detail, const char* n, LaneIndex lane) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = k;
    spec.detail = detail;
    spec.name = n;
    spec.lane = lane;
    spec.start = SimTime::FromNs(depth);
    spec.duration = SimTime::FromNs(1000 - 2 * depth);
    ++depth;
    return b.AddNode(spec);
  };
  for (const char* op : ops) {
    const NodeIndex n = add(NodeKind::kCpuOp, 0, op, thread);
    if (parent.valid()) b.SetParent(n, parent);
    parent = n;
  }
  const NodeIndex call = add(NodeKind::kRuntimeCall, 1, "cudaLaunchKernel", thread);
  if (parent.valid()) b.SetParent(call, parent);
  b.SetLauncher(add(kind, static_cast<uint8_t>(collective), name, stream), call);
  auto built = b.Build({});
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  const TraceStore store = *TraceStore::Assemble(std::move(ranks), {});
  const Classifier classifier(store);
  return classifier.Group(0, NodeIndex(store.ranks()[0].size() - 1));
}

TEST(Classify, ChainDecidesDirectionAndGenericKernels) {
  EXPECT_EQ(GroupBelow({"aten::linear", "aten::addmm"}, "volta_sgemm_128x32_tn"),
            WorkGroup::kGemmForward);
  EXPECT_EQ(GroupBelow({"autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0",
                        "aten::mm"},
                       "volta_sgemm_128x32_nt"),
            WorkGroup::kGemmBackward);
  EXPECT_EQ(GroupBelow({"autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"},
                       "Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16"),
            WorkGroup::kGemmBackward);
  // The sort within the embedding's backward pass belongs to it, elsewhere it does not.
  const char* sort = "void cub::DeviceRadixSortSingleTileKernel<cub::DeviceRadixSortPolicy<long> >";
  EXPECT_EQ(GroupBelow({"autograd::engine::evaluate_function: x",
                        "torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>"},
                       sort),
            WorkGroup::kEmbeddingBackward);
  EXPECT_EQ(GroupBelow({"aten::sort"}, sort), WorkGroup::kOther);
  EXPECT_EQ(GroupBelow({"aten::embedding", "aten::index_select"},
                       "void at::native::(anonymous namespace)::indexSelectLargeIndex<float>"),
            WorkGroup::kEmbeddingForward);
  EXPECT_EQ(GroupBelow({"aten::conv2d", "aten::cudnn_convolution"}, "volta_sgemm_64x64_nt"),
            WorkGroup::kConvolutionForward);
  EXPECT_EQ(GroupBelow({"aten::conv2d"}, "void cudnn::bn_fw_tr_1C11_singleread<float, 512>"),
            WorkGroup::kOther);
  EXPECT_EQ(GroupBelow({"aten::copy_"}, "Memcpy DtoD (Device -> Device)", NodeKind::kMemcpy),
            WorkGroup::kMemory);
}

TEST(Classify, CommunicationByOpThenByChain) {
  const char* nccl = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)";
  const auto collective = NodeKind::kCollective;
  EXPECT_EQ(GroupBelow({"c10d::alltoall_base_", "record_param_comms"}, nccl, collective,
                       CollectiveOp::kSendRecv),
            WorkGroup::kAllToAll);
  EXPECT_EQ(GroupBelow({"c10d::send"}, nccl, collective, CollectiveOp::kSendRecv),
            WorkGroup::kSendRecv);
  EXPECT_EQ(GroupBelow({}, nccl, collective, CollectiveOp::kAllGather), WorkGroup::kAllGather);
  EXPECT_EQ(GroupBelow({}, nccl, collective, CollectiveOp::kReduceScatter),
            WorkGroup::kReduceScatter);
  EXPECT_EQ(GroupBelow({}, nccl, collective, CollectiveOp::kBroadcast),
            WorkGroup::kOtherCollective);
  EXPECT_EQ(GroupBelow({"c10d::allreduce_"}, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
            WorkGroup::kAllReduce);
}

}  // namespace
}  // namespace foretrace
