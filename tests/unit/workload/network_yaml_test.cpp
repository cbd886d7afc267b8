#include "simulator/workload/network_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/differentiate.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

Network Parse(const std::string& ops) {
  auto network = ParseNetwork("name: n\ndtype: float32\nops:\n" + ops, "n.yaml");
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

OperatorCall CallOf(const Network& network, OpId op) {
  const CallList calls = CallsOf(network.graph, network.graph.Declared(), op, Direction::kForward);
  EXPECT_EQ(calls.size(), 1U);
  return calls.front();
}

std::string Problem(const std::string& ops) {
  return std::string(
      ParseNetwork("name: n\ndtype: float32\nops:\n" + ops, "n.yaml").status().message());
}

// 32 channels in 4 groups: each filter has 8 of them.
TEST(NetworkFile, AConvolutionIsWhatItsTensorsSay) {
  const Network network = Parse(
      "  - {name: c, op: conv2d, inputs: ['*', '*'], shape: [2, 32, 56, 58], output: [2, 64, 28, "
      "29], attributes: {kernel_size: 3x5, groups: 4, strides: 2x2}}\n");
  EXPECT_TRUE(network.graph.Validate().ok());
  const GraphOp& op = network.graph.op(0);
  EXPECT_EQ(op.kind, GraphOpKind::kConvolution);
  EXPECT_EQ(op.function, "conv2d");
  EXPECT_EQ(op.attributes.at("strides"), "2x2");
  const Binding sizes = network.graph.Declared();
  EXPECT_EQ(Elements(network.graph, sizes, op.inputs[1]), 64 * 8 * 3 * 5);
  const OperatorCall call = CallOf(network, 0);
  const auto& conv = std::get<Conv2dOp>(call.shape);
  EXPECT_EQ(conv.n, 2);
  EXPECT_EQ(conv.c, 32);
  EXPECT_EQ(conv.k, 64);
  EXPECT_EQ(conv.h, 56);
  EXPECT_EQ(conv.w, 58);
  EXPECT_EQ(conv.r, 3);
  EXPECT_EQ(conv.s, 5);
  EXPECT_EQ(conv.oh, 28);
  EXPECT_EQ(conv.ow, 29);
  EXPECT_EQ(conv.groups, 4);
  EXPECT_EQ(TotalWork(call).flop.count(), 2.0 * 2 * 28 * 29 * 64 * 8 * 15);
  EXPECT_EQ(GemmFlop(network.graph, sizes, 1), TotalWork(call).flop);
}

// Gradients of a convolution take as many multiplications as itself, twice.
TEST(NetworkFile, AConvolutionHasBothGradients) {
  const Network network = Parse(
      "  - {name: c, op: conv2d, inputs: ['*', '*'], shape: [2, 32, 28, 28], output: [2, 64, 28, "
      "28], attributes: {kernel_size: 3x3, groups: 1}}\n"
      "  - {name: r, op: relu, inputs: [c], shape: [2, 64, 28, 28], output: [2, 64, 28, 28]}\n");
  const Binding sizes = network.graph.Declared();
  const BackwardWork work = Differentiate(network.graph, sizes, 0);
  ASSERT_EQ(work.input.size(), 1U);
  ASSERT_EQ(work.weights.size(), 1U);
  EXPECT_EQ(work.input[0].flop.count(), 2.0 * 2 * 28 * 28 * 64 * 32 * 9);
  EXPECT_EQ(work.weights[0].flop.count(), work.input[0].flop.count());
  // relu's reads the result's gradient and what it kept, and writes one gradient.
  const KernelWork relu = Differentiate(network.graph, sizes, 1).input[0];
  EXPECT_EQ(relu.read.count(), 2 * 2 * 64 * 28 * 28 * 4);
  EXPECT_EQ(relu.written.count(), 2 * 64 * 28 * 28 * 4);
}

TEST(NetworkFile, OperatorsHaveTheWorkOfTheirTensors) {
  const Network network = Parse(
      "  - {name: a, op: dense, inputs: ['*', '*'], shape: [6, 8], output: [6, 16]}\n"
      "  - {name: b, op: biasadd, inputs: [a, '*'], shape: [6, 16], output: [6, 16]}\n"
      "  - {name: m, op: batch_matmul, inputs: ['*', '*'], shape: [2, 3, 4], output: [2, 3, 5]}\n"
      "  - {name: p, op: maxpool2d, inputs: ['*'], shape: [1, 4, 8, 8], output: [1, 4, 4, 4], "
      "attributes: {pool_size: 3x3}}\n"
      "  - {name: g, op: global_avgpool, inputs: [p], shape: [1, 4, 4, 4], output: [1, 4, 1, 1]}\n"
      "  - {name: t, op: transpose, inputs: [p], shape: [1, 4, 4, 4], output: [1, 4, 4, 4]}\n"
      "  - {name: s, op: add, inputs: [t, g], shape: [1, 4, 4, 4], output: [1, 4, 4, 4]}\n");
  EXPECT_EQ(network.graph.ops().size(), 7U);
  const auto linear = std::get<LinearOp>(CallOf(network, 0).shape);
  EXPECT_EQ(linear.m, 6);
  EXPECT_EQ(linear.n, 16);
  EXPECT_EQ(linear.k, 8);
  // A bias by channel, the second axis.
  EXPECT_EQ(std::get<ElementwiseOp>(CallOf(network, 1).shape).read_elements, 6 * 16 + 16);
  const auto gemm = std::get<BatchedMatmulOp>(CallOf(network, 2).shape);
  EXPECT_EQ(gemm.b, 2);
  EXPECT_EQ(gemm.m, 3);
  EXPECT_EQ(gemm.n, 5);
  EXPECT_EQ(gemm.k, 4);
  EXPECT_EQ(std::get<PoolOp>(CallOf(network, 3).shape).window, 9);
  EXPECT_EQ(std::get<ReductionOp>(CallOf(network, 4).shape).rows, 4);
  EXPECT_EQ(std::get<ReductionOp>(CallOf(network, 4).shape).cols, 16);
  EXPECT_TRUE(std::get<CopyOp>(CallOf(network, 5).shape).strided);
  // Broadcast operands count at their own size.
  EXPECT_EQ(std::get<ElementwiseOp>(CallOf(network, 6).shape).read_elements, 64 + 4);
}

TEST(NetworkFile, WhatIsNotKnownIsOpaque) {
  const Network network = Parse(
      "  - {name: a, op: frobnicate, inputs: ['*'], shape: [4], output: [4]}\n"
      "  - {name: b, op: relu, inputs: [a], shape: [4]}\n"
      "  - {name: c, op: relu, inputs: [b], shape: [2, 2], output: [2, 2]}\n"
      "  - {name: d, op: conv2d, inputs: [c, '*'], shape: [2, 2], output: [2, 2]}\n");
  const std::vector<GraphOpKind> kinds = {GraphOpKind::kOpaque, GraphOpKind::kOpaque,
                                          GraphOpKind::kElementwise, GraphOpKind::kOpaque};
  for (OpId op = 0; op < 4; ++op) {
    EXPECT_EQ(network.graph.op(op).kind, kinds[static_cast<size_t>(op)]) << op;
  }
  // Of the result without a size the reader says it.
  const TensorId read = network.graph.op(2).inputs[0];
  EXPECT_EQ(network.graph.tensor(read).producer, 1);
  EXPECT_EQ(Elements(network.graph, network.graph.Declared(), read), 4);
}

TEST(NetworkFile, BadOnesSayWhere) {
  EXPECT_THAT(Problem("  - {name: a, op: relu, inputs: [b], shape: [1]}\n"),
              HasSubstr("'b' is no operator before"));
  EXPECT_THAT(Problem("  - {name: a, op: relu, inputs: ['*'], shape: [4], output: [4]}\n"
                      "  - {name: b, op: relu, inputs: [a], shape: [5], output: [5]}\n"),
              HasSubstr("the first input is [4]"));
  EXPECT_THAT(Problem("  - {name: a, op: relu, inputs: [], shape: [4], output: [4]}\n"),
              HasSubstr("reads something"));
  EXPECT_THAT(Problem("  - {name: c, op: conv2d, inputs: ['*', '*'], shape: [1, 6, 4, 4], output: "
                      "[1, 8, 4, 4], attributes: {kernel_size: 1x1, groups: 4}}\n"),
              HasSubstr("4 groups do not divide 6 and 8 channels"));
  EXPECT_THAT(Problem("  - {name: a, op: relu, inputs: ['*'], shape: [4], output: [4]}\n"
                      "  - {name: a, op: relu, inputs: ['*'], shape: [4], output: [4]}\n"),
              HasSubstr("another operator already"));
}

TEST(NetworkFile, EveryShippedNetworkIsWhole) {
  const auto folder = std::filesystem::path(FORETRACE_SOURCE_DIR) / "traces/networks";
  int networks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto network = LoadNetwork(entry.path());
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_TRUE(network->graph.Validate().ok()) << entry.path();
    const Binding sizes = network->graph.Declared();
    for (OpId op = 0; static_cast<size_t>(op) < network->graph.ops().size(); ++op) {
      EXPECT_FALSE(CallsOf(network->graph, sizes, op, Direction::kForward).empty())
          << network->name << " " << network->graph.op(op).name;
    }
    ++networks;
  }
  EXPECT_GE(networks, 12);
}

// Multiplications of ResNet-50 for an image of 224 x 224: 3.8e9 (He et al., table 1), with the
// stride in the 3x3 convolution 4.1e9 (torchvision: 4.09e9), of which batch normalisation has none.
TEST(NetworkFile, ResNet50HasItsPublishedWork) {
  const auto network =
      LoadNetwork(std::string(FORETRACE_SOURCE_DIR) + "/traces/networks/resnet50-whole.yaml");
  ASSERT_TRUE(network.ok()) << network.status();
  const double gemms = GemmFlop(network->graph, network->graph.Declared(), 1).count() / 2;
  EXPECT_NEAR(gemms, 4.09e9, 0.01e9);
}

}  // namespace
}  // namespace foretrace
