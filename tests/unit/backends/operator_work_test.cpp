#include "simulator/backends/operator_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/backends/graph_view.h"
#include "simulator/backends/pattern_generator.h"
#include "simulator/workload/network_yaml.h"

namespace foretrace {
namespace {

OperatorView Parse(const std::string& ops) {
  const auto read = ParseNetwork("name: n\ndtype: float32\nops:\n" + ops, "n.yaml");
  EXPECT_TRUE(read.ok()) << read.status();
  return ViewOf("n", read->graph, read->graph.Declared());
}

// 3x3, 64 to 128 channels, 28x28 results: 2 * 28^2 * 128 * 64 * 9 FLOP.
TEST(OperatorWork, OfAConvolution) {
  const OperatorView dag = Parse(
      "  - {name: c, op: conv2d, inputs: ['*', '*'], shape: [1, 64, 56, 56], output: [1, 128, 28, "
      "28], attributes: {kernel_size: 3x3, groups: 1}}\n");
  const std::vector<KernelWork> kernels = GroupKernels(dag, {0});
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].flop.count(), 2.0 * 28 * 28 * 128 * 64 * 9);
}

// 3x3x3, 8 to 8 channels, 4x5x6 results: 2 * 120 * 8 * 8 * 27.
TEST(OperatorWork, OfAConvolutionOverThreeDimensions) {
  const OperatorView dag = Parse(
      "  - {name: c, op: conv3d, inputs: ['*', '*'], shape: [1, 8, 4, 5, 6], output: [1, 8, 4, 5, "
      "6], attributes: {kernel_size: 3x3x3, groups: 1}}\n");
  EXPECT_EQ(GroupKernels(dag, {0})[0].flop.count(), 2.0 * 4 * 5 * 6 * 8 * 8 * 27);
}

// x [4, 8] W [8, 16] -> + bias -> relu. Alone: the GEMM reads (32 + 128) words and writes 64,
// the sum reads 64 + 16 and writes 64, relu reads and writes 64. As one: reads 32 + 128 + 16,
// writes 64.
TEST(OperatorWork, AFusedKernelKeepsWhatPassesWithin) {
  const OperatorView dag = Parse(
      "  - {name: d, op: dense, inputs: ['*', '*'], shape: [4, 8], output: [4, 16]}\n"
      "  - {name: a, op: add, inputs: [d, '*'], shape: [4, 16], output: [4, 16]}\n"
      "  - {name: r, op: relu, inputs: [a], shape: [4, 16], output: [4, 16]}\n");
  const std::vector<KernelWork> fused = GroupKernels(dag, {0, 1, 2});
  ASSERT_EQ(fused.size(), 1U);
  EXPECT_EQ(fused[0].kind, KernelKind::kGemm);
  EXPECT_EQ(fused[0].read.count(), (32 + 128 + 16) * 4);
  EXPECT_EQ(fused[0].written.count(), 64 * 4);
  EXPECT_EQ(fused[0].flop.count(), 2.0 * 4 * 8 * 16 + 64 + 64);
}

TEST(OperatorWork, UnknownTypesHaveNone) {
  const OperatorView dag = Parse(
      "  - {name: x, op: frobnicate, inputs: ['*'], shape: [4], output: [4]}\n"
      "  - {name: r, op: relu, inputs: [x], shape: [4]}\n");
  EXPECT_TRUE(GroupKernels(dag, {0}).empty());
  EXPECT_TRUE(GroupKernels(dag, {1}).empty());  // no size of the result
  EXPECT_TRUE(GroupKernels(dag, {0, 1}).empty());
}

TEST(OperatorWork, GemmsAroundASoftmaxAreFusedAttention) {
  const OperatorView dag = Parse(
      "  - {name: s, op: batch_matmul, inputs: ['*', '*'], shape: [16, 512, 64], output: [16, 512, "
      "512]}\n"
      "  - {name: p, op: softmax, inputs: [s], shape: [16, 512, 512], output: [16, 512, 512]}\n"
      "  - {name: c, op: batch_matmul, inputs: [p, '*'], shape: [16, 512, 512], output: [16, 512, "
      "64]}\n");
  const std::vector<KernelWork> fused = GroupKernels(dag, {0, 1, 2});
  ASSERT_EQ(fused.size(), 1U);
  EXPECT_EQ(fused[0].kind, KernelKind::kAttention);
  // Both GEMMs; scores are neither read nor written.
  EXPECT_GE(fused[0].flop.count(), 4.0 * 16 * 512 * 512 * 64);
  EXPECT_LT(fused[0].written.count(), 16 * 512 * 512 * 4);
}

TransformerConfig Small() {
  TransformerConfig config;
  config.name = "small";
  config.hidden = 64;
  config.layers = 3;
  config.heads = 4;
  config.vocabulary = 100;
  config.sequence = 32;
  return WithDefaults(config);
}

TEST(ModelDag, LayersFollowEachOther) {
  const auto dag = ViewOfModel(Small(), 2);
  ASSERT_TRUE(dag.ok()) << dag.status();
  int64_t softmax = 0, without_producer = 0;
  for (const ViewedOp& op : dag->ops()) {
    softmax += op.type == "softmax" && op.name.find("router") == std::string::npos;
    EXPECT_FALSE(op.calls.empty()) << op.name;
    bool any = false;
    for (const int32_t input : op.inputs) any = any || input != kNoProducer;
    without_producer += !any;
  }
  EXPECT_GE(softmax, 3);
  // The graph is one piece: only the embedding begins without anything before it.
  EXPECT_EQ(without_producer, 1);
  EXPECT_NE(dag->Find("l0.scores"), -1);
  const int32_t second = dag->Find("l1.norm_1");
  ASSERT_NE(second, -1);
  EXPECT_EQ(dag->op(dag->op(second).inputs[0]).name, "l0.ffn_residual");
}

TEST(ModelDag, FlashAttentionMatchesEveryLayer) {
  const auto dag = ViewOfModel(Small(), 2);
  ASSERT_TRUE(dag.ok()) << dag.status();
  const auto flash =
      LoadBackend(std::string(FORETRACE_SOURCE_DIR) + "/topologies/backends/flash-attention.yaml");
  ASSERT_TRUE(flash.ok()) << flash.status();
  EXPECT_EQ(GenerateMatches(*dag, {*flash}).matches.size(), 3U);
}

}  // namespace
}  // namespace foretrace
