// Collectives and transfers in profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/importers/import_text.h"

namespace foretrace {
namespace {

// An operator range, the launch in it, and the kernel.
std::string CollectiveEvents(const std::string& ranges, const std::string& kernel,
                             const std::string& kernel_args = "") {
  return ranges +
         R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":50,"dur":2,
             "args":{"correlation":5}},
            {"ph":"X","cat":"kernel","name":")" +
         kernel + R"(","pid":0,"tid":40,"ts":60,"dur":9,"args":{"stream":40,"correlation":5)" +
         kernel_args + "}}";
}

const CommAttr& OnlyCollective(const TraceStore& store, NodeIndex& node) {
  const RankTrace& rank = store.ranks()[0];
  for (uint32_t n = 0; n < rank.size(); ++n) {
    if (IsCommunicationKind(rank.kind(NodeIndex(n)))) node = NodeIndex(n);
  }
  return *rank.comm(node);
}

TEST(Kineto, DescribesACollectiveByTheKernelsArguments) {
  const auto store = ImportEvents(CollectiveEvents(
      "", "ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)",
      R"(,"Collective name":"all_to_allv","In msg nelems":12,"Out msg nelems":8,"Group size":2,
          "dtype":"Half","In split size":"[4, 8]","Out split size":"[6, 2]",
          "Process Group Name":"ep","Process Group Description":"experts",
          "Process Group Ranks":"[1, 3]","Seq":17)"));
  ASSERT_TRUE(store.ok()) << store.status();
  NodeIndex node;
  const CommAttr& comm = OnlyCollective(*store, node);
  const RankTrace& rank = store->ranks()[0];
  EXPECT_EQ(rank.kind(node), NodeKind::kCollective);
  EXPECT_EQ(rank.collective_op(node), CollectiveOp::kAllToAll);
  EXPECT_EQ(comm.bytes_in, Bytes(24));  // 12 elements of 2 bytes
  EXPECT_EQ(comm.bytes_out, Bytes(16));
  EXPECT_THAT(rank.in_splits(comm), ::testing::ElementsAre(8, 16));
  EXPECT_THAT(rank.out_splits(comm), ::testing::ElementsAre(12, 4));
  EXPECT_EQ(comm.group_size, 2);
  EXPECT_EQ(comm.sequence, 17);
  EXPECT_EQ(store->strings().Get(comm.group), "ep");
  ASSERT_TRUE(store->process_groups().contains("ep"));
  EXPECT_THAT(store->process_groups().named("ep").front().ranks, ::testing::ElementsAre(1, 3));
}

TEST(Kineto, DescribesACollectiveByTheOperatorsAroundItsLaunch) {
  const std::string ranges =
      R"({"ph":"X","cat":"cpu_op","name":"c10d::alltoall_base_","pid":9,"tid":9,"ts":40,"dur":20,
          "args":{"Input Dims":[[10],[6],[],[],[],[]],"Input type":["float","float","","","",""]}},
         {"ph":"X","cat":"user_annotation","name":"nccl:all_to_all","pid":9,"tid":9,"ts":45,"dur":10,
          "args":{"Input Dims":[[6]],"Input type":["float"]}},)";
  const auto store = ImportEvents(
      CollectiveEvents(ranges, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"));
  ASSERT_TRUE(store.ok()) << store.status();
  NodeIndex node;
  const CommAttr& comm = OnlyCollective(*store, node);
  EXPECT_EQ(store->ranks()[0].collective_op(node), CollectiveOp::kAllToAll);
  EXPECT_EQ(comm.bytes_in, Bytes(24));   // 6 floats; (output, input, ...)
  EXPECT_EQ(comm.bytes_out, Bytes(40));  // 10 floats
  EXPECT_EQ(comm.dtype, DType::kFloat32);
}

TEST(Kineto, TellsSendsFromReceivesAndSumsUpGroupedOnes) {
  const auto range = [](const std::string& name, int ts, int elements) {
    return R"({"ph":"X","cat":"user_annotation","name":")" + name + R"(","pid":9,"tid":9,"ts":)" +
           std::to_string(ts) + R"(,"dur":3,"args":{"Input Dims":[[)" + std::to_string(elements) +
           R"(]],"Input type":["float"]}},)";
  };
  NodeIndex node;
  const auto send = ImportEvents(
      CollectiveEvents(range("nccl:send 0->1", 49, 5), "ncclDevKernel_SendRecv(ncclDevComm*)"));
  ASSERT_TRUE(send.ok()) << send.status();
  const CommAttr& sent = OnlyCollective(*send, node);
  EXPECT_EQ(send->ranks()[0].kind(node), NodeKind::kSend);
  EXPECT_EQ(sent.peer, 1);
  EXPECT_EQ(sent.bytes_in, Bytes(20));
  EXPECT_EQ(sent.bytes_out, Bytes(0));
  // batch_isend_irecv: the operations end before the one launch that serves them.
  const auto both =
      ImportEvents(CollectiveEvents(range("nccl:send 0->1", 40, 5) + range("nccl:recv 0<-1", 44, 7),
                                    "ncclDevKernel_SendRecv(ncclDevComm*)"));
  ASSERT_TRUE(both.ok()) << both.status();
  const CommAttr& exchange = OnlyCollective(*both, node);
  EXPECT_EQ(both->ranks()[0].kind(node), NodeKind::kCollective);
  EXPECT_EQ(both->ranks()[0].collective_op(node), CollectiveOp::kSendRecv);
  EXPECT_EQ(exchange.bytes_in, Bytes(20));
  EXPECT_EQ(exchange.bytes_out, Bytes(28));
  EXPECT_EQ(exchange.peer, 1);
}

// Arguments name partners by their rank in the job, annotations by their place in the group.
TEST(Kineto, FindsPartnersOfBatchedTransfers) {
  const auto operation = [](const std::string& kind, int ts, const std::string& partner,
                            const std::string& annotation) {
    const std::string at = std::to_string(ts);
    return R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":9,"tid":9,"ts":)" + at +
           R"(,"dur":2,"args":{"Collective name":")" + kind + R"(","In msg nelems":3,
               "Out msg nelems":3,"dtype":"Float","Group size":3,"Process Group Name":"pp",
               "Process Group Ranks":"[1, 4, 7]",)" +
           partner + R"(}},
              {"ph":"X","cat":"user_annotation","name":")" +
           annotation + R"(","pid":9,"tid":9,"ts":)" + at + R"(.5,"dur":1,"args":{}},)";
  };
  const auto store =
      ImportEvents(CollectiveEvents(operation("send", 40, R"("Dst Rank":7)", "nccl:send 1->2") +
                                        operation("recv", 44, R"("Src Rank":1)", "nccl:recv 1<-0"),
                                    "ncclDevKernel_SendRecv(ncclDevComm*)"),
                   R"("distributedInfo": {"backend": "nccl", "rank": 4, "world_size": 9},)");
  ASSERT_TRUE(store.ok()) << store.status();
  NodeIndex node;
  const CommAttr& comm = OnlyCollective(*store, node);
  EXPECT_EQ(store->ranks()[0].collective_op(node), CollectiveOp::kSendRecv);
  EXPECT_THAT(store->ranks()[0].in_splits(comm), ::testing::ElementsAre(0, 0, 12));
  EXPECT_THAT(store->ranks()[0].out_splits(comm), ::testing::ElementsAre(12, 0, 0));
  EXPECT_EQ(comm.peer, -1);
  const auto single = ImportEvents(
      CollectiveEvents("", "ncclDevKernel_SendRecv(ncclDevComm*)",
                       R"(,"Collective name":"send","In msg nelems":3,"Out msg nelems":3,
                          "dtype":"Float","Group size":3,"Process Group Name":"pp",
                          "Process Group Ranks":"[1, 4, 7]","Dst Rank":1)"));
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(OnlyCollective(*single, node).peer, 1);
}

}  // namespace
}  // namespace foretrace
