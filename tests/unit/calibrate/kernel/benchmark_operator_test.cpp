#include "simulator/calibrate/kernel/benchmark_operator.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>

#include "simulator/calibrate/kernel/uncalibrated_kernels.h"

namespace foretrace {
namespace {

BenchmarkTable Parsed(std::string_view op, std::string_view phase, std::string_view shape) {
  const std::string text =
      std::string("kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source\n") +
      "kernel," + std::string(op) + "," + std::string(phase) + ",h100-sxm5-lab,bfloat16," +
      std::string(shape) + ",10,0,1,x,y\n";
  const auto table = ParseBenchmarkCsv("t.csv", text);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *table : BenchmarkTable();
}

OperatorCall CallOf(std::string_view op, std::string_view phase, std::string_view shape) {
  const auto call = OperatorOfRow(Parsed(op, phase, shape).rows.at(0));
  EXPECT_TRUE(call.ok()) << call.status();
  return call->op;
}

// A gelu reads what it is of, its gradient the result's and that.
TEST(BenchmarkOperator, GradientsReadWhatWasKept) {
  const auto reads = [](std::string_view phase, std::string_view op) {
    const std::string shape = "elements=1000;inputs=1;op=" + std::string(op);
    return std::get<ElementwiseOp>(CallOf("elementwise", phase, shape).shape).read_elements;
  };
  EXPECT_EQ(reads("forward", "gelu"), 1000);
  EXPECT_EQ(reads("backward", "gelu"), 2000);
  EXPECT_EQ(reads("backward", "relu"), 2000);
}

// Three matrices of 5 x 5 have 10 elements each below the diagonal, picked one by one.
TEST(BenchmarkOperator, TrianglesArePicked) {
  const auto op = std::get<IndexOp>(CallOf("tril", "forward", "n=5;b=3").shape);
  EXPECT_EQ(op.elements, 30);
  EXPECT_EQ(op.index_count, 30);
}

// Gradients of weights sum over tokens, along which neither operand lies: 154 of them are loaded 16
// bytes at once.
TEST(BenchmarkOperator, OperandsLieAsTheRowSays) {
  const auto kernel = [](std::string_view op, std::string_view shape) {
    const auto call = OperatorOfRow(Parsed(op, "forward", shape).rows.at(0));
    EXPECT_TRUE(call.ok()) << call.status();
    return call->kernels[0];
  };
  EXPECT_EQ(kernel("linear", "m=64;n=32;k=16").across_reduction, 0);
  EXPECT_EQ(kernel("linear", "m=64;n=32;k=16;across=1").across_reduction, 1);
  EXPECT_EQ(kernel("bmm", "b=2;m=64;n=32;k=16").across_reduction, 1);
  EXPECT_EQ(kernel("bmm", "b=2;m=64;n=32;k=16;across=0").across_reduction, 0);
  EXPECT_EQ(kernel("bmm", "b=160;m=3072;n=5120;k=154").load_elements, 0);
  EXPECT_EQ(kernel("bmm", "b=160;m=3072;n=5120;k=154;across=2").load_elements, 8);
}

// The product of gradient and result comes first; the row is the softmax's.
TEST(BenchmarkOperator, GradientsOfASoftmaxAreNamedAfterIt) {
  const BenchmarkTable table = Parsed("softmax", "backward", "rows=64;cols=512");
  const auto rows = UncalibratedKernels().Evaluate(table.rows);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].model, "softmax/warp backward");
}

// PyTorch's flash backend is FlashAttention-2, written for Ampere, on whichever device; what a
// table of an engine calls flash is that engine's own kernel.
TEST(BenchmarkOperator, FlashAttentionOfPyTorchIsOfWarps) {
  const auto by_warps = [](std::string_view impl, std::string_view library) {
    const std::string shape = "b=2;heads=8;kv_heads=8;sq=512;skv=512;d=64;causal=1;impl=";
    BenchmarkRow row = Parsed("attention", "forward", shape + std::string(impl)).rows.at(0);
    row.library = library;
    const auto call = OperatorOfRow(row);
    EXPECT_TRUE(call.ok()) << call.status();
    return call->kernels[0].by_warps;
  };
  EXPECT_TRUE(by_warps("flash", "torch-2.11.0+cu130;timing=cupti;l2=cold"));
  EXPECT_FALSE(by_warps("math", "torch-2.11.0+cu130;timing=cupti;l2=cold"));
  EXPECT_FALSE(by_warps("flash", "trtllm 1.0"));
  EXPECT_FALSE(by_warps("flash", "torch 2.10"));  // as PyTorch chooses
  EXPECT_TRUE(by_warps("flash2", "torch 2.10"));
}

// Gradients of FlashAttention-2 are of every query head: 8 of them share 2 of keys and of values,
// whose four gradients each a sum makes one.
TEST(BenchmarkOperator, FlashAttention2SumsGradientsOfSharedHeads) {
  const auto kernels = [](std::string_view phase) {
    const auto call =
        OperatorOfRow(Parsed("attention", phase,
                             "b=3;heads=8;kv_heads=2;sq=512;skv=512;d=64;causal=1;impl=flash2")
                          .rows.at(0));
    EXPECT_TRUE(call.ok()) << call.status();
    return call->kernels;
  };
  EXPECT_EQ(kernels("forward").size(), 1u);
  const KernelList gradients = kernels("backward");
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_EQ(gradients[2].kind, KernelKind::kReduction);
  EXPECT_EQ(gradients[2].read, Bytes(3 * 8 * 512 * 64 * 2));
  EXPECT_EQ(gradients[2].written, Bytes(3 * 2 * 512 * 64 * 2));
}

}  // namespace
}  // namespace foretrace
